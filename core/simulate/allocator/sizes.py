"""Sizes that PyTorch's caching allocator deals in, in bytes.

Source: c10/core/AllocatorConfig.h of torch 2.13 (kMinBlockSize, kSmallSize, kSmallBuffer, kMinLargeAlloc, kRoundLarge)
and `round_size`, `roundup_power2_next_division`, `get_allocation_size` in c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

MIB = 2**20

MIN_BLOCK = 512
"""Every block is a multiple of this."""

SMALL = 1 * MIB
"""The largest request that is served from the small pool."""

SMALL_SEGMENT = 2 * MIB
MIN_LARGE_SEGMENT = 10 * MIB
"""Requests below it share segments of `large_segment_size`; from here on each gets a segment of its own size."""

LARGE_SEGMENT = 20 * MIB
"""torch's default of large_segment_size_mb."""

ROUND_LARGE = 2 * MIB

POWER2_INTERVALS = 16
"""roundup_power2_divisions has one entry for each power of two from 1 MiB up to 64 GiB."""


def round_up(size: int, step: int) -> int:
    """The next multiple of `step`, which has to be a power of two."""
    return (size + step - 1) & -step


def segment_size(block: int, large_segment: int = LARGE_SEGMENT) -> int:
    """What a block of `block` bytes makes the allocator ask of the driver: also the figure in torch's error text."""
    if block <= SMALL:
        return SMALL_SEGMENT
    if block < MIN_LARGE_SEGMENT:
        return large_segment
    return round_up(block, ROUND_LARGE)


def round_to_division(size: int, divisions: Sequence[int]) -> int:
    """`size` rounded with roundup_power2_divisions: `divisions[i]` counts for sizes from 2^i MiB, 0 and 1 mean none.

    Between two powers of two there are that many evenly spaced sizes; 1,200 with 4 becomes 1,280.
    """
    if size < MIN_BLOCK:
        return MIN_BLOCK
    power = size.bit_length() - 1
    interval = min(max(power - 20, 0), POWER2_INTERVALS - 1)
    count = divisions[interval]
    if count <= 1 or size <= MIN_BLOCK * count:
        return round_up(size, MIN_BLOCK)
    floor = 1 << power
    if size == floor:
        return size
    return round_up(size, floor >> (count.bit_length() - 1))
