"""garbage_collection_threshold: giving back old cached segments before the driver is asked for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.simulate.allocator.blocks import Block
    from core.simulate.allocator.caching import CachingAllocator


def garbage_collect(allocator: CachingAllocator) -> None:
    """Free whole large segments that were not used for longer than the average, until enough is freed.

    A block's age is the number of searches in its pool since it was freed. Source: `garbage_collect_cached_blocks` in
    c10/cuda/CUDACachingAllocator.cpp.
    """
    assert allocator.allowed is not None
    threshold = int(allocator.settings.gc_threshold * allocator.allowed)
    target = allocator.reserved - threshold
    if target <= 0:
        return
    pool = allocator.pool(0, small=False)

    def age(block: Block) -> int:
        return pool.searches - block.born

    whole = [block for block in pool.in_order() if not block.is_split]
    total_age = sum(map(age, whole))
    reclaimed = 0
    while whole and reclaimed < target:
        least = total_age / len(whole)
        old = [block for block in whole if age(block) >= least]
        for block in old:
            reclaimed += block.size
            total_age -= age(block)
            allocator.release_segment(block)
        whole = [block for block in whole if block.free]
