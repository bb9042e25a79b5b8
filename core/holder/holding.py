"""How much to take so that a given amount stays free."""

from __future__ import annotations

from typing import Protocol

from core.holder.driver import DriverError

MIB = 2**20
GRANULE = 2 * MIB
"""The driver hands memory out in pieces of 2 MiB (cuMemGetAllocationGranularity on every card since Pascal)."""

TRIES = 8


class Card(Protocol):
    """What holding needs of a card; `Driver` is one."""

    def memory(self) -> tuple[int, int]: ...

    def allocate(self, size: int) -> None: ...


def hold(card: Card, leave_free: int) -> int:
    """Take memory of `card` until at most `leave_free` bytes, and less than 2 MiB fewer, are free. The bytes left.

    Raises DriverError when fewer are free to begin with, saying how many, or when the driver refuses.
    """
    free, total = card.memory()
    if free < leave_free:
        raise DriverError(
            f"capacity_mib={leave_free // MIB} cannot be had: of the card's {total // MIB} MiB only {free // MIB} MiB "
            "are free beside a second CUDA context, so another process holds the rest; wait for it, or ask for less"
        )
    for _ in range(TRIES):  # one is enough, unless somebody else takes or frees meanwhile
        size = -(-(free - leave_free) // GRANULE) * GRANULE
        if size <= 0:
            break
        card.allocate(size)
        free, total = card.memory()
    return free
