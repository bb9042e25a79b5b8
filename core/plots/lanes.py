"""The phases of each run as one lane of coloured bars under a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.plots.palette import PHASES
from core.plots.text import plain
from core.trace.trace import Trace

LABELLED = 0.08
"""A bar narrower than this share of its lane has no room for its name; the hover says it."""


@dataclass
class Bar:
    """One bar: a phase, or a run of decode steps drawn as one."""

    name: str
    start: float
    end: float
    seconds: float
    count: int = 1


def bars_of(trace: Trace, axis: str) -> list[Bar]:
    """The phases of a trace in seconds or steps; neighbours of one name are joined, those without width left out."""
    bars: list[Bar] = []
    for phase in trace.phases:
        end_ns = phase.t_end if phase.t_end is not None else phase.t_start
        seconds = (end_ns - phase.t_start) / 1e9
        if axis == "seconds":
            start, end = (phase.t_start - trace.t0_ns) / 1e9, (end_ns - trace.t0_ns) / 1e9
        else:
            start, end = phase.step_start, phase.step_end if phase.step_end is not None else phase.step_start
        if bars and bars[-1].name == phase.name:
            bars[-1].end, bars[-1].count = end, bars[-1].count + 1
            bars[-1].seconds += seconds
        elif end > start or axis == "seconds":
            bars.append(Bar(phase.name, start, end, seconds))
    return bars


def add_lanes(figure: go.Figure, row: int, traces: Sequence[Trace], axis: str) -> None:
    """Draw the lanes into row `row`, the first run on top."""
    named: set[str] = set()
    for trace in traces:
        lane = plain(trace.run_id)
        bars = bars_of(trace, axis)
        whole = max((bar.end for bar in bars), default=0.0) - min((bar.start for bar in bars), default=0.0)
        for bar in bars:
            wide = bar.end - bar.start > LABELLED * whole
            count = f"{bar.count} steps, " if bar.name == "decode" else ""
            figure.add_trace(
                go.Bar(
                    x=[bar.end - bar.start],
                    y=[lane],
                    base=[bar.start],
                    orientation="h",
                    name=plain(bar.name),
                    legendgroup=f"phase {bar.name}",
                    showlegend=False,
                    marker={"color": PHASES.get(bar.name, "#A6A6A6"), "line": {"width": 0}},
                    text=[plain(bar.name) if wide and bar.name not in named else ""],
                    textangle=0,
                    textposition="inside",
                    insidetextanchor="middle",
                    textfont={"size": 11, "color": "white" if bar.name not in ("imports", "decode") else "black"},
                    hovertemplate=f"<b>{lane}</b> {plain(bar.name)}<br>{count}{bar.seconds:.3f} s<extra></extra>",
                ),
                row=row,
                col=1,
            )
            if wide:
                named.add(bar.name)
    figure.update_yaxes(
        row=row,
        col=1,
        autorange="reversed",
        type="category",
        showgrid=False,
        tickfont={"size": 11},
        showticklabels=len(traces) > 1,
        title_text="phases" if len(traces) == 1 else None,
    )
    figure.update_layout(barmode="overlay", bargap=0.25)
