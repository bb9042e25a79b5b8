"""`python -m core.holder RUN_DIR DEVICE_ID CAPACITY_MIB`: keep all but CAPACITY_MIB of the card while the run lasts.

It ends by itself with the run's worker, or with the supervisor that started it if there is no worker by then, so that
no crash of either leaves a card half full.
"""

from __future__ import annotations

import os
import sys
import time

from core.devices.process import identity
from core.devices.registry import list_devices, open_meter
from core.holder.driver import Driver, DriverError
from core.holder.holding import MIB, hold
from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder
from core.sampler.tree import ProcessTree
from core.spec.errors import VramscopeError

POLL_S = 0.05


def main(run_dir: str, device_id: str, capacity_mib: str) -> int:
    folder, started_by = RunFolder(run_dir), os.getppid()
    about = {"pid": os.getpid(), "identity": identity(os.getpid())}
    try:
        meter = open_meter(list_devices().find(device_id))
        before = meter.read().device_used
        free = hold(Driver(), int(capacity_mib) * MIB)
        after = meter.read().device_used
    except (DriverError, VramscopeError) as error:
        write_json(folder.holder, {**about, "problem": str(error)})
        return 1
    held = after - before if after is not None and before is not None else None
    write_json(folder.holder, {**about, "problem": None, "free_bytes": free, "held_bytes": held})
    wait_for_the_end(folder, started_by)
    return 0


def wait_for_the_end(folder: RunFolder, started_by: int) -> None:
    """Return when the worker has ended; before there is one, when the process that started this one has."""
    tree: ProcessTree | None = None
    while folder.root.is_dir():
        worker = read_json(folder.worker) if tree is None else None
        if worker:
            tree = ProcessTree(int(worker["pid"]), worker.get("identity"))
        if not tree.alive() if tree else os.getppid() != started_by:
            return
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
