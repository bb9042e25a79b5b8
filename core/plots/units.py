"""Bytes as people read them: MiB and GiB, which are 2^20 and 2^30 bytes."""

from __future__ import annotations

MIB = 2**20
GIB = 2**30

UNKNOWN = "unknown"


def size(value: float | None) -> str:
    """`3,205.4 MiB`, from 10 GiB on `47.41 GiB`; `unknown` for a figure that is not available, never 0."""
    if value is None:
        return UNKNOWN
    return f"{value / GIB:,.2f} GiB" if abs(value) >= 10 * GIB else f"{value / MIB:,.1f} MiB"


def exact(value: int) -> str:
    """`3,361,112,064 bytes (3,205.4 MiB)`."""
    return f"{value:,} bytes ({size(value)})"


def axis_unit(highest: float) -> tuple[str, int]:
    """The unit of an axis that reaches `highest` bytes, and how many bytes it has."""
    return ("GiB", GIB) if highest >= 4 * GIB else ("MiB", MIB)
