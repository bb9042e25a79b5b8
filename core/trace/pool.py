"""PyTorch's pool over time: the allocator's events between torch's counters at the phase edges.

Events carry requested sizes while the counters count blocks (rounded up, with remainders that are not split off), so
the running sum of events is lower than the counter. At each phase edge the counter is right; between two edges the sum
of the events is moved by what was missing at the edge before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.runfolder.tables import rows_named
from core.trace.trace import Series, Source

SIGNS: dict[str, dict[str, int]] = {
    "allocated": {"alloc": 1, "free": -1},
    "reserved": {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1},
}
"""Which events change which figure, and in which direction."""


def pool_series(events: pa.Table, rows: Sequence[Mapping[str, Any]], source: Source) -> dict[str, Series]:
    """`allocated` and `reserved` over time; only their edges where no events were recorded, nothing on the CPU."""
    found = {}
    for metric, signs in SIGNS.items():
        edge_t, edge_values = _edges(rows, metric)
        if not len(edge_t) and not events.num_rows:
            continue
        t_ns, running = _running(events, signs)
        if not len(t_ns):
            found[metric] = Series(metric, source, edge_t, edge_values, stepwise=True)
            continue
        moved = running + _missing(t_ns, running, edge_t, edge_values)
        both_t = np.concatenate([t_ns, edge_t])
        both = np.concatenate([moved, edge_values])
        order = np.argsort(both_t, kind="stable")
        found[metric] = Series(metric, source, both_t[order], both[order], stepwise=True)
    return found


def _edges(rows: Sequence[Mapping[str, Any]], metric: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    times, values = [], []
    for row in rows:
        for edge in ("start", "end"):
            if row.get(f"t_{edge}") is not None and row.get(f"{metric}_{edge}") is not None:
                times.append(int(row[f"t_{edge}"]))
                values.append(float(row[f"{metric}_{edge}"]))
    return np.asarray(times, dtype=np.int64), np.asarray(values, dtype=np.float64)


def _running(events: pa.Table, signs: Mapping[str, int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Times and running sum of the events named in `signs`."""
    wanted = rows_named(events["action"], signs)
    if not wanted.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64)
    negative = rows_named(events["action"], [name for name, sign in signs.items() if sign < 0])[wanted]
    size, t_ns = (events[name].to_numpy()[wanted].astype(np.int64) for name in ("size", "t_ns"))
    return t_ns, np.cumsum(np.where(negative, -size, size)).astype(np.float64)


def _missing(
    t_ns: NDArray[np.int64], running: NDArray[np.float64], edge_t: NDArray[np.int64], edge_values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What the sum of events lacked at the edge before each event; 0 before the first edge."""
    if not len(edge_t):
        return np.zeros(len(t_ns))
    order = np.argsort(edge_t, kind="stable")
    edge_t, edge_values = edge_t[order], edge_values[order]
    before = np.searchsorted(t_ns, edge_t, side="right") - 1
    summed = np.where(before >= 0, running[np.maximum(before, 0)], 0.0)
    lacking = edge_values - summed
    at = np.searchsorted(edge_t, t_ns, side="right") - 1
    return np.where(at >= 0, lacking[np.maximum(at, 0)], 0.0)
