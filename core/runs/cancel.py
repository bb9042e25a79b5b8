"""Asks for runs to be cancelled; the supervisor does it."""

from __future__ import annotations

from collections.abc import Iterable

from filelock import FileLock

from core.runs.home import DataHome
from core.runs.start import ensure_supervisor
from core.runs.status import read_status


def cancel(home: DataHome, run_ids: Iterable[str]) -> list[str]:
    """Mark runs as to be cancelled and return the ids of those that had not ended. Doing it twice changes nothing.

    Raises NoSuchRun before anything is marked when one of the ids does not exist.
    """
    folders = [home.run(run_id) for run_id in run_ids]
    marked = []
    for folder in folders:
        status = read_status(folder)
        if status is None or not status.ended:
            folder.cancel.touch()
            marked.append(folder.run_id)
    if marked:
        with FileLock(home.submit_lock):
            ensure_supervisor(home)
    return marked
