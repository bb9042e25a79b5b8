"""`python -m core.sampler RUN_DIR DEVICE_ID INTERVAL_MS`: polls memory until the run's worker has gone.

A process of its own: NVML can crash its caller when a GPU is lost, and a thread would fight the job for the GIL. Leaves
with DISK_REFUSED when the disk takes no more samples; what it has taken stays readable.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from types import FrameType

from core.devices.registry import list_devices, open_meter
from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder
from core.runfolder.tables import SAMPLES, TableWriter, read_table
from core.sampler.pacing import ticks
from core.sampler.sampling import DISK_REFUSED, Holder, Sampling
from core.sampler.tree import ProcessTree


def main(run_dir: str, device_id: str, interval_ms: str) -> int:
    folder, started_by = RunFolder(run_dir), os.getppid()
    meter = open_meter(list_devices().find(device_id))
    tree: ProcessTree | None = None
    asked_to_stop = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def find_tree() -> ProcessTree | None:
        nonlocal tree
        worker = read_json(folder.worker)
        tree = ProcessTree(int(worker["pid"]), worker.get("identity")) if worker else None
        return tree

    def over() -> bool:
        # without a worker nobody is left who would start one when the supervisor has died, or the folder has gone
        return asked_to_stop or (tree is None and (os.getppid() != started_by or not folder.root.is_dir()))

    about = {
        "pid": os.getpid(),
        "device": device_id,
        "interval_ms": float(interval_ms),
        "started_ns": time.monotonic_ns(),
        **meter.describe(),
    }
    try:
        with stream_of(folder) as writer:
            sampling = Sampling(meter, writer, holder_of(folder))
            write_json(folder.sampler, about)
            sampling.until_gone(ticks(round(float(interval_ms) * 1e6)), find_tree, over)
        write_json(
            folder.sampler,
            {
                **about,
                "ended_ns": time.monotonic_ns(),
                "samples": sampling.count,
                "longest_gap_ms": sampling.longest_gap_ns / 1e6,
                "missing": dict(sampling.missing),
                "foreign": sampling.grown(),
            },
        )
    except OSError as error:
        with suppress(OSError):  # the log lies on the same disk
            os.write(2, f"no more samples: {error}\n".encode())
        return DISK_REFUSED
    return 0


def stream_of(folder: RunFolder) -> TableWriter:
    """The stream to write to. What a sampler before this one, which died, has left comes first in it."""
    earlier = read_table(folder.samples, SAMPLES)
    if not earlier.num_rows:
        return TableWriter(folder.samples, SAMPLES)
    temporary = folder.samples.with_name(f".{folder.samples.name}.tmp")
    writer = TableWriter(temporary, SAMPLES)
    writer.write_table(earlier)
    temporary.replace(folder.samples)
    return writer


def holder_of(folder: RunFolder) -> Holder | None:
    """The process that keeps the rest of the card, which is ready before the sampler starts; None without one."""
    said = read_json(folder.holder)
    return Holder(int(said["pid"]), said.get("held_bytes")) if said else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
