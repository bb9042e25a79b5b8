"""The recorded experiments as cards, each with its picture and a link that opens it in Compare."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from core.plots.thumbnail import thumbnail
from core.runs.gallery import Recording, gallery_run, recordings
from core.trace.read import read_trace
from core.ui.text import plain

COLUMNS = 3


def gallery_cards() -> None:
    """One card an experiment; nothing where the app came without them."""
    if not recordings():
        return
    st.subheader("Recorded on a real GPU, to look at without one", divider="gray")
    shown = recordings()
    for start in range(0, len(shown), COLUMNS):
        for column, recording in zip(st.columns(COLUMNS), shown[start : start + COLUMNS], strict=False):
            with column.container(border=True, height="stretch"):
                _card(recording)


def _card(recording: Recording) -> None:
    st.markdown(f"**{plain(recording.title)}**")
    st.plotly_chart(
        _picture(recording.experiment_id, recording.run_ids),
        key=f"card-{recording.experiment_id}",
        config={"staticPlot": True},
        alt=f"Device memory over the steps of {len(recording.run_ids)} runs",
    )
    st.caption(plain(recording.note, 400))
    st.caption(f"{plain(recording.card)} · {recording.date} · {len(recording.run_ids)} runs")
    st.page_link(
        "pages/2_Compare.py",
        label="Open in Compare",
        icon=":material/compare_arrows:",
        query_params={"runs": ",".join(recording.run_ids), "axis": "step"},
    )


@st.cache_data(show_spinner=False)
def _picture(experiment_id: str, run_ids: tuple[str, ...]) -> go.Figure:
    """Drawn once for each server: a recording does not change."""
    folders = [gallery_run(run_id) for run_id in run_ids]
    return thumbnail([read_trace(folder) for folder in folders if folder is not None])
