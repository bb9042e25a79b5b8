"""Memory over time: runs laid over each other, one row of the figure for each metric, phases as lanes below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.plots.lanes import add_lanes
from core.plots.palette import FAINT, GRID, METRICS, run_colour
from core.plots.shades import add_shades
from core.plots.text import plain
from core.plots.units import axis_unit, exact, size
from core.trace.downsample import keep
from core.trace.trace import METRICS as METRIC_NAMES
from core.trace.trace import Series, Trace

Axis = Literal["seconds", "step"]

ROW_PX = 210
SINGLE_PX = 420
LANE_PX = 26
EDGES_PX = 110

NEAR = 0.5
"""A capacity is drawn when the highest value reaches this share of it; below, the line would flatten everything."""


def timeline(traces: Sequence[Trace], metrics: Sequence[str], axis: Axis = "seconds") -> go.Figure:
    """A figure of `metrics` (keys of `trace.METRICS`) of `traces` over seconds or steps.

    One run: its metrics share one plot. Several: one plot for each metric, the runs in it told apart by colour.
    Measured lines are solid, simulated ones dashed.
    """
    shown = [metric for metric in metrics if any(metric in trace.series for trace in traces)]
    rows = 1 if len(traces) == 1 else max(1, len(shown))
    plot_px = SINGLE_PX if rows == 1 else ROW_PX * rows
    lanes_px = LANE_PX * len(traces) + 24
    figure = make_subplots(
        rows=rows + 1,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=28 / (plot_px + lanes_px + EDGES_PX),
        row_heights=[plot_px / rows] * rows + [lanes_px],
    )
    unit, unit_bytes = axis_unit(_highest(traces, shown))
    for row in range(1, rows + 1):
        inside = shown if len(traces) == 1 else shown[row - 1 : row]
        for position, trace in enumerate(traces):
            for metric in inside:
                if metric in trace.series:
                    _add_line(figure, trace, trace.series[metric], axis, (row, position, len(traces)), unit_bytes)
        _add_capacity(figure, row, traces, inside, unit_bytes)
        add_shades(figure, row, traces, axis)
        title = unit if len(traces) == 1 else f"{METRIC_NAMES[inside[0]]}, {unit}" if inside else unit
        figure.update_yaxes(title_text=title, rangemode="tozero", gridcolor=GRID, row=row, col=1)
    add_lanes(figure, rows + 1, traces, axis)
    figure.update_xaxes(gridcolor=GRID, zeroline=False)
    figure.update_xaxes(
        title_text="seconds since the run started" if axis == "seconds" else "step", row=rows + 1, col=1
    )
    figure.update_layout(
        height=plot_px + lanes_px + EDGES_PX,
        margin={"l": 70, "r": 20, "t": 40, "b": 50},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        hovermode="closest",
        uirevision=f"{axis}",
    )
    return figure


def _highest(traces: Sequence[Trace], metrics: Sequence[str]) -> float:
    series = [trace.series[metric] for trace in traces for metric in metrics if metric in trace.series]
    return max((float(np.nanmax(one.values)) for one in series if not np.all(np.isnan(one.values))), default=0.0)


def _add_line(
    figure: go.Figure, trace: Trace, series: Series, axis: Axis, at: tuple[int, int, int], unit_bytes: int
) -> None:
    row, position, count = at
    chosen = keep(series.values)
    t_ns, values = series.t_ns[chosen], series.values[chosen]
    steps = trace.steps(t_ns)
    x = trace.seconds(t_ns) if axis == "seconds" else steps
    phases = trace.phases_at(t_ns)
    details = [
        [plain(phase) or "between phases", "unknown" if np.isnan(value) else exact(int(value)), f"{step:.2f}"]
        for phase, value, step in zip(phases, values.tolist(), steps.tolist(), strict=True)
    ]
    colour = METRICS[series.metric] if count == 1 else run_colour(position)
    name = METRIC_NAMES[series.metric] if count == 1 else plain(f"{trace.run_id}  {trace.label}", 60)
    head = f"<b>{plain(trace.run_id)}</b> {METRIC_NAMES[series.metric]}"
    figure.add_trace(
        go.Scattergl(
            x=x,
            y=values / unit_bytes,
            mode="lines",
            name=name,
            legendgroup=name,
            showlegend=count == 1 or row == 1,
            line={
                "color": colour,
                "width": 1.8,
                "dash": "dash" if series.source == "simulated" else "solid",
                "shape": "hv" if series.stepwise else "linear",
            },
            customdata=np.asarray(details, dtype=object),  # a list would be checked cell by cell
            hovertemplate=f"{head}<br>%{{customdata[1]}}, {series.source}<br>"
            "%{customdata[0]}, step %{customdata[2]}<extra></extra>",
        ),
        row=row,
        col=1,
    )
    _add_peak(figure, trace, series, axis, (row, colour, name), unit_bytes)


def _add_peak(
    figure: go.Figure, trace: Trace, series: Series, axis: Axis, look: tuple[int, str, str], unit_bytes: int
) -> None:
    peak = trace.peaks.get(series.metric)
    if peak is None or peak.bytes is None or peak.t_ns is None:
        return
    row, colour, group = look
    at = np.asarray([peak.t_ns], dtype=np.int64)
    where = trace.phases_at(at)[0] or "between phases"
    figure.add_trace(
        go.Scatter(
            x=trace.seconds(at) if axis == "seconds" else trace.steps(at),
            y=[peak.bytes / unit_bytes],
            mode="markers",
            marker={"symbol": "diamond", "size": 9, "color": colour, "line": {"width": 1, "color": "white"}},
            legendgroup=group,
            showlegend=False,
            hovertemplate=f"<b>{plain(trace.run_id)}</b> peak {METRIC_NAMES[series.metric]}<br>"
            f"{exact(peak.bytes)}, {peak.source}<br>{plain(where)}<extra></extra>",
        ),
        row=row,
        col=1,
    )


def _add_capacity(
    figure: go.Figure, row: int, traces: Sequence[Trace], metrics: Sequence[str], unit_bytes: int
) -> None:
    """The card's size as a line, where the runs come near it and all ran on cards of that size."""
    sizes = {trace.capacity_bytes for trace in traces}
    on_card = all(str(trace.spec.get("device")) != "cpu" for trace in traces)
    if len(sizes) != 1 or not on_card or not any(m in ("device_used", "process_used", "reserved") for m in metrics):
        return
    capacity = sizes.pop()
    if capacity and _highest(traces, metrics) >= NEAR * capacity:
        figure.add_hline(
            y=capacity / unit_bytes,
            line={"dash": "dot", "width": 1.2, "color": FAINT},
            annotation_text=f"capacity {size(capacity)}",
            annotation_position="top right",
            row=row,
            col=1,
        )
