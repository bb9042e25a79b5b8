"""Stretches of a run in which its samples are not what they seem: nobody looked, or somebody else used the card."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Interval = tuple[int, int]
"""From and to, CLOCK_MONOTONIC nanoseconds."""

LEAST_GAP_NS = 500_000_000
INTERVALS_OF_A_GAP = 10
"""Samples further apart than this many intervals, and half a second, are the ends of a gap."""

FOREIGN_BYTES = 16 * 2**20
"""By how much other processes' memory has to grow to count: a desktop's windows come and go by less."""


def gaps(t_ns: NDArray[np.int64], interval_ms: float, end_ns: int | None = None) -> tuple[Interval, ...]:
    """Where the sampler was dead, or too slow. `end_ns`: until when the worker is known to have been at work."""
    if not len(t_ns):
        return ()
    least = max(LEAST_GAP_NS, round(INTERVALS_OF_A_GAP * interval_ms * 1e6))
    times = t_ns if end_ns is None else np.append(t_ns, max(int(t_ns[-1]), end_ns))
    found = np.flatnonzero(np.diff(times) > least)
    return tuple((int(times[i]), int(times[i + 1])) for i in found)


def contended(t_ns: NDArray[np.int64], others: NDArray[np.float64]) -> tuple[tuple[Interval, int], ...]:
    """Where other processes held more of the card than when the run began, each with the most bytes they held more.

    `others`: bytes, NaN where not available; what nobody can tell is not called contended.
    """
    known = np.flatnonzero(~np.isnan(others))
    if not len(known):
        return ()
    t_ns, more = t_ns[known], others[known] - others[known[0]]
    busy = np.concatenate([[False], more >= FOREIGN_BYTES, [False]])
    edges = np.flatnonzero(np.diff(busy))
    found = []
    for start, after in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        end = min(after, len(t_ns) - 1)
        found.append(((int(t_ns[start]), int(t_ns[end])), int(more[start:after].max())))
    return tuple(found)
