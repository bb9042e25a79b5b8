"""The progress axis: which step a run is at, at a given time.

A step is one forward pass, so a slow run, a fast one and a simulated one can be laid over each other. Within a phase
the step grows evenly from `step_start` to `step_end`; before the first forward pass it is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def last_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a phase, in order of their beginning: the row at its end replaces the one at its start."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        if "name" in row and "t_start" in row:
            found[str(row["name"]), int(row.get("index", 0))] = dict(row)
    return sorted(found.values(), key=lambda row: int(row["t_start"]))


def step_at(rows: Iterable[Mapping[str, Any]], t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """The step at each of the times `t_ns` (monotonic nanoseconds), for the rows of phases.jsonl.

    A phase that has not ended has no pace yet, so its step stays where it began.
    """
    phases = last_rows(rows)
    if not phases:
        return np.zeros(len(t_ns), dtype=np.float64)
    times: list[int] = []
    steps: list[float] = []
    for phase in phases:
        times.append(int(phase["t_start"]))
        steps.append(float(phase["step_start"] or 0))
        if phase.get("t_end") is not None:
            times.append(int(phase["t_end"]))
            steps.append(float(phase["step_end"] or 0))
    # monotonic already, but two phases may share an edge; interp wants times that never fall
    order = np.argsort(np.asarray(times, dtype=np.int64), kind="stable")
    steps_at: NDArray[np.float64] = np.interp(
        np.asarray(t_ns, dtype=np.float64), np.asarray(times, dtype=np.float64)[order], np.asarray(steps)[order]
    )
    return steps_at
