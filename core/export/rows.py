"""Traces as tidy columns: run_id, t_s, step, phase, source, metric, value_bytes. CSV and Parquet write the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from core.trace.trace import Trace

COLUMNS = ("run_id", "t_s", "step", "phase", "source", "metric", "value_bytes")
CHUNK = 50_000


def column_chunks(traces: Iterable[Trace]) -> Iterator[dict[str, list[Any]]]:
    """Every point of every series in chunks of at most 50,000. A figure that is not available is None."""
    for trace in traces:
        for series in trace.series.values():
            for start in range(0, len(series.t_ns), CHUNK):
                t_ns, values = series.t_ns[start : start + CHUNK], series.values[start : start + CHUNK]
                count = len(t_ns)
                yield {
                    "run_id": [trace.run_id] * count,
                    "t_s": np.round(trace.seconds(t_ns), 6).tolist(),
                    "step": np.round(trace.steps(t_ns), 4).tolist(),
                    "phase": trace.phases_at(t_ns),
                    "source": [series.source] * count,
                    "metric": [series.metric] * count,
                    "value_bytes": [None if np.isnan(value) else int(value) for value in values.tolist()],
                }
