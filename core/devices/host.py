"""The CPU as a device: the machine's memory, or what its control group allows, through psutil."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

from core.devices.device import Condition, Device, Reading

CPU_ID = "cpu"
LOOK_S = 0.1
"""How long the processors are watched to say how busy they are."""

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def host_memory_bytes() -> int:
    """The memory a process here can get: the machine's, or its control group's limit where that is lower."""
    total = psutil.virtual_memory().total
    try:
        limit = _CGROUP_LIMIT.read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def host_device() -> Device:
    """The machine itself, named after its processor."""
    return Device(CPU_ID, "cpu", _processor_name(), host_memory_bytes())


def _processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


class HostMeter:
    """Reads the machine's memory in use. Resident memory of a run is the sampler's business, not this one's."""

    def __init__(self) -> None:
        self.device = host_device()

    def read(self) -> Reading:
        memory = psutil.virtual_memory()
        return Reading(memory.total - memory.available)

    def condition(self) -> Condition:
        return Condition(None, round(psutil.cpu_percent(LOOK_S)))

    def describe(self) -> Mapping[str, object]:
        return {"source": "psutil", "cores": psutil.cpu_count()}
