"""The caching allocator with classic segments: one cudaMalloc each.

Source: `DeviceCachingAllocator` in c10/cuda/CUDACachingAllocator.cpp. Not modelled: CUDA graph pools, and blocks that
wait for another stream's event (record_stream).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from core.simulate.allocator.blocks import ADDRESS_BITS, Block, Pool
from core.simulate.allocator.collecting import garbage_collect
from core.simulate.allocator.driver import Driver
from core.simulate.allocator.errors import OutOfMemory, out_of_memory_message
from core.simulate.allocator.settings import NO_LIMIT, AllocatorSettings
from core.simulate.allocator.sizes import SMALL, round_to_division, segment_size


@dataclass(frozen=True, slots=True)
class SegmentEvent:
    """Memory taken from the driver or given back, before the block number `before` was handed out."""

    before: int
    action: str  # segment_alloc, segment_free, segment_map, segment_unmap
    address: int
    size: int
    stream: int


class CachingAllocator:
    """One device's pool. Counters are bytes; peaks are those since the start.

    addresses: of every block that was handed out, in order. segments: what was asked of the driver, in order.
    """

    def __init__(self, driver: Driver, settings: AllocatorSettings | None = None) -> None:
        self.driver = driver
        self.settings = settings = settings or AllocatorSettings()
        self.allocated = self.peak_allocated = 0
        self.reserved = self.peak_reserved = 0
        self.retries = self.out_of_memory = 0
        self.addresses: list[int] = []
        self.segments: list[SegmentEvent] = []
        fraction = settings.memory_fraction
        self.allowed = None if fraction is None else int(fraction * driver.total)
        self._collects = self.allowed is not None and settings.gc_threshold > 0
        self._max_split = settings.max_split
        self._choosy = settings.max_split != NO_LIMIT or settings.expandable
        self._divides = any(count > 1 for count in settings.power2_divisions)
        self._pools: dict[tuple[int, bool], Pool] = {}
        self._small, self._large = self.pool(0, small=True), self.pool(0, small=False)

    def pool(self, stream: int, small: bool) -> Pool:
        """The free blocks of a stream; streams never share."""
        found = self._pools.get((stream, small))
        if found is None:
            found = self._pools[stream, small] = Pool(small, stream, self.settings.expandable)
        return found

    def malloc(self, requested: int, stream: int = 0) -> Block:
        """A block for `requested` bytes, more than 0. Raises OutOfMemory.

        This and `release` are what a replay spends its time in: nothing is called that need not be.
        """
        size = (
            round_to_division(requested, self.settings.power2_divisions) if self._divides else (requested + 511) & -512
        )
        pool = (self._small if size <= SMALL else self._large) if not stream else self.pool(stream, size <= SMALL)
        if self._collects:
            pool.searches += 1
        keys = pool.keys
        found = bisect_left(keys, size << ADDRESS_BITS)
        if found < len(keys) and (not self._choosy or (found := self._choose(pool, found, size)) >= 0):
            block = pool.blocks.pop(keys.pop(found))
        else:
            block = self._new_block(pool, size)
        rest = block.size - size
        if rest >= pool.least_rest and size < self._max_split:
            # the front is handed out, the rest stays what it was
            address, before = block.address, block.prev
            front = Block(address, size, before, block, pool)
            if before is not None:
                before.next = front
            block.prev = front
            block.address = address = address + size
            block.size = rest
            block.key = key = rest << ADDRESS_BITS | address
            block.free = True
            insort(keys, key)
            pool.blocks[key] = block
            block = front
        else:
            block.free = False
        self.addresses.append(block.address)
        self.allocated = allocated = self.allocated + block.size
        self.peak_allocated = max(self.peak_allocated, allocated)
        return block

    def release(self, block: Block) -> None:
        """Free a block: it merges with free neighbours and waits in its pool."""
        self.allocated -= block.size
        pool = block.pool
        keys = pool.keys
        other = block.prev
        if other is not None and other.free:
            key = other.key
            del keys[bisect_left(keys, key)]
            del pool.blocks[key]
            block.address = other.address
            block.size += other.size
            block.prev = other = other.prev
            if other is not None:
                other.next = block
        other = block.next
        if other is not None and other.free:
            key = other.key
            del keys[bisect_left(keys, key)]
            del pool.blocks[key]
            block.size += other.size
            block.next = other = other.next
            if other is not None:
                other.prev = block
        block.free = True
        block.key = key = block.size << ADDRESS_BITS | block.address
        insort(keys, key)
        pool.blocks[key] = block
        if self._collects:
            block.born = pool.searches

    def empty_cache(self) -> None:
        """torch.cuda.empty_cache(): give back all that is whole and free, large blocks first."""
        for small in (False, True):
            for (_, kind), pool in list(self._pools.items()):
                if kind is small:
                    self._release_pool(pool)

    def release_segment(self, block: Block) -> None:
        """cudaFree of a segment that is one free block."""
        block.pool.remove(block)
        self.driver.release(block.address, block.size)
        self._reserve(-block.size, "segment_free", block.address, block.pool.stream)

    def _choose(self, pool: Pool, found: int, size: int) -> int:
        """The place of the block to use, from the best fit on; -1 for none. Asked where settings make a difference.

        A block of max_split or more is not for smaller requests, and for larger ones only if little of it is wasted.
        """
        block = pool.keys[found] >> ADDRESS_BITS
        if size < self._max_split:
            return -1 if block >= self._max_split else found
        return -1 if block >= size + self.settings.max_non_split_rounding else found

    def _new_block(self, pool: Pool, size: int) -> Block:
        """A new segment, in torch's order: collect garbage, ask, free oversize blocks and ask, free all and ask."""
        if self._collects:
            garbage_collect(self)
        block = self._obtain(pool, size)
        if block is None and self._release_oversize(pool, size):
            block = self._obtain(pool, size)
        if block is None:
            self.empty_cache()
            self.retries += 1
            block = self._obtain(pool, size)
        if block is None:
            self.out_of_memory += 1
            raise self._error(size)
        return block

    def _obtain(self, pool: Pool, size: int) -> Block | None:
        bytes_ = segment_size(size, self.settings.large_segment)
        if self._over_the_limit(bytes_):
            return None
        address = self.driver.malloc(bytes_)
        if address is None:
            return None
        self._reserve(bytes_, "segment_alloc", address, pool.stream)
        return Block(address, bytes_, None, None, pool)

    def _over_the_limit(self, size: int) -> bool:
        return self.allowed is not None and self.reserved + size > self.allowed

    def _release_oversize(self, pool: Pool, size: int) -> bool:
        """Free blocks that max_split keeps from being used: one that is large enough, or the largest ones together."""
        if self._max_split == NO_LIMIT:
            return False
        wanted = max(size, self._max_split)
        found = bisect_left(pool.keys, wanted << ADDRESS_BITS)
        if found < len(pool.keys):
            self.release_segment(pool.blocks[pool.keys[found]])
            return True
        released = 0
        while released < wanted and pool.keys:
            block = pool.blocks[pool.keys[-1]]
            if block.size < self._max_split:
                break
            released += block.size
            self.release_segment(block)
        return released >= wanted

    def _release_pool(self, pool: Pool) -> None:
        for block in pool.in_order():
            if not block.is_split:
                self.release_segment(block)

    def _reserve(self, change: int, action: str, address: int, stream: int) -> None:
        self.reserved += change
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self.segments.append(SegmentEvent(len(self.addresses), action, address, abs(change), stream))

    def _error(self, size: int) -> OutOfMemory:
        segment = segment_size(size, self.settings.large_segment)
        message = out_of_memory_message(
            segment=segment,
            total=self.driver.total,
            free=self.driver.free,
            process=self.driver.used,
            allocated=self.allocated,
            reserved=self.reserved,
            allowed=self.allowed,
        )
        return OutOfMemory(size, segment, message, self.driver.free)
