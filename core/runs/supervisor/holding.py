"""The holder of a run seen from the supervisor: whether it is ready, and that it ends."""

from __future__ import annotations

import subprocess
import time

import psutil

from core.devices.process import same_process
from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder
from core.spec.errors import JobFailed

PATIENCE_NS = 60_000_000_000
"""How long a holder may take. It needs a second; a card with many processes, or a driver that wakes up, more."""


def holder_ready(folder: RunFolder, holder: subprocess.Popen[bytes] | None, since_ns: int | None) -> bool:
    """Whether the card is as small as it should be. Raises JobFailed with the reason when it will not be."""
    said = read_json(folder.holder)
    if said and said.get("problem"):
        raise JobFailed(str(said["problem"]))
    if said:
        return True
    if holder is not None and holder.poll() is not None:
        raise JobFailed(
            f"the process that should hold the rest of the card left with code {holder.returncode}; see sampler.log"
        )
    if since_ns is not None and time.monotonic_ns() - since_ns > PATIENCE_NS:
        raise JobFailed(f"the rest of the card could not be held within {PATIENCE_NS // 10**9} s")
    return False


def end_holder(folder: RunFolder, holder: subprocess.Popen[bytes] | None) -> bool:
    """End the holder, ours or a former supervisor's, where there is one. True once it has gone."""
    if holder is not None:
        if holder.poll() is None:
            holder.kill()
        return holder.poll() is not None
    said = read_json(folder.holder)
    process = same_process(int(said["pid"]), said.get("identity", "")) if said else None
    if process is None:
        return True
    try:
        process.kill()
    except psutil.Error:
        pass  # it ended between the look and the signal
    return False
