"""The device as the worker sees it: the CPU, or the one card that CUDA_VISIBLE_DEVICES leaves visible."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any, Union

import torch

from core.worker.errors import Refused
from core.worker.phases import MemoryCounters

_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


class Cpu:
    """The machine itself. torch counts no memory here: the sampler's resident memory is the figure."""

    type = "cpu"
    name = "cpu"
    has_data = True  # a simulated card has none

    def start(self) -> None:
        pass  # nothing to create

    def counters(self) -> MemoryCounters | None:
        return None

    def synchronize(self) -> None:
        pass  # the CPU has no queue

    def empty_cache(self) -> None:
        pass  # torch keeps no cache of host memory

    def describe(self) -> dict[str, Any]:
        return {
            "name": _processor_name(),
            "uuid": None,
            "total_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "capability": None,
            "sm_count": None,
        }


class Cuda:
    """The only visible card, `cuda:0` to this process. `uuid` is the card that the run is for, where it is named."""

    type = "cuda"
    name = "cuda:0"
    has_data = True

    def __init__(self, uuid: str | None = None) -> None:
        self._uuid = uuid

    def start(self) -> None:
        """Create the CUDA context, without a tensor: the pool is empty when the allocator's history begins.

        Raises Refused when there is no usable card, or when it is not the one the run is for.
        """
        if not torch.cuda.is_available():
            built = torch.version.cuda or "none"
            raise Refused(
                f"torch {torch.__version__} finds no CUDA device (built for CUDA {built}, CUDA_VISIBLE_DEVICES="
                f"{os.environ.get('CUDA_VISIBLE_DEVICES')!r}); use an environment with a CUDA build, or device cpu"
            )
        torch.cuda.set_device(0)
        torch.cuda.synchronize()
        found = _uuid_of(torch.cuda.get_device_properties(0))
        if self._uuid and found and self._uuid.startswith("GPU-") and not found.startswith(self._uuid):
            raise Refused(f"the run is for {self._uuid}, but the visible card is {found}")

    def counters(self) -> MemoryCounters | None:
        stats = torch.cuda.memory_stats_as_nested_dict(0)  # no flattening, no sorting: it is read at every step
        if not stats:
            return None  # no context yet
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        return MemoryCounters(allocated["current"], reserved["current"], allocated["peak"], reserved["peak"])

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def describe(self) -> dict[str, Any]:
        card = torch.cuda.get_device_properties(0)
        return {
            "name": card.name,
            "uuid": _uuid_of(card) or self._uuid,
            "total_bytes": card.total_memory,
            "capability": f"{card.major}.{card.minor}",
            "sm_count": card.multi_processor_count,
        }


Device = Union[Cpu, Cuda]


def find_device(wanted: str) -> Device:
    """The device that a spec names: `cpu` or `cuda:<uuid>`. Raises Refused for what a worker cannot run on."""
    if wanted == "cpu":
        return Cpu()
    kind, _, uuid = wanted.partition(":")
    if kind == "cuda":
        return Cuda(uuid if uuid.startswith(("GPU-", "MIG-")) else None)
    raise Refused(f"a worker runs on cpu or cuda:<uuid>, not on {wanted!r}")


def driver_version() -> str | None:
    """The NVIDIA driver's version, from the kernel module; None where there is none to ask."""
    try:
        found = _DRIVER.search(_DRIVER_FILE.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return found.group(1) if found else None


def _uuid_of(card: Any) -> str | None:
    uuid = getattr(card, "uuid", None)  # torch 2.4 and later
    if uuid is None:
        return None
    text = str(uuid)
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def _processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()
