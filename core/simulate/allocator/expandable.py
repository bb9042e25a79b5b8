"""The caching allocator with expandable_segments:True: one segment a pool, of pages that are mapped as it grows.

Source: `ExpandableSegment`, `find_expandable_block`, `map_block`, `unmap_block`, `try_allocate_expandable_block` and
`get_free_block` in c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from bisect import insort

from core.simulate.allocator.blocks import Block, Pool
from core.simulate.allocator.caching import CachingAllocator
from core.simulate.allocator.sizes import SMALL_SEGMENT

_SPACE = 1 << 44
"""Between the first addresses of two segments: more than any card has."""


class ExpandableAllocator(CachingAllocator):
    """Free blocks are found as in the base class; where none fits, pages are mapped behind the lowest place with room.

    Blocks that are not mapped are in `Pool.unmapped` and are never `free`, so that the base class does not merge them.
    """

    _segments = 0

    def _page(self, pool: Pool) -> int:
        """Bytes that are mapped at a time: 2 MiB in the small pool, 20 MiB in the large one."""
        return SMALL_SEGMENT if pool.small else self.settings.large_segment

    def _choose(self, pool: Pool, found: int, size: int) -> int:
        """The best fit, where a block that can grow counts as large as it can become."""
        keys, blocks = pool.keys, pool.blocks
        room = _room(blocks[keys[found]])
        while found + 1 < len(keys):
            next_room = _room(blocks[keys[found + 1]])
            if next_room >= room:
                break
            found, room = found + 1, next_room
        return super()._choose(pool, found, size)

    def _obtain(self, pool: Pool, size: int) -> Block | None:
        if self._over_the_limit(size):
            return None
        block = self._place(pool, size)
        if not block.mapped and not self._map(block, min(block.size, size)):
            return None
        while block.size < size:
            # what follows a free block that is too small is not mapped; once mapped, the two are one
            following = block.next
            assert following is not None
            if not self._map(following, min(size - block.size, following.size)):
                return None
            block = following
        pool.remove(block)
        return block

    def _place(self, pool: Pool, size: int) -> Block:
        """The lowest block from which on `size` bytes are free or can be mapped."""
        for unmapped in pool.unmapped:
            before = unmapped.prev
            start = before if before is not None and before.free else unmapped
            if _stretch(start, size) >= size:
                return start
        return self._new_segment(pool)

    def _new_segment(self, pool: Pool) -> Block:
        """Addresses for 9/8 of the card, none of them mapped."""
        page = self._page(pool)
        self._segments += 1
        base = self._segments * (_SPACE // page) * page
        size = -(-(self.driver.total * 9 // 8) // page) * page
        block = Block(base, size, None, None, pool)
        block.mapped = False
        insort(pool.unmapped, block, key=_address)
        return block

    def _map(self, block: Block, size: int) -> bool:
        """Map whole pages from the start of an unmapped block on, and merge them with what is free around them."""
        pool = block.pool
        page = self._page(pool)
        mapped = -(-size // page) * page
        if not self._map_pages(mapped, page):
            return False
        pool.unmapped.remove(block)
        block.mapped = True
        if mapped < block.size:
            rest = Block(block.address + mapped, block.size - mapped, block, block.next, pool)
            rest.mapped = False
            if rest.next is not None:
                rest.next.prev = rest
            block.next = rest
            block.size = mapped
            insort(pool.unmapped, rest, key=_address)
        start = block.address
        self._absorb(block)
        pool.insert(block)
        self._reserve(mapped, "segment_map", start, pool.stream)
        return True

    def _map_pages(self, size: int, page: int) -> bool:
        """Pages are created one by one; when one cannot be had, those before it go back."""
        for done in range(0, size, page):
            if not self.driver.map(page):
                self.driver.unmap(done)
                return False
        return True

    def _absorb(self, block: Block) -> None:
        """Merge a block with neighbours in the same state, free or not mapped. It is in neither list itself."""
        pool = block.pool
        for other in (block.prev, block.next):
            if other is None or other.mapped != block.mapped or (other.mapped and not other.free):
                continue
            if other.mapped:
                pool.remove(other)
            else:
                pool.unmapped.remove(other)
            block.size += other.size
            if other is block.prev:
                block.address = other.address
                block.prev = other.prev
                if block.prev is not None:
                    block.prev.next = block
            else:
                block.next = other.next
                if block.next is not None:
                    block.next.prev = block

    def _release_pool(self, pool: Pool) -> None:
        for block in pool.in_order():
            self._unmap(block)

    def _unmap(self, block: Block) -> None:
        """Give back the pages that lie wholly inside a free block."""
        pool = block.pool
        page = self._page(pool)
        begin = -(-block.address // page) * page
        end = (block.address + block.size) // page * page
        if begin >= end:
            return
        pool.remove(block)
        if begin > block.address:
            self._cut(block, begin - block.address)
        if end < block.address + block.size:
            rest = Block(end, block.address + block.size - end, block, block.next, pool)
            if rest.next is not None:
                rest.next.prev = rest
            block.next = rest
            block.size = end - block.address
            pool.insert(rest)
        block.mapped = False
        self._absorb(block)
        insort(pool.unmapped, block, key=_address)
        self.driver.unmap(end - begin)
        self._reserve(begin - end, "segment_unmap", begin, pool.stream)
        if not block.is_split:
            pool.unmapped.remove(block)  # nothing of the segment is mapped: its addresses go back too

    @staticmethod
    def _cut(block: Block, size: int) -> None:
        """Leave the first `size` bytes of a block as a free block of their own."""
        front = Block(block.address, size, block.prev, block, block.pool)
        if front.prev is not None:
            front.prev.next = front
        block.prev = front
        block.address += size
        block.size -= size
        block.pool.insert(front)


def _address(block: Block) -> int:
    return block.address


def _room(block: Block) -> int:
    """The size that a free block can grow to."""
    following = block.next
    return block.size if following is None or following.mapped else block.size + following.size


def _stretch(start: Block, enough: int) -> int:
    """Bytes from `start` on that are free or not mapped, counted up to `enough`."""
    size = 0
    block: Block | None = start
    while block is not None and size < enough and (block.free or not block.mapped):
        size += block.size
        block = block.next
    return size
