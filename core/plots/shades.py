"""Stretches of a timeline that are shaded: nothing was sampled, or somebody else was on the card."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from core.plots.palette import FAINT
from core.trace.trace import Trace

MOST = 50
"""Of one run; with more, the warning beside the figure has to do."""

CONTENDED = "#D55E00"


def add_shades(figure: go.Figure, row: int, traces: Sequence[Trace], axis: str) -> None:
    """Shade what is in doubt in row `row`; the first of each kind is labelled."""
    for label, colour, kind in (("no samples", FAINT, "gaps"), ("contended", CONTENDED, "contended")):
        shown = [(trace, one) for trace in traces for one in getattr(trace, kind)[:MOST]]
        for position, (trace, (start, end)) in enumerate(shown):
            ends = np.asarray([start, end], dtype=np.int64)
            x = trace.seconds(ends) if axis == "seconds" else trace.steps(ends)
            if x[1] > x[0]:
                figure.add_vrect(
                    x0=float(x[0]),
                    x1=float(x[1]),
                    fillcolor=colour,
                    opacity=0.18,
                    line_width=0,
                    layer="below",
                    annotation_text=label if position == 0 and row == 1 else None,
                    annotation_position="top left",
                    annotation_font_size=10,
                    row=row,
                    col=1,
                )
