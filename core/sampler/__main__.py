"""`python -m core.sampler RUN_DIR DEVICE_ID INTERVAL_MS`: polls memory until the run's worker has gone.

A process of its own: NVML can crash its caller when a GPU is lost, and a thread would fight the job for the GIL.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

from core.devices.registry import list_devices, open_meter
from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder
from core.runfolder.tables import SAMPLES, TableWriter
from core.sampler.pacing import ticks
from core.sampler.sampling import Holder, Sampling
from core.sampler.tree import ProcessTree


def main(run_dir: str, device_id: str, interval_ms: str) -> None:
    folder = RunFolder(run_dir)
    meter = open_meter(list_devices().find(device_id))
    asked_to_stop = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def find_tree() -> ProcessTree | None:
        worker = read_json(folder.worker)
        return ProcessTree(int(worker["pid"]), worker.get("create_time")) if worker else None

    started_ns = time.monotonic_ns()
    with TableWriter(folder.samples, SAMPLES) as writer:
        sampling = Sampling(meter, writer, holder_of(folder))
        about = {
            "pid": os.getpid(),
            "device": device_id,
            "interval_ms": float(interval_ms),
            "started_ns": started_ns,
            **meter.describe(),
        }
        write_json(folder.sampler, about)
        sampling.until_gone(ticks(round(float(interval_ms) * 1e6)), find_tree, lambda: asked_to_stop)
    write_json(
        folder.sampler,
        {
            **about,
            "ended_ns": time.monotonic_ns(),
            "samples": sampling.count,
            "longest_gap_ms": sampling.longest_gap_ns / 1e6,
            "missing": dict(sampling.missing),
        },
    )


def holder_of(folder: RunFolder) -> Holder | None:
    """The process that keeps the rest of the card, which is ready before the sampler starts; None without one."""
    said = read_json(folder.holder)
    return Holder(int(said["pid"]), said.get("held_bytes")) if said else None


if __name__ == "__main__":
    main(*sys.argv[1:])
