"""`python -m bench.explain`: breakdown, difference and figures of two runs of a million events and samples each.

Prints seconds, and their ratio to the time that reading the two tables alone takes in the same process.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from core.explain.breakdown import breakdown
from core.explain.difference import difference
from core.explain.evidence import read_evidence
from core.plots.breakdown import bars, waterfall
from core.plots.timeline import timeline
from core.runfolder.layout import RunFolder
from core.runfolder.tables import EVENTS, SAMPLES, TableWriter, read_table
from core.runs.home import open_home
from tests.make_run import make_run

ROWS = 1_000_000
MIB = 2**20


def fill(folder: RunFolder, seed: int) -> None:
    """A pool of 2,000 blocks that come and go, and a card that is polled as often."""
    random = np.random.default_rng(seed)
    t_ns = np.linspace(5_000_000_000, 65_000_000_000, ROWS).astype(np.int64)
    slots = np.arange(ROWS // 2) % 2000
    sizes = random.integers(1, 4 * MIB, 2000)
    action = np.where(np.arange(ROWS) % 2 == 0, "alloc", "free")
    order = np.concatenate([slots[:, None], np.roll(slots, 1000)[:, None]], axis=1).reshape(-1)
    modules = np.asarray([f"model.layers.{n % 32}.self_attn" for n in range(64)])
    events = pa.table(
        {
            "t_ns": t_ns,
            "step": np.linspace(0, 4, ROWS),
            "action": pa.array(action).dictionary_encode(),
            "addr": (order.astype(np.uint64) + 1) << np.uint64(24),
            "size": sizes[order],
            "stream": np.zeros(ROWS, dtype=np.uint64),
            "category": pa.nulls(ROWS, pa.string()).dictionary_encode(),
            "origin": pa.nulls(ROWS, pa.string()).dictionary_encode(),
            "module": pa.array(modules[order % 64]).dictionary_encode(),
        }
    )
    with TableWriter(folder.events, EVENTS) as writer:
        writer.write_table(events)
    used = (2 * 2**30 + random.integers(0, 2**30, ROWS)).astype(np.int64)
    nothing = np.zeros(ROWS, dtype=np.int64)
    columns = [t_ns, used + 700 * MIB, used, nothing, used]
    with TableWriter(folder.samples, SAMPLES) as writer:
        writer.write_table(pa.table(dict(zip(SAMPLES.names, columns, strict=True))))


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        home = open_home(Path(root))
        folders = [make_run(home, f"aaaaaa-{n}") for n in (1, 2)]
        for seed, folder in enumerate(folders):
            fill(folder, seed)
        started = time.perf_counter()
        for folder in folders:
            read_table(folder.events, EVENTS)
            read_table(folder.samples, SAMPLES)
        read = time.perf_counter() - started
        started = time.perf_counter()
        evidence = [read_evidence(folder) for folder in folders]
        found = [breakdown(one) for one in evidence]
        explained = time.perf_counter() - started
        figures = [bars(found), waterfall(difference(*found))]
        figures.append(timeline([one.trace for one in evidence], ["device_used", "allocated"], "step"))
        drawn = time.perf_counter() - started
        payload = sum(len(figure.to_json()) for figure in figures)
    print(f"reading {read:.3f} s, breakdowns {explained:.2f} s, with difference and figures {drawn:.2f} s")
    print(f"ratio to reading: {drawn / read:.1f}; figures {payload / MIB:.2f} MiB")


if __name__ == "__main__":
    main()
