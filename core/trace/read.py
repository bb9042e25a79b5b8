"""Reads a run folder as a trace, whatever state it is in: running, cut off, without samples, without events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from core.runfolder.intervals import Interval, contended, gaps
from core.runfolder.jsonio import read_json, read_json_lines
from core.runfolder.layout import RunFolder
from core.runfolder.steps import last_rows
from core.runfolder.tables import EVENTS, SAMPLES, read_table
from core.runs.status import read_status
from core.spec.errors import NoSuchRun
from core.trace.pool import pool_series
from core.trace.trace import Figure, Phase, Series, Source, Trace

MIB = 2**20


def read_trace(folder: RunFolder) -> Trace:
    """The trace of the run in `folder`. Raises NoSuchRun when the folder is not one of a run."""
    status, document = read_status(folder), read_json(folder.spec)
    if status is None or document is None or not isinstance(document.get("spec"), dict):
        raise NoSuchRun(f"{folder.root} has no readable spec.json and status.json; it is not a run")
    spec, result = document["spec"], read_json(folder.result) or {}
    rows = last_rows(read_json_lines(folder.phases))
    phases = tuple(_phase(row) for row in rows)
    simulated = str(spec.get("device", "")).startswith("sim:")
    polled: Source = "simulated" if simulated else "sampled"
    samples = read_table(folder.samples, SAMPLES)
    blind = () if simulated else _gaps(samples, spec, phases)
    series = _sampled(samples, polled, blind)
    series |= pool_series(read_table(folder.events, EVENTS), rows, "simulated" if simulated else "exact")
    label = read_json(folder.label) or {}
    return Trace(
        run_id=folder.run_id,
        label=str(label.get("title") or document.get("label") or spec.get("model")),
        state=status.state,
        spec=spec,
        device=status.device,
        error=asdict(status.error) if status.error else None,
        result=result,
        sampler=read_json(folder.sampler) or {},
        t0_ns=status.t0_ns or _first_time(series, phases),
        capacity_bytes=_capacity(spec, status.device),
        phases=phases,
        series=series,
        peaks=_peaks(series, asdict(status.peak)),
        incomplete=status.trace_incomplete,
        contention=status.contended,
        gaps=blind,
        contended=_contended(series),
    )


def _capacity(spec: Mapping[str, Any], device: Mapping[str, Any]) -> int | None:
    """What device used can reach. capacity_mib is what was free before the run, so what was used then comes on top."""
    if spec.get("capacity_mib"):
        return int(spec["capacity_mib"]) * MIB + int(device.get("baseline_used") or 0)
    return device.get("total_bytes")


def _phase(row: Mapping[str, Any]) -> Phase:
    end = row.get("step_end")
    return Phase(
        str(row["name"]),
        int(row.get("index", 0)),
        int(row["t_start"]),
        row.get("t_end"),
        float(row.get("step_start") or 0),
        None if end is None else float(end),
        row,
    )


def _gaps(samples: pa.Table, spec: Mapping[str, Any], phases: tuple[Phase, ...]) -> tuple[Interval, ...]:
    worked_until = max((phase.t_end or phase.t_start for phase in phases), default=None)
    return gaps(samples["t_ns"].to_numpy().astype(np.int64), float(spec.get("record_interval_ms") or 0), worked_until)


def _contended(series: Mapping[str, Series]) -> tuple[Interval, ...]:
    others = series.get("other_processes_used")
    return tuple(interval for interval, _ in contended(others.t_ns, others.values)) if others else ()


def _sampled(samples: pa.Table, source: Source, blind: tuple[Interval, ...]) -> dict[str, Series]:
    """One series for each column that has a figure at all; a null becomes NaN, and so does a gap."""
    t_ns = samples["t_ns"].to_numpy().astype(np.int64)
    after = np.searchsorted(t_ns, [start for start, _ in blind], side="right")
    inside = np.asarray([start + 1 for start, _ in blind], dtype=np.int64)
    found = {}
    for name in samples.column_names[1:]:
        if samples[name].null_count < samples.num_rows:
            values = samples[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
            found[name] = Series(name, source, np.insert(t_ns, after, inside), np.insert(values, after, np.nan))
    return found


def _first_time(series: Mapping[str, Series], phases: tuple[Phase, ...]) -> int:
    starts = [int(one.t_ns[0]) for one in series.values() if len(one.t_ns)] + [phase.t_start for phase in phases[:1]]
    return min(starts, default=0)


def _peaks(series: Mapping[str, Series], final: Mapping[str, int | None]) -> dict[str, Figure]:
    """The highest of each metric. torch's own counter is taken where the run has ended; the series says when it was."""
    peaks = {}
    for metric, value in final.items():
        one = series.get(metric)
        t_ns, highest = None, None
        if one is not None and len(one.values) and not np.all(np.isnan(one.values)):
            at = int(np.nanargmax(one.values))
            t_ns, highest = int(one.t_ns[at]), int(one.values[at])
        source: Source = one.source if one else ("exact" if metric in ("allocated", "reserved") else "sampled")
        peaks[metric] = Figure(highest if value is None else value, source, t_ns)
    return peaks
