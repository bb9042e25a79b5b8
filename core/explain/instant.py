"""The instant that a breakdown is of."""

from __future__ import annotations

import numpy as np

from core.explain.evidence import Evidence
from core.trace.trace import Series


def instant_of(evidence: Evidence) -> int:
    """When none is chosen: the failed allocation, else the device peak (of the host, for a run on the CPU).

    The pool stays as large as it was at its peak, often to the end of the run: of that stretch it is the moment at
    which the most is in tensors, since that made it so large.
    """
    trace = evidence.trace
    failed = failed_at(evidence)
    if failed is not None:
        return int(evidence.t_ns[failed])
    for metric in ("device_used", "reserved", "host_rss"):
        series = trace.series.get("host_rss" if trace.spec.get("device") == "cpu" else metric)
        if series is not None and not np.all(np.isnan(series.values)):
            return _fullest(evidence, series, int(np.nanargmax(series.values)))
    return trace.t0_ns


def _fullest(evidence: Evidence, peaked: Series, at: int) -> int:
    """The moment with the most in tensors around the point `at` of `peaked`, while that and the pool stay as they are.

    A point of `peaked` may be a sample, and what it shows has come since the one before it.
    """
    t_ns = int(peaked.t_ns[at])
    reserved, allocated = (evidence.trace.series.get(name) for name in ("reserved", "allocated"))
    if not evidence.has_events or reserved is None or allocated is None:
        return t_ns
    lower = np.flatnonzero(peaked.values < peaked.values[at])
    place = int(np.searchsorted(lower, at))
    begin = int(peaked.t_ns[lower[place - 1]]) + 1 if place else int(peaked.t_ns[0])
    end = int(peaked.t_ns[lower[place]]) if place < len(lower) else int(peaked.t_ns[-1]) + 1
    changes = np.flatnonzero(np.diff(reserved.values)) + 1
    now = int(np.searchsorted(reserved.t_ns, t_ns, side="right")) - 1
    following = int(np.searchsorted(changes, now, side="right"))
    if following:
        begin = max(begin, int(reserved.t_ns[changes[following - 1]]))
    if following < len(changes):
        end = min(end, int(reserved.t_ns[changes[following]]))
    first, last = np.searchsorted(allocated.t_ns, (begin, end), side="left")
    if first >= last:
        return t_ns
    times, held = allocated.t_ns[first:last], allocated.values[first:last]
    settled = np.append(times[1:] != times[:-1], True)  # the last of several events of one time: what is there after it
    return int(times[settled][int(np.argmax(held[settled]))])


def position_of(evidence: Evidence, t_ns: int) -> int:
    """How many events there were by `t_ns`; up to the failed allocation when that is the instant."""
    failed = failed_at(evidence)
    if failed is not None and int(evidence.t_ns[failed]) == t_ns:
        return failed  # several events of one microsecond: those before the failure are what it met
    return evidence.position(t_ns)


def failed_at(evidence: Evidence) -> int | None:
    """The position of the allocation that failed, in a run that ended so."""
    if evidence.trace.state != "oom" or not evidence.has_events:
        return None
    found = evidence.rows("oom")
    return int(found[-1]) if len(found) else None
