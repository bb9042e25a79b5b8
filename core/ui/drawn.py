"""Figures of ended runs, drawn once: what fifty people look at is the same, and drawing is most of a page's work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import plotly.graph_objects as go
import streamlit as st

from core.runs.status import ENDED
from core.trace.trace import Trace

MOST = 64
"""Figures kept in the server's memory; one of six lines is some hundred KiB."""


def drawn(what: str, traces: Sequence[Trace], make: Callable[[], go.Figure]) -> go.Figure:
    """The figure that `make` draws of `traces`; `what` tells it from other figures of the same runs.

    It is shared: Streamlit copies a figure before it changes it, and nobody else may change one.
    """
    if any(trace.state not in ENDED for trace in traces):
        return make()
    return _kept(f"{what} {'; '.join(map(_content, traces))}", make)


def _content(trace: Trace) -> str:
    """What of a trace decides how it is drawn; its title can change after its end, and its history may be reread."""
    lengths = {name: len(series.values) for name, series in trace.series.items()}
    parts = (trace.run_id, trace.label, trace.state, trace.t0_ns, dict(trace.spec), dict(trace.device), lengths,
             dict(trace.peaks), len(trace.phases), trace.gaps, trace.contended)  # fmt: skip
    return repr(parts)


@st.cache_resource(max_entries=MOST, show_spinner=False)
def _kept(key: str, _make: Callable[[], go.Figure]) -> go.Figure:
    return _make()
