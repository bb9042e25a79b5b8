"""`python -m bench.listing [RUNS]`: how long it takes to list runs, and to build their index again.

Makes a data folder with that many small run folders (10,000 by default) in a temporary place. Prints JSON: seconds, and
the ratio to reading one status file as often as there are runs, which is what listing without an index would cost.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder
from core.runs.home import DataHome, open_home
from core.runs.status import Peak, RunStatus, write_status
from core.runs.store import Store
from core.spec.run_spec import parse_spec


def make(home: DataHome, count: int) -> None:
    """Write `count` ended runs of 10 to an experiment, without their traces."""
    spec = parse_spec({"model": "tiny-llama", "device": "cpu"}).to_dict()
    for number in range(count):
        experiment, position = f"x{number // 10:05d}", number % 10 + 1
        folder = RunFolder(home.runs / f"{experiment}-{position}")
        folder.root.mkdir()
        write_json(folder.spec, {"run_id": folder.run_id, "label": f"run {number}", "spec": spec})
        peak = Peak(allocated=number * 2**20, reserved=number * 2**21)
        write_status(folder, RunStatus(folder.run_id, experiment, "finished", float(number), peak=peak))
        if position == 1:
            write_json(home.experiments / f"{experiment}.json", {"title": f"experiment {number}", "created_at": number})


def seconds(call: Callable[[], object], times: int = 5) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return median(taken)


def main(count: int = 10_000) -> None:
    with tempfile.TemporaryDirectory() as place:
        home = open_home(Path(place))
        make(home, count)
        store = Store(home)
        status = RunFolder(home.runs / "x00000-1").status
        figures = {
            "runs": count,
            "reindex_s": seconds(store.reindex, 1),
            "list_all_s": seconds(store.list_runs),
            "list_50_s": seconds(lambda: store.list_runs(limit=50)),
            "search_s": seconds(lambda: store.list_runs(text="run 77")),
            "experiments_20_s": seconds(lambda: store.list_experiments(limit=20)),
            "read_one_status_s": seconds(lambda: read_json(status), 200),
        }
        figures["list_all_over_reading_folders"] = figures["list_all_s"] / (figures["read_one_status_s"] * count)
        print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
