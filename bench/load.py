"""`python -m bench.load [pages|day]`: the app and the runner under load; prints JSON.

pages: 50 sessions (websocket clients) read Compare, each looking anew every 10 to 30 seconds, while a queue of 4 runs
on the CPU drains. Wanted: no session error, p95 of an interaction under 1 s, 99 % of the sampler's gaps under 3
intervals. day: 10,000 runs in 24 hours of a clock that is moved by hand. Wanted: open files, threads and memory grow by
no more than 5 % between the 1,000th and the last.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np
import psutil
import pytest

from core.runfolder.tables import SAMPLES, read_table
from core.runs.home import open_home
from core.runs.status import read_status
from core.runs.submit import PreparedRun, submit
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
from tests.faults.day import Day
from tests.make_run import make_run
from tests.ui.client import Session, kinds, served

SESSIONS, RUNS_IN_QUEUE = 50, 4
THINK_S = (10.0, 30.0)
JOB = {"model": "tiny-llama", "device": "cpu", "dtype": "fp32", "batch_size": 8, "prompt_tokens": 64, "new_tokens": 64}
REPEATS = 4
DAY_RUNS, WARM_UP = 10_000, 1_000


class Reader(threading.Thread):
    """One visitor: opens Compare, then looks at it along the other axis again and again."""

    def __init__(self, port: int, query: str, until: threading.Event, seed: int) -> None:
        super().__init__(daemon=True)
        self.port, self.query, self.until, self.choose = port, query, until, random.Random(seed)
        self.took: list[float] = []
        self.errors: list[str] = []

    def run(self) -> None:
        try:
            self.until.wait(self.choose.uniform(0, THINK_S[1]))
            with Session(self.port) as session:
                session.open("Compare", self.query)  # the first visit draws all of it, as a page load
                while not self.until.wait(self.choose.uniform(*THINK_S)):
                    axis = self.choose.choice(("seconds", "step"))
                    began = time.perf_counter()
                    elements = session.open("Compare", f"{self.query}&axis={axis}")
                    self.took.append(time.perf_counter() - began)
                    if "exception" in kinds(elements):
                        self.errors.append("an exception on the page")
        except Exception as error:  # noqa: BLE001 - whatever ends a session is what is counted
            self.errors.append(f"{type(error).__name__}: {error}"[:200])


def pages(place: Path) -> dict[str, Any]:
    """The readers and the queue side by side, until the last run has ended."""
    home = open_home(place / "home")
    for number in range(1, 5):
        make_run(home, f"aaaaaa-{number}", wrap="ddp" if number % 2 else "none")
    spec = parse_spec({**JOB, "repeats": REPEATS})
    until = threading.Event()
    with served(home) as port:
        readers = [Reader(port, f"runs=aaaaaa-{n % 4 + 1},aaaaaa-{(n + 1) % 4 + 1}", until, n) for n in range(SESSIONS)]
        for reader in readers:
            reader.start()
        ids = submit(home, [PreparedRun(spec, resolve(spec), ())] * RUNS_IN_QUEUE).run_ids
        began = time.monotonic()
        while not all((status := read_status(home.run(i))) and status.ended for i in ids):
            time.sleep(1)
        drained = time.monotonic() - began
        until.set()
        for reader in readers:
            reader.join(120)
    took = [seconds for reader in readers for seconds in reader.took]
    gaps = np.concatenate([np.diff(read_table(home.run(i).samples, SAMPLES)["t_ns"].to_numpy()) / 1e6 for i in ids])
    states = [status.state for i in ids if (status := read_status(home.run(i)))]
    return {
        "cores": psutil.cpu_count(),
        "load_average": os.getloadavg()[0],
        "sessions": SESSIONS,
        "interactions": len(took),
        "interaction_s_p50": round(quantiles(took, n=100)[49], 3),
        "interaction_s_p95": round(quantiles(took, n=100)[94], 3),
        "session_errors": [error for reader in readers for error in reader.errors],
        "runs": states,
        "queue_s": round(drained, 1),
        "sampler_interval_ms": spec.record_interval_ms,
        "sampler_gap_ms_p50": round(float(np.percentile(gaps, 50)), 2),
        "sampler_gap_ms_p99": round(float(np.percentile(gaps, 99)), 2),
    }


def day(place: Path) -> dict[str, Any]:
    """A supervisor in this process, its clock moved by hand, its workers acted."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        one = Day(place, DAY_RUNS, monkeypatch)
        began = time.perf_counter()
        one.pass_(WARM_UP)
        before = one.footprint()
        one.pass_(DAY_RUNS - WARM_UP)
        after = one.footprint()
    growth = {name: round(getattr(after, name) / max(1, getattr(before, name)) - 1, 4) for name in asdict(after)}
    return {
        "runs": DAY_RUNS,
        f"after_{WARM_UP}": asdict(before),
        "at_the_end": asdict(after),
        "growth": growth,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main(*names: str) -> None:
    parts = {"pages": pages, "day": day}
    found = {}
    for name in names or tuple(parts):
        with tempfile.TemporaryDirectory() as place:
            found[name] = parts[name](Path(place))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
