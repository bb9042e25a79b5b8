"""What stands beside the plots: the same figures as rows."""

from __future__ import annotations

from collections.abc import Sequence

from core.plots.units import UNKNOWN, size
from core.spec.differences import differing_fields
from core.trace.trace import METRICS, Trace

Row = dict[str, str]

WHERE = ("device", "environment")


def peaks_table(traces: Sequence[Trace]) -> list[Row]:
    """One row a run: its state and the highest of each metric, each with how it is known."""
    rows = []
    for trace in traces:
        row = {"run": trace.run_id, "label": trace.label, "state": trace.state}
        for metric, name in METRICS.items():
            peak = trace.peaks.get(metric)
            if any(metric in one.peaks and one.peaks[metric].bytes is not None for one in traces):
                known = peak is not None and peak.bytes is not None
                row[f"peak {name}"] = f"{size(peak.bytes)} ({peak.source})" if peak and known else UNKNOWN
        rows.append(row)
    return rows


def differences_table(traces: Sequence[Trace], everything: bool = False) -> list[Row]:
    """One row a field of the specs, one column a run: the fields that differ, or all of them."""
    specs = [trace.spec for trace in traces]
    differing = differing_fields(specs)
    names = dict.fromkeys(name for spec in specs for name in spec) if everything else differing
    return [{"field": name, **{trace.run_id: str(trace.spec.get(name, UNKNOWN)) for trace in traces}} for name in names]


def title_of(traces: Sequence[Trace]) -> str:
    """What changed: `wrap: none → ddp`; for one run its label."""
    if len(traces) == 1:
        return traces[0].label
    differing = differing_fields([trace.spec for trace in traces])
    changed = []
    for name, values in differing.items():
        distinct = list(dict.fromkeys(str(value) or "default" for value in values))
        changed.append(f"{name}: {' → '.join(distinct[:4])}{' → …' if len(distinct) > 4 else ''}")
    return ", ".join(changed[:3]) or f"{len(traces)} runs of the same spec"


def subtitle_of(traces: Sequence[Trace]) -> str:
    """What all of them share: model, shape of the work, data type, device."""
    said = []
    for name, form in (("model", "{}"), ("batch_size", "{} rows"), ("prompt_tokens", "{} prompt tokens"),
                       ("new_tokens", "{} new tokens"), ("dtype", "{}")):  # fmt: skip
        values = {str(trace.spec.get(name)) for trace in traces}
        if len(values) == 1:
            said.append(form.format(values.pop()))
    devices = {str(trace.device.get("name") or trace.spec.get("device")) for trace in traces}
    return " · ".join([*said, *sorted(devices)])
