"""Ticks at a steady rate. Time is injected, so that a test needs no waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator


def ticks(
    interval_ns: int,
    now: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """Yield the time of each tick in nanoseconds, for ever.

    Deadlines stand on a fixed grid, so that lateness does not add up; deadlines that passed while the caller was busy
    are skipped, so that a stall is not followed by a burst.
    """
    deadline = now()
    while True:
        moment = now()
        if moment < deadline:
            sleep((deadline - moment) / 1e9)
            moment = now()
        yield moment
        deadline += interval_ns
        if deadline < now():
            deadline += (now() - deadline) // interval_ns * interval_ns
