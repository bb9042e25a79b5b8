"""What a run left, as data: series over time, phases, peaks. Every figure knows how it was got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.runfolder.intervals import Interval
from core.runfolder.steps import step_at

Source = Literal["exact", "sampled", "derived", "simulated"]

METRICS = {
    "device_used": "device used",
    "process_used": "process used",
    "other_processes_used": "other processes",
    "reserved": "reserved",
    "allocated": "allocated",
    "host_rss": "host RSS",
}
"""Every metric of a trace and what it is called on a page."""


@dataclass(frozen=True)
class Series:
    """One metric over time. `t_ns` monotonic nanoseconds, rising; `values` bytes, NaN where not available.

    `stepwise`: the value holds until the next point (allocator events), rather than being a poll of it.
    """

    metric: str
    source: Source
    t_ns: NDArray[np.int64]
    values: NDArray[np.float64]
    stepwise: bool = False


@dataclass(frozen=True)
class Figure:
    """One number with how it was got: bytes or None, and when, where that is known."""

    bytes: int | None
    source: Source
    t_ns: int | None = None


@dataclass(frozen=True)
class Phase:
    """One phase; `t_end` and `step_end` are None while it runs. Counters are torch's, in bytes, None on the CPU."""

    name: str
    index: int
    t_start: int
    t_end: int | None
    step_start: float
    step_end: float | None
    row: Mapping[str, Any]

    @property
    def label(self) -> str:
        return f"{self.name} {self.index}" if self.name == "decode" else self.name


@dataclass(frozen=True)
class Trace:
    """A run as it is drawn and exported. `capacity_bytes`: the card's size, or the size it was made to look like.

    gaps: when nothing was sampled. contended: when other processes took more of the card than at the beginning.
    """

    run_id: str
    label: str
    state: str
    spec: Mapping[str, Any]
    device: Mapping[str, Any]
    error: Mapping[str, Any] | None
    result: Mapping[str, Any]
    sampler: Mapping[str, Any]
    t0_ns: int
    capacity_bytes: int | None
    phases: tuple[Phase, ...]
    series: Mapping[str, Series]
    peaks: Mapping[str, Figure]
    incomplete: str | None = None
    contention: str | None = None
    gaps: tuple[Interval, ...] = ()
    contended: tuple[Interval, ...] = ()

    @property
    def simulated(self) -> bool:
        return str(self.spec.get("device", "")).startswith("sim:")

    @property
    def ended_as(self) -> str:
        """The state, and what it really was where a library said something else: `failed, out of memory in …`."""
        reason = (self.error or {}).get("reason")
        return f"{self.state}, {reason}" if reason else self.state

    def seconds(self, t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds since the worker was started; negative for samples taken before."""
        moved: NDArray[np.float64] = (t_ns - self.t0_ns) / 1e9
        return moved

    def steps(self, t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Position on the progress axis at each time."""
        return step_at((phase.row for phase in self.phases), t_ns)

    def phases_at(self, t_ns: NDArray[np.int64]) -> list[str]:
        """The label of the phase at each time; `` before the first and after the last."""
        if not self.phases:
            return [""] * len(t_ns)
        starts = np.asarray([phase.t_start for phase in self.phases], dtype=np.int64)
        found = np.searchsorted(starts, t_ns, side="right") - 1
        labels = []
        for position, t in zip(found.tolist(), t_ns.tolist(), strict=True):
            phase = self.phases[position]
            over = phase.t_end is not None and t > phase.t_end
            labels.append("" if position < 0 or over else phase.label)
        return labels
