"""Traces as tidy CSV: run_id,t_s,step,phase,source,metric,value_bytes."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import TextIO

import numpy as np

from core.trace.trace import Trace

COLUMNS = ("run_id", "t_s", "step", "phase", "source", "metric", "value_bytes")
CHUNK = 50_000

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def neutral(text: str) -> str:
    """Text that a spreadsheet takes for text: one that would start a formula gets a leading apostrophe."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def write_csv(traces: Iterable[Trace], stream: TextIO) -> int:
    """Write every point of every series; returns the number of rows. A figure not available is an empty cell."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for trace in traces:
        run_id = neutral(trace.run_id)
        for series in trace.series.values():
            for start in range(0, len(series.t_ns), CHUNK):
                t_ns = series.t_ns[start : start + CHUNK]
                values = series.values[start : start + CHUNK]
                columns = (
                    np.round(trace.seconds(t_ns), 6).tolist(),
                    np.round(trace.steps(t_ns), 4).tolist(),
                    trace.phases_at(t_ns),
                    ["" if np.isnan(value) else str(int(value)) for value in values.tolist()],
                )
                for t_s, step, phase, value in zip(*columns, strict=True):
                    writer.writerow((run_id, t_s, step, neutral(phase), series.source, series.metric, value))
                count += len(t_ns)
    return count
