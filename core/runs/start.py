"""Starts the supervisor where none runs."""

from __future__ import annotations

import subprocess
import sys

from filelock import FileLock, Timeout

from core.runs.environment import PROJECT_ROOT, supervisor_environment
from core.runs.home import DataHome


def supervisor_runs(home: DataHome) -> bool:
    """Whether a supervisor holds the data folder's lock now."""
    lock = FileLock(home.supervisor_lock)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def look_after(home: DataHome) -> None:
    """Start a supervisor where runs wait or are under way and none works on them: it was killed, or was dying just
    when the last run was queued. For whoever watches runs; asking again every few seconds is cheap."""
    if any(home.queue.iterdir()):
        with FileLock(home.submit_lock):
            ensure_supervisor(home)


def ensure_supervisor(home: DataHome) -> None:
    """Start a detached supervisor unless one runs. Call with the submit lock held, so that none ends meanwhile.

    Two that start at the same time are no harm: the second finds the lock taken and ends.
    """
    if supervisor_runs(home):
        return
    with home.supervisor_log.open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "core.runs.supervisor", str(home.root)],
            cwd=PROJECT_ROOT,
            env=supervisor_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
