"""Blocks of a segment, and the free ones in the order in which the allocator looks for them."""

from __future__ import annotations

from bisect import bisect_left, insort

from core.simulate.allocator.sizes import MIN_BLOCK, SMALL

ADDRESS_BITS = 48
"""Bits of an address, below the size in a key: user space on x86-64 and what the GPU maps have 47."""


class Block:
    """A stretch of one segment: allocated, free, or (in an expandable segment) not mapped.

    `prev` and `next` are its neighbours in the segment. `key` orders free blocks by size, then address, as torch's
    BlockComparatorSize does; it is right while the block is free.
    """

    __slots__ = ("address", "born", "free", "key", "mapped", "next", "pool", "prev", "size")
    born: int  # searches of its pool when it was freed, for garbage collection
    key: int

    def __init__(self, address: int, size: int, prev: Block | None, next_: Block | None, pool: Pool) -> None:
        self.address = address
        self.size = size
        self.prev = prev
        self.next = next_
        self.pool = pool
        self.free = False
        self.mapped = True

    @property
    def is_split(self) -> bool:
        return self.prev is not None or self.next is not None


class Pool:
    """The free blocks of one stream, the small or the large ones.

    keys: sorted; blocks: by key; least_rest: a remainder of at least this size is split off when a block is used.
    """

    __slots__ = ("blocks", "keys", "least_rest", "searches", "small", "stream", "unmapped")

    def __init__(self, small: bool, stream: int, expandable: bool) -> None:
        self.small = small
        self.stream = stream
        self.keys: list[int] = []
        self.blocks: dict[int, Block] = {}
        self.unmapped: list[Block] = []  # of expandable segments, by address
        self.searches = 0
        # should_split in CUDACachingAllocator.cpp
        self.least_rest = MIN_BLOCK if small or expandable else SMALL + 1

    def insert(self, block: Block) -> None:
        block.free = True
        block.key = key = block.size << ADDRESS_BITS | block.address
        insort(self.keys, key)
        self.blocks[key] = block

    def remove(self, block: Block) -> None:
        key = block.key
        del self.keys[bisect_left(self.keys, key)]
        del self.blocks[key]
        block.free = False

    def in_order(self) -> list[Block]:
        """A copy, so that blocks may be removed while it is walked."""
        return [self.blocks[key] for key in self.keys]
