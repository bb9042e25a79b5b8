"""PYTORCH_CUDA_ALLOC_CONF as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from core.simulate.allocator.sizes import LARGE_SEGMENT, MIB, POWER2_INTERVALS
from core.spec.allocator import settings_of
from core.spec.errors import InvalidSpec, NotAvailable

NO_LIMIT = 1 << 62

_UNTOUCHED = {
    "release_lock_on_cudamalloc",
    "graph_capture_record_stream_reuse",
    "throw_on_cudamalloc_oom",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "roundup_bypass_threshold_mb",
}
"""Settings that change no figure here: locks, CUDA graphs, pinned host memory, how an error is raised."""


@dataclass(frozen=True)
class AllocatorSettings:
    """What changes where memory goes. Sizes in bytes; `power2_divisions` has an entry for each power of two from 1 MiB.

    memory_fraction: None when it is not set. Garbage collection works on what the fraction allows, so without a
    fraction a threshold changes nothing (`malloc` in CUDACachingAllocator.cpp asks for both).
    """

    expandable: bool = False
    max_split: int = NO_LIMIT
    max_non_split_rounding: int = LARGE_SEGMENT
    large_segment: int = LARGE_SEGMENT
    gc_threshold: float = 0.0
    memory_fraction: float | None = None
    power2_divisions: tuple[int, ...] = field(default=(0,) * POWER2_INTERVALS)


def parse_settings(text: str) -> AllocatorSettings:
    """The settings in a PYTORCH_CUDA_ALLOC_CONF string; an empty one gives torch's defaults.

    Raises InvalidSpec for what torch would refuse, NotAvailable for what is not simulated.
    """
    found = settings_of(text)
    if found.get("backend", "native") != "native":
        raise NotAvailable(f"allocator backend:{found['backend']} is not simulated yet; use the native one")
    large = _mib(found, "large_segment_size_mb", LARGE_SEGMENT)
    settings = AllocatorSettings(
        expandable=found.get("expandable_segments") == "True",
        max_split=_mib(found, "max_split_size_mb", NO_LIMIT),
        max_non_split_rounding=_mib(found, "max_non_split_rounding_mb", large),
        large_segment=large,
        gc_threshold=float(found.get("garbage_collection_threshold", 0)),
        memory_fraction=float(found["per_process_memory_fraction"]) if "per_process_memory_fraction" in found else None,
        power2_divisions=_divisions(found.get("roundup_power2_divisions")),
    )
    for name, size in (
        ("max_split_size_mb", settings.max_split),
        ("max_non_split_rounding_mb", settings.max_non_split_rounding),
    ):
        if size < large:
            raise InvalidSpec(
                f"allocator setting {name}:{size // MIB} is too small; torch takes {large // MIB} or more"
            )
    return settings


def _mib(found: dict[str, str], name: str, default: int) -> int:
    return int(found[name]) * MIB if name in found else default


def _divisions(text: str | None) -> tuple[int, ...]:
    """`4` counts for all sizes, `[256:1,512:2,1024:4,>:8]` for each power of two; the first one also for all below it.

    Source: `parseRoundUpPower2Divisions` in c10/core/AllocatorConfig.cpp.
    """
    table = [0] * POWER2_INTERVALS
    if text is None:
        return tuple(table)
    if not text.startswith("["):
        return (_power_of_two(int(text), "divisions"),) * POWER2_INTERVALS
    last = 0
    for position, (mib, count_text) in enumerate(re.findall(r"(\d+|>):(\d+)", text)):
        count = _power_of_two(int(count_text), "divisions") if int(count_text) else 0
        if mib == ">":
            table[last:] = [count] * (POWER2_INTERVALS - last)
            continue
        last = min(_power_of_two(int(mib), "intervals").bit_length() - 1, POWER2_INTERVALS - 1)
        if position == 0:
            table[:last] = [count] * last
        table[last] = count
    return tuple(table)


def _power_of_two(value: int, what: str) -> int:
    if value < 1 or value & (value - 1):
        raise InvalidSpec(f"roundup_power2_divisions: {what} have to be powers of two, not {value}")
    return value
