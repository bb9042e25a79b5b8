"""Which addresses the driver hands out. They matter: among free blocks of one size PyTorch takes the lowest address.

Read off the addresses of six recorded runs (bench/reference: segments, capped, more; H200, driver 580):

* The driver reserves whole chunks of 32 MiB, each as high in the address space as it fits.
* Room that is left in a chunk is used before another one is reserved, the lowest first.
* A chunk in which nothing is left alive goes back, and its addresses are used again.
* The first 2 MiB come from the end of a chunk that the context has filled.
"""

from __future__ import annotations

from bisect import insort

from core.simulate.allocator.sizes import MIB, round_up

CHUNK = 32 * MIB
TOP = 0x7F8000000000
"""Where CUDA's mappings end up on Linux: below the libraries of the process."""

CONTEXT_ROOM = 2 * MIB


class _Chunk:
    """One reservation: `live` counts what is allocated in it, `room` holds the free (address, size) pairs."""

    __slots__ = ("address", "live", "size")

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size
        self.live = 0


class AddressSpace:
    """Hands out and takes back addresses. Sizes have to be multiples of 2 MiB."""

    def __init__(self) -> None:
        self._bottom = TOP
        self._gaps: list[tuple[int, int]] = []  # (address, size) of chunks that went back, by address
        self._room: list[tuple[int, int, _Chunk]] = []  # (address, size, chunk) of what is free in chunks, by address
        self._chunk_of: dict[int, _Chunk] = {}
        context = self._reserve(CHUNK)
        context.live = 1
        self._room.append((context.address + CHUNK - CONTEXT_ROOM, CONTEXT_ROOM, context))

    def take(self, size: int) -> int:
        for position, (address, room, chunk) in enumerate(self._room):
            if room >= size:
                if room == size:
                    del self._room[position]
                else:
                    self._room[position] = (address + size, room - size, chunk)
                break
        else:
            chunk = self._reserve(round_up(size, CHUNK))
            address = chunk.address
            if chunk.size > size:
                self._add_room(address + size, chunk.size - size, chunk)
        chunk.live += 1
        self._chunk_of[address] = chunk
        return address

    def give_back(self, address: int, size: int) -> None:
        chunk = self._chunk_of.pop(address)
        chunk.live -= 1
        if chunk.live:
            self._add_room(address, size, chunk)
            return
        self._room = [entry for entry in self._room if entry[2] is not chunk]
        self._add_gap(chunk.address, chunk.size)

    def _reserve(self, size: int) -> _Chunk:
        """The highest place where `size` fits, which is the top of its gap."""
        for position in range(len(self._gaps) - 1, -1, -1):
            address, room = self._gaps[position]
            if room >= size:
                if room == size:
                    del self._gaps[position]
                else:
                    self._gaps[position] = (address, room - size)
                return _Chunk(address + room - size, size)
        self._bottom -= size
        return _Chunk(self._bottom, size)

    def _add_room(self, address: int, size: int, chunk: _Chunk) -> None:
        touching = [e for e in self._room if e[2] is chunk and (e[0] + e[1] == address or address + size == e[0])]
        for entry in touching:
            self._room.remove(entry)
            address, size = min(address, entry[0]), size + entry[1]
        insort(self._room, (address, size, chunk), key=lambda entry: entry[0])

    def _add_gap(self, address: int, size: int) -> None:
        touching = [gap for gap in self._gaps if gap[0] + gap[1] == address or address + size == gap[0]]
        for gap in touching:
            self._gaps.remove(gap)
            address, size = min(address, gap[0]), size + gap[1]
        if address == self._bottom:
            self._bottom += size
        else:
            insort(self._gaps, (address, size))
