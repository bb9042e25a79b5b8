"""The driver's side: how much of the card is free, and who holds the rest."""

from __future__ import annotations

from core.simulate.allocator.addresses import AddressSpace
from core.simulate.allocator.sizes import ROUND_LARGE, round_up

PAGE = ROUND_LARGE
"""Physical memory is handed out in pages of 2 MiB (cuMemGetAllocationGranularity)."""


class Driver:
    """A card with `free` bytes free before the process starts, of `total` bytes.

    An allocation that would leave less than one page free fails. Measured: with 1.56 MiB left over it failed, with 3.56
    it did not (bench/reference/h200/capped, llama7b_b150-18600 and -19300: the driver's own bookkeeping needs a page).
    """

    def __init__(self, free: int, total: int) -> None:
        self.total = total
        self.free = free
        self.at_start = free
        self._addresses = AddressSpace()

    @property
    def used(self) -> int:
        """Bytes that this process holds, in the pool and outside it."""
        return self.at_start - self.free

    def malloc(self, size: int) -> int | None:
        """cudaMalloc: an address, or None when there is not enough."""
        if not self.map(size):
            return None
        return self._addresses.take(round_up(size, PAGE))

    def release(self, address: int, size: int) -> None:
        """cudaFree."""
        self._addresses.give_back(address, round_up(size, PAGE))
        self.unmap(size)

    def map(self, size: int) -> bool:
        """Take pages without an address: an expandable segment has its own, and so has what the driver takes itself."""
        size = round_up(size, PAGE)
        if self.free - size < PAGE:
            return False
        self.free -= size
        return True

    def take(self, size: int) -> bool:
        """Take memory that never comes back, for a library of the process."""
        if self.free < size:
            return False
        self.free -= size
        return True

    def unmap(self, size: int) -> None:
        self.free += round_up(size, PAGE)
