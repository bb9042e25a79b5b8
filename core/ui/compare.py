"""The parts of Compare: which runs, their timelines, their peaks, where their specs differ."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.plots.tables import differences_table, peaks_table, subtitle_of, title_of
from core.plots.timeline import Axis, timeline
from core.runs.gallery import recorded_label, recordings
from core.runs.home import DataHome
from core.runs.rows import RunRow
from core.runs.store import Store
from core.spec.errors import NoSuchRun
from core.trace.read import read_trace
from core.trace.trace import METRICS, Trace
from core.ui.downloads import downloads
from core.ui.drawn import drawn
from core.ui.links import compare_query, copy_link, ids_in_query
from core.ui.text import plain

ON_CARD = ("device_used", "reserved", "allocated")
ON_CPU = ("host_rss",)


def chosen_runs(home: DataHome, store: Store) -> list[Trace]:
    """The runs named in the address, changeable on the page. Says which of them there are not."""
    wanted = ids_in_query()
    known = {row.run_id: row for row in store.list_runs(limit=500)}
    missing, present = [], []
    for name in wanted:
        try:
            present.extend(store.resolve([name]))
        except NoSuchRun:
            missing.append(name)
    if missing:
        st.warning(f"Not here any more, or never: {', '.join(plain(name) for name in missing)}")
    recorded = [run_id for recording in recordings() for run_id in recording.run_ids]
    options = list(dict.fromkeys([*present, *known, *recorded]))
    picked = st.multiselect(
        "Runs",
        options,
        default=present,
        format_func=lambda run_id: _option(run_id, known.get(run_id)),
        placeholder="Choose runs to lay over each other",
        max_selections=30,
    )
    if picked != wanted:
        if picked:
            st.query_params["runs"] = ",".join(picked)
        elif "runs" in st.query_params:
            del st.query_params["runs"]
    return _traces(home, picked)


def _option(run_id: str, row: RunRow | None) -> str:
    label = (row.title or row.label or row.model) if row else recorded_label(run_id)
    return f"{run_id} · {label}"[:80] if label else run_id


def _traces(home: DataHome, run_ids: Sequence[str]) -> list[Trace]:
    traces = []
    for run_id in run_ids:
        try:
            traces.append(read_trace(home.run(run_id)))
        except NoSuchRun as error:
            st.warning(plain(error))
    return traces


def view_choices(traces: Sequence[Trace]) -> tuple[str, list[str]]:
    """The x axis and the metrics, both tied to the address."""
    there = [metric for metric in METRICS if any(metric in trace.series for trace in traces)]
    on_card = any(str(trace.spec.get("device")) != "cpu" for trace in traces)
    default = [metric for metric in (ON_CARD if on_card else ON_CPU) if metric in there]
    left, right = st.columns([1, 3], vertical_alignment="bottom")
    axis = left.segmented_control(
        "x axis", ["seconds", "step"], default="seconds", required=True, key="axis", bind="query-params"
    )
    # by hand, so that a link has them as one short list: series=reserved,allocated
    linked = [metric for metric in st.query_params.get("series", "").split(",") if metric in there]
    picked = right.pills(
        "Series",
        there,
        selection_mode="multi",
        default=linked or default,
        format_func=lambda metric: METRICS[metric],
        key=f"series of {','.join(there)}",
    )
    metrics = [str(metric) for metric in picked] or default
    if metrics != (linked or default):
        st.query_params["series"] = ",".join(metrics)
    return str(axis or "seconds"), metrics


def headline(traces: Sequence[Trace]) -> None:
    """What changed, and what stayed the same."""
    st.subheader(plain(title_of(traces)))
    st.caption(plain(subtitle_of(traces), 400))
    for trace in traces:
        if trace.error:
            st.markdown(f"**{trace.run_id}** {plain(trace.ended_as, 300)}: {plain(trace.error['message'], 300)}")
        if trace.incomplete:
            st.warning(f"{trace.run_id}: {plain(trace.incomplete, 300)}")
        if trace.contention:
            st.warning(f"{trace.run_id} contended: {plain(trace.contention, 300)}")


def figures(traces: Sequence[Trace], axis: str, metrics: Sequence[str]) -> None:
    """The timelines."""
    along: Axis = "step" if axis == "step" else "seconds"
    figure = drawn(f"timeline {along} {','.join(metrics)}", traces, lambda: timeline(traces, metrics, along))
    image = {"format": "svg", "filename": "-".join(trace.run_id for trace in traces)[:80]}
    st.plotly_chart(
        figure,
        key="timeline",
        config={"displaylogo": False, "toImageButtonOptions": image, "scrollZoom": False},
        alt=f"Memory over {axis} of {len(traces)} runs",
    )


def tables(traces: Sequence[Trace]) -> None:
    """Peaks, and where the specs differ."""
    st.subheader("Peaks", divider="gray")
    st.dataframe(peaks_table(traces), hide_index=True)
    st.caption("exact: torch's own counter. sampled: polled, so a shorter peak can be missed.")
    st.subheader("Specs", divider="gray")
    everything = st.toggle("All fields", key="all", bind="query-params")
    rows = differences_table(traces, everything or len(traces) == 1)
    if rows:
        st.dataframe(rows, hide_index=True)
    else:
        st.caption("The specs of these runs do not differ.")


def take_away(home: DataHome, traces: Sequence[Trace], axis: str, metrics: Sequence[str]) -> None:
    """The link to this view, and the runs as files."""
    ids = [trace.run_id for trace in traces]
    left, right, _ = st.columns([1, 1, 4])
    with left:
        copy_link("Compare", compare_query(ids, axis=axis, series=",".join(metrics)))
    with right.popover("Download", icon=":material/download:"):
        downloads(home, ids)
