"""One bar: who holds a card."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.plots.palette import HOLDERS
from core.plots.units import axis_unit, size

HATCHED = {"other_processes", "unaccounted"}


def holders_bar(parts: Sequence[tuple[str, str, int]]) -> go.Figure:
    """`parts`: key of `palette.HOLDERS`, words, bytes; laid end to end in their order."""
    unit, unit_bytes = axis_unit(sum(value for _, _, value in parts))
    figure = go.Figure()
    for key, words, value in parts:
        figure.add_bar(
            x=[value / unit_bytes],
            y=[""],
            orientation="h",
            name=words,
            marker={"color": HOLDERS[key], "pattern": {"shape": "/" if key in HATCHED else ""}},
            hovertemplate=f"{words}: {size(value)}<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        height=150,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        legend={"orientation": "h", "y": 1.5, "traceorder": "normal"},
        xaxis={"title": unit, "rangemode": "tozero"},
        yaxis={"visible": False},
    )
    return figure
