"""A data folder whose runs are acted by `tests/fake_worker.py`, so that the queue is tested without torch."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from core.runs.home import DataHome, open_home
from core.runs.start import supervisor_runs
from core.runs.status import RunStatus, read_status
from core.runs.submit import PreparedRun, Submitted, submit
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec

FAKE_WORKER = Path(__file__).resolve().parents[1] / "fake_worker.py"

Acts = Callable[..., Submitted]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DataHome]:
    """A data folder with the environment `fake`; whatever still runs in it is ended afterwards."""
    home = open_home(tmp_path / "home")
    scripted(home, tmp_path)
    yield home
    for process in supervisors(home):
        process.kill()
    for path in home.runs.glob("*/starts"):
        for pid in path.read_text().split():
            _kill_group(int(pid))


def scripted(home: DataHome, place: Path) -> None:
    """Give a data folder the environment `fake`, whose interpreter is the scripted worker, and two slots for it."""
    interpreter = place / "fake_python"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE_WORKER} "$@"\n')
    interpreter.chmod(0o755)
    settings = {"cpu_slots": 2, "environments": {"fake": {"interpreter": str(interpreter)}}}
    home.settings.write_text(json.dumps(settings))


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, 9)
    except (ProcessLookupError, PermissionError):
        pass  # ended, as it should have


def supervisors(home: DataHome) -> list[psutil.Process]:
    command = ["-m", "core.runs.supervisor", str(home.root)]
    return [process for process in psutil.process_iter(["cmdline"]) if (process.info["cmdline"] or [])[-3:] == command]


@pytest.fixture
def act(home: DataHome) -> Acts:
    """Submit runs that act as the words say, in their order: `act("finish", "crash")`."""

    def queue(*acts: str, timeout_s: float = 60) -> Submitted:
        spec = parse_spec(
            {
                "model": "tiny-llama",
                "device": "cpu",
                "environment": "fake",
                "timeout_s": timeout_s,
                "record_interval_ms": 20,
            }
        )
        runs = [PreparedRun(spec, resolve(spec), (), word) for word in acts]
        return submit(home, runs, f"acts {' '.join(acts)}")

    return queue


def wait_for(home: DataHome, run_id: str, until: Callable[[RunStatus], bool], seconds: float = 60) -> RunStatus:
    """The status of a run once `until` holds; fails the test when it does not in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = read_status(home.run(run_id))
        if status and until(status):
            return status
        time.sleep(0.02)
    log = home.supervisor_log.read_text() if home.supervisor_log.exists() else "no supervisor log"
    raise AssertionError(f"{run_id} is {status and status.state}, supervisor said:\n{log[-3000:]}")


def eventually(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until `holds`; fails the test with `what` when it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody has reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def starts(home: DataHome, run_id: str) -> list[int]:
    """The pids of the workers that were started for a run; more than one would be a run that ran twice."""
    path = home.runs / run_id / "starts"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def kill_supervisors(home: DataHome) -> int:
    """SIGKILL, and wait: until a process is dead it holds its lock. How many there were."""
    found = supervisors(home)
    for process in found:
        try:
            process.kill()
            process.wait(30)
        except psutil.NoSuchProcess:
            pass  # ended by itself meanwhile
    return len(found)


def wait_ended(home: DataHome, run_id: str, seconds: float = 60) -> RunStatus:
    return wait_for(home, run_id, lambda status: status.ended, seconds)


def supervisor_ended(home: DataHome) -> bool:
    return not supervisor_runs(home)
