"""The picture of an experiment on its card: what its runs held of the device, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.plots.palette import run_colour
from core.trace.downsample import keep
from core.trace.trace import Trace

MOST_POINTS = 200
HEIGHT_PX = 130
METRICS = ("device_used", "process_used", "host_rss")


def thumbnail(traces: Sequence[Trace]) -> go.Figure:
    """Lines without axes, one a run in the colours of Compare, scaled to the highest; time is each run's own."""
    figure = go.Figure()
    for position, trace in enumerate(traces):
        series = next((trace.series[metric] for metric in METRICS if metric in trace.series), None)
        if series is None:
            continue
        chosen = keep(series.values, MOST_POINTS)
        last = max((phase.t_end or 0 for phase in trace.phases if phase.name != "release"), default=0)
        chosen = chosen[series.t_ns[chosen] <= last]  # what comes after the job only falls to nothing
        steps, values = trace.steps(series.t_ns[chosen]), series.values[chosen]
        figure.add_trace(
            go.Scatter(x=steps, y=values, mode="lines", line={"color": run_colour(position), "width": 1.5})
        )
    figure.update_layout(height=HEIGHT_PX, margin={"l": 0, "r": 0, "t": 4, "b": 0}, showlegend=False, hovermode=False)
    figure.update_xaxes(visible=False, fixedrange=True)
    figure.update_yaxes(visible=False, fixedrange=True, rangemode="tozero")
    return figure
