"""Many runs through one supervisor with a clock that a test moves: what grows with the number of runs is a leak."""

from __future__ import annotations

import gc
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.runfolder.jsonio import write_json
from core.runfolder.layout import RunFolder
from tests.fake_nvml import FakeCard, FakeNvml
from tests.faults.inside import Inside

DAY_S = 86_400
AT_ONCE = 50
"""Runs of one experiment; the next is submitted when they have ended."""


@dataclass(frozen=True)
class Footprint:
    """What the process holds: open files, threads, resident bytes, and entries of the supervisor's own tables."""

    files: int
    threads: int
    bytes: int
    entries: int


class Clock:
    """Stands in for every clock that the runner reads."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "monotonic_ns", lambda: round(self.now * 1e9))
        monkeypatch.setattr(time, "time", lambda: 1.7e9 + self.now)
        monkeypatch.setattr(time, "time_ns", lambda: round((1.7e9 + self.now) * 1e9))


class Acted:
    """A process that ends when the clock says so."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.pid = 2**22 + 1  # above the kernel's largest
        self.returncode: int | None = None
        self._clock, self._until = clock, clock.now + seconds

    def poll(self) -> int | None:
        if self._clock.now >= self._until:
            self.returncode = 0
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        return self.poll()

    def kill(self) -> None:
        self._until = 0

    terminate = kill


class Day:
    """A day of `runs` runs on one scripted card, each of as many seconds as there is time for."""

    def __init__(self, place: Path, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.runs = Clock(), runs
        self.inside = Inside(place, FakeNvml(FakeCard("GPU-aaaa")), monkeypatch)
        self.clock.patch(monkeypatch)
        monkeypatch.setattr("core.runs.supervisor.launching.start_worker", self._worker)
        monkeypatch.setattr("core.runs.supervisor.launching.start_sampler", self._sampler)
        monkeypatch.setattr("core.runs.supervisor.job.sweep", lambda run_id: [])

    @property
    def seconds_each(self) -> float:
        return DAY_S / self.runs

    def _worker(self, folder: RunFolder, *_: Any) -> Any:
        began = time.monotonic_ns()
        row = {"name": "load", "index": 0, "t_start": began, "t_end": began + 1, "step_start": 0, "step_end": 0}
        folder.phases.write_text(json.dumps(row) + "\n")
        write_json(folder.result, {"outcome": "finished", "error": None, "peak": {"allocated": 7, "reserved": 9}})
        return Acted(self.clock, self.seconds_each * 0.8)

    def _sampler(self, folder: RunFolder, *_: Any) -> Any:
        return Acted(self.clock, self.seconds_each * 0.85)

    def pass_(self, count: int) -> None:
        """Let `count` more runs go through."""
        done = 0
        while done < count:
            size = min(AT_ONCE, count - done)
            ids = self.inside.submit(*["finish"] * size, device="cuda:GPU-aaaa")
            while any(self.inside.home.queue.iterdir()):
                self.inside.supervisor.tick()
                self.clock.now += self.seconds_each / 4
            assert all(self.inside.status(run_id).state == "finished" for run_id in ids)
            done += size

    def footprint(self) -> Footprint:
        gc.collect()
        me, supervisor = psutil.Process(), self.inside.supervisor
        tables: tuple[dict[str, Any], ...] = (
            supervisor.jobs, supervisor.finishing, supervisor.held_back, supervisor.devices, supervisor.records.refused,
            supervisor.cards._meters,
        )  # fmt: skip
        return Footprint(
            me.num_fds(),
            me.num_threads(),
            me.memory_info().rss,
            sum(len(table) for table in tables),
        )


def children() -> int:
    """Processes of this one that have not been reaped, or still run."""
    subprocess._cleanup()  # type: ignore[attr-defined]  # reaps those that nobody holds any more
    return len(psutil.Process().children())
