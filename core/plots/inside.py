"""One run looked into: its pool by category over time, and the blocks of one instant by module."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import plotly.graph_objects as go

from core.explain.blocks import Named
from core.explain.categories import BY_KEY
from core.explain.history import PoolHistory
from core.plots.palette import CATEGORIES, GRID
from core.plots.text import plain
from core.plots.units import axis_unit, size
from core.trace.trace import Trace

AREA_PX = 380
ICICLE_PX = 420
MOST_LEAVES = 40
"""Of one category; the rest is too thin to see, and stays inside its parent."""

ROOT = "tensors"
_NUMBER = re.compile(r"\.\d+(\.|$)")
CACHED = "cached"


def area(trace: Trace, history: PoolHistory, axis: str) -> go.Figure:
    """What PyTorch's pool holds, stacked by category over seconds or steps; cached memory lies on top."""
    top = sum(int(layer.max(initial=0)) for layer in history.layers.values())
    unit, unit_bytes = axis_unit(top)
    x = trace.seconds(history.t_ns) if axis == "seconds" else trace.steps(history.t_ns)
    figure = go.Figure()
    for key, layer in history.layers.items():
        label = CACHED if key == "cached_segments" else BY_KEY[key].label
        figure.add_trace(
            go.Scatter(
                x=x,
                y=layer / unit_bytes,
                name=label,
                stackgroup="pool",
                mode="lines",
                line={"width": 0.5, "color": CATEGORIES[key], "shape": "hv"},
                fillcolor=CATEGORIES[key],
                customdata=[size(value) for value in layer.tolist()],
                hovertemplate=f"{label} %{{customdata}}<extra></extra>",
            )
        )
    figure.update_layout(
        height=AREA_PX,
        margin={"l": 70, "r": 20, "t": 10, "b": 50},
        hovermode="x unified",
        legend={"orientation": "h", "y": -0.2, "yanchor": "top", "traceorder": "normal"},
    )
    figure.update_yaxes(title_text=unit, gridcolor=GRID, rangemode="tozero")
    figure.update_xaxes(title_text="seconds since the run started" if axis == "seconds" else "step", gridcolor=GRID)
    return figure


def icicle(blocks: Sequence[Named]) -> go.Figure:
    """Living blocks by category, in it by tensor or module; those of the layers are one: `layers.*.mlp.up_proj`."""
    sizes: dict[tuple[str, str], int] = defaultdict(int)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for block in blocks:
        key = block.rule.category, _NUMBER.sub(".*.", block.label)
        sizes[key] += block.size
        counts[key] += 1
    ids, parents, labels, values, colours = [ROOT], [""], [ROOT], [sum(sizes.values())], ["#7F7F7F"]
    for category in (key for key in BY_KEY if any(name == key for name, _ in sizes)):
        inside = sorted(((k, v) for k, v in sizes.items() if k[0] == category), key=lambda item: -item[1])
        ids.append(category)
        parents.append(ROOT)
        labels.append(BY_KEY[category].label)
        values.append(sum(value for _, value in inside))
        colours.append(CATEGORIES[category])
        for (_, label), value in inside[:MOST_LEAVES]:
            ids.append(f"{category}/{label}")
            parents.append(category)
            count = counts[category, label]
            labels.append(plain(label, 60) + (f" × {count}" if count > 1 else ""))
            values.append(value)
            colours.append(CATEGORIES[category])
    figure = go.Figure(
        go.Icicle(
            ids=ids,
            parents=parents,
            labels=labels,
            values=values,
            branchvalues="total",
            tiling={"orientation": "h"},
            marker={"colors": colours},
            customdata=[size(value) for value in values],
            texttemplate="%{label}, %{customdata}",
            hovertemplate="%{label}<br>%{customdata}<extra></extra>",
        )
    )
    figure.update_layout(height=ICICLE_PX, margin={"l": 0, "r": 0, "t": 0, "b": 0})
    return figure
