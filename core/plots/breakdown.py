"""Breakdowns as stacked bars, and a difference as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import plotly.graph_objects as go

from core.explain.breakdown import Breakdown
from core.explain.categories import BY_KEY
from core.explain.difference import Difference
from core.plots.palette import CATEGORIES, FAINT, GRID, HATCHED, OUTLINED
from core.plots.text import plain
from core.plots.units import axis_unit, exact, size

BAR_PX = 64
EDGES_PX = 180
STEP_PX = 30
LEGEND_BELOW_PX = 60
"""Room for the axis between the bars and the legend; Plotly counts it in heights of the plot."""
LABELLED = 0.06
"""A piece narrower than this share of the longest bar has no room for its name; hover and table have it."""


def bars(breakdowns: Sequence[Breakdown]) -> go.Figure:
    """One bar a run, the first on top, its categories in one order; a failing request stands behind the end."""
    unit, unit_bytes = axis_unit(max((one.total for one in breakdowns), default=0))
    longest = max((one.total + (one.request.size if one.request else 0) for one in breakdowns), default=1) or 1
    figure = go.Figure()
    for key, category in BY_KEY.items():
        sizes = [one.terms.get(key, 0) for one in breakdowns]
        if not any(sizes):
            continue
        figure.add_trace(
            go.Bar(
                y=[plain(one.run_id) for one in breakdowns],
                x=[value / unit_bytes for value in sizes],
                name=category.label,
                orientation="h",
                marker={
                    "color": CATEGORIES[key],
                    "line": {"width": 1 if key in OUTLINED else 0, "color": FAINT},
                    "pattern": {"shape": HATCHED.get(key, ""), "fgcolor": FAINT},
                },
                text=[category.label if value > LABELLED * longest else "" for value in sizes],
                textposition="inside",
                insidetextanchor="middle",
                customdata=[_hover(one, key) for one in breakdowns],
                hovertemplate="<b>%{y}</b> " + category.label + "<br>%{customdata}<extra></extra>",
            )
        )
    _add_requests(figure, breakdowns, unit_bytes)
    figure.update_layout(
        barmode="relative",
        height=EDGES_PX + BAR_PX * max(1, len(breakdowns)),
        margin={"l": 90, "r": 20, "t": 10, "b": 170},
        legend={
            "orientation": "h",
            "y": -LEGEND_BELOW_PX / (BAR_PX * max(1, len(breakdowns))),
            "yanchor": "top",
            "traceorder": "normal",
        },
        hovermode="closest",
    )
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(title_text=unit, gridcolor=GRID, rangemode="tozero")
    return figure


def _hover(one: Breakdown, key: str) -> str:
    value = one.terms.get(key, 0)
    largest = "".join(f"<br>{plain(label, 60)}: {size(block)}" for label, block in one.largest.get(key, [])[:3])
    return f"{exact(value)}, {one.sources.get(key, '')}{largest}"


def _add_requests(figure: go.Figure, breakdowns: Sequence[Breakdown], unit_bytes: int) -> None:
    failed = [one for one in breakdowns if one.request is not None]
    if not failed:
        return
    figure.add_trace(
        go.Bar(
            y=[plain(one.run_id) for one in failed],
            x=[(one.request.size if one.request else 0) / unit_bytes for one in failed],
            name="the request that failed",
            orientation="h",
            marker={"color": "rgba(0,0,0,0)", "line": {"color": "#D55E00", "width": 2}},
            customdata=[
                f"{exact(one.request.size)}: {BY_KEY[one.request.category].label}<br>{plain(one.request.where, 100)}"
                for one in failed
                if one.request
            ],
            hovertemplate="<b>%{y}</b> could not be had<br>%{customdata}<extra></extra>",
        )
    )


def waterfall(found: Difference) -> go.Figure:
    """From B's total to A's, the largest change first."""
    unit, unit_bytes = axis_unit(max(found.a.total, found.b.total))
    keys = list(found.terms)
    labels = [plain(found.b.run_id), *(BY_KEY[key].label for key in keys), plain(found.a.run_id)]
    values = [found.b.total, *found.terms.values(), found.a.total]
    figure = go.Figure(
        go.Waterfall(
            orientation="h",
            measure=["absolute", *["relative"] * len(keys), "total"],
            y=labels,
            x=[value / unit_bytes for value in values],
            text=[size(values[0]), *(f"{'+' if v > 0 else '−'}{size(abs(v))}" for v in values[1:-1]), size(values[-1])],
            textposition="outside",
            cliponaxis=False,
            customdata=[exact(value) for value in values],
            hovertemplate="%{y}<br>%{customdata}<extra></extra>",
            increasing={"marker": {"color": "#D55E00"}},
            decreasing={"marker": {"color": "#009E73"}},
            totals={"marker": {"color": "#7F7F7F"}},
            connector={"line": {"color": FAINT, "width": 1}},
        )
    )
    figure.update_layout(
        height=90 + STEP_PX * len(labels), margin={"l": 150, "r": 60, "t": 10, "b": 40}, showlegend=False
    )
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(title_text=unit, gridcolor=GRID, range=[edge / unit_bytes for edge in _edges(found)])
    return figure


def _edges(found: Difference) -> tuple[float, float]:
    """Where the axis begins and ends. Where the changes are small beside the totals it does not begin at 0."""
    sums = list(accumulate(found.terms.values(), initial=found.b.total))
    low, high = min(sums), max(sums)
    room = 0.25 * max(high - low, 0.02 * high, 1)
    return (0 if high - low > 0.3 * high else max(0, low - 2 * room), high + room)
