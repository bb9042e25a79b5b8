"""The clock of a run, and its place on the wall clock that torch stamps its history with."""

from __future__ import annotations

import time

TRIES = 16


def clock_pair() -> list[int]:
    """`[monotonic_ns, wall_ns]`, read at the same instant.

    A reading that the scheduler interrupted is off by milliseconds, so the tightest of several is kept.
    """
    best: list[int] = []
    best_gap = -1
    for _ in range(TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if best_gap < 0 or after - before < best_gap:
            best, best_gap = [(before + after) // 2, wall], after - before
    return best
