"""Traces as counter tracks for ui.perfetto.dev, in the JSON format of Chrome's trace events.

Source: "Trace Event Format" (Google), events of type C (counters), X (spans) and M (names). Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TextIO

import numpy as np

from core.trace.trace import METRICS, Trace


def write_perfetto(traces: Iterable[Trace], stream: TextIO) -> int:
    """One process a run, one counter a metric in bytes, the phases as spans; returns the number of events."""
    events: list[dict[str, Any]] = []
    for pid, trace in enumerate(traces, 1):
        name = f"{trace.run_id} {trace.label}"
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": 1, "args": {"name": "phases"}})
        for phase in trace.phases:
            if phase.t_end is not None:
                start, length = (phase.t_start - trace.t0_ns) / 1000, (phase.t_end - phase.t_start) / 1000
                events.append({"ph": "X", "name": phase.label, "pid": pid, "tid": 1, "ts": start, "dur": length})
        for series in trace.series.values():
            track = f"{METRICS[series.metric]} ({series.source})"
            microseconds = (series.t_ns - trace.t0_ns) / 1000
            events.extend(
                {"ph": "C", "name": track, "pid": pid, "ts": ts, "args": {"bytes": int(value)}}
                for ts, value in zip(microseconds.tolist(), series.values.tolist(), strict=True)
                if not np.isnan(value)
            )
    json.dump({"displayTimeUnit": "ms", "traceEvents": events}, stream, separators=(",", ":"))
    return len(events)
