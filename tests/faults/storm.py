"""Kills a supervisor again and again, and lets many processes submit at once; counts what became of the runs.

`bench/faults.py` does the same at full size.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from core.runfolder.jsonio import read_json, read_json_lines
from core.runs.home import DataHome, open_home
from core.runs.start import look_after, supervisor_runs
from core.runs.status import read_status
from tests.runs.conftest import kill_supervisors, starts

ROOT = Path(__file__).resolve().parents[2]
CARDS = ("cuda:GPU-aaaa", "cuda:GPU-bbbb")


@dataclass(frozen=True)
class Counts:
    """injected: supervisors killed. survived: after how many of them all went on. lost: runs without an end."""

    injected: int
    survived: int
    lost: int


class Storm:
    """SIGKILL at random moments: while it starts, adopts, launches, watches, finishes."""

    def __init__(self, home: DataHome, choose: random.Random) -> None:
        self.home = home
        self.choose = choose

    def kill(self, times: int, run_ids: Sequence[str], patience_s: float = 240) -> Counts:
        """Kill `times` supervisors, then let the queue drain. Each is given between nothing and a second to work.

        One of the runs has to be `until:go`, so that there is work as long as there are kills.
        """
        injected = 0
        deadline = time.monotonic() + patience_s + 5 * times
        while injected < times and time.monotonic() < deadline:
            look_after(self.home)
            time.sleep(self.choose.uniform(0, 1))
            injected += kill_supervisors(self.home)
        survived = injected
        for run_id in run_ids:
            (self.home.run(run_id).root / "go").touch()
        while not self._all_ended(run_ids) and time.monotonic() < deadline:
            look_after(self.home)
            time.sleep(0.1)
        lost = sum(not self._ended(run_id) for run_id in run_ids)
        return Counts(injected, survived if not lost else 0, lost)

    def _ended(self, run_id: str) -> bool:
        status = read_status(self.home.run(run_id))
        return status is not None and status.ended

    def _all_ended(self, run_ids: Sequence[str]) -> bool:
        return all(self._ended(run_id) for run_id in run_ids)


@dataclass(frozen=True)
class Verdict:
    """What became of runs: by state, and how many were started twice or have no end."""

    states: Counter[str]
    twice: int
    forgotten: int
    without_samples: int


def judged(home: DataHome, run_ids: Sequence[str]) -> Verdict:
    """Look at what each run left. A run that is `lost` has to have kept what was flushed of its phases."""
    states: Counter[str] = Counter()
    twice = forgotten = without = 0
    for run_id in run_ids:
        status = read_status(home.run(run_id))
        states[status.state if status else "none"] += 1
        twice += len(starts(home, run_id)) > 1
        forgotten += status is None or not status.ended
        without += bool(status and status.state == "lost" and not read_json_lines(home.run(run_id).phases))
    return Verdict(states, twice, forgotten, without)


@dataclass(frozen=True)
class CrowdVerdict:
    """shared: moments at which a card had two runs. out_of_order: runs that started before an earlier one's start."""

    submitted: int
    ended: int
    twice: int
    forgotten: int
    shared: int
    out_of_order: int
    seconds: float


def crowd(place: Path, processes: int, runs_each: int, patience_s: float = 240) -> CrowdVerdict:
    """`processes` submit `runs_each` runs each to two scripted cards, all at once, one experiment after another."""
    home = open_home(place / "home")
    began = time.monotonic()
    supervisor = subprocess.Popen([sys.executable, "-m", "tests.faults.two_cards", str(home.root)], cwd=ROOT)
    while not supervisor_runs(home):
        assert supervisor.poll() is None and time.monotonic() - began < 60, "the supervisor does not start"
        time.sleep(0.05)
    clients = [
        subprocess.Popen([sys.executable, "-m", "tests.faults.submitter", str(home.root), str(runs_each)], cwd=ROOT)
        for _ in range(processes)
    ]
    try:
        assert [client.wait(patience_s) for client in clients] == [0] * processes
        deadline = time.monotonic() + patience_s
        while any(home.queue.iterdir()) and time.monotonic() < deadline:
            assert supervisor.poll() is None, "the supervisor has ended"
            time.sleep(0.1)
    finally:
        for process in (*clients, supervisor):
            process.kill()
            process.wait()
    return _looked_over(home, time.monotonic() - began)


def _looked_over(home: DataHome, seconds: float) -> CrowdVerdict:
    ids = sorted(path.name for path in home.runs.iterdir())
    spans: dict[str, list[tuple[float, int, int, int]]] = {card: [] for card in CARDS}
    ended = twice = 0
    for run_id in ids:
        folder = home.run(run_id)
        status, document = read_status(folder), read_json(folder.spec)
        assert document is not None
        pids = starts(home, run_id)
        twice += len(pids) > 1
        if status is None or not status.ended or not pids:
            continue
        ended += 1
        marks = {row["name"]: row for row in read_json_lines(folder.phases) if row["t_end"]}
        begin, end = marks["load"]["t_start"], marks["load"]["t_end"]
        position = int(run_id.rpartition("-")[2])
        spans[document["spec"]["device"]].append((status.submitted_at, position, begin, end))
    shared = out_of_order = 0
    for runs in spans.values():
        by_start = sorted(runs, key=lambda run: run[2])
        shared += sum(later[2] < earlier[3] for earlier, later in pairwise(by_start))
        out_of_order += sum(a != b for a, b in zip(by_start, sorted(runs), strict=True))
    return CrowdVerdict(len(ids), ended, twice, len(ids) - ended, shared, out_of_order, seconds)
