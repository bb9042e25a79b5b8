"""The lower half of Compare: the breakdown at an instant, the difference, and what explains it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.explain.blocks import named_blocks
from core.explain.breakdown import Breakdown, breakdown
from core.explain.categories import BY_KEY
from core.explain.difference import difference
from core.explain.evidence import Evidence, read_evidence
from core.explain.findings import Case, Finding, ranked
from core.explain.history import pool_history
from core.explain.instant import position_of
from core.plots.breakdown import bars, waterfall
from core.plots.inside import area, icicle
from core.plots.units import size
from core.runs.home import DataHome
from core.spec.run_spec import RunSpec
from core.trace.trace import Trace
from core.ui.drawn import drawn
from core.ui.text import plain

AT = "at"
MOST_FINDINGS = 20
MOST_BARS = 8
"""Runs whose breakdowns are drawn: each reads its whole history."""


def explanation(home: DataHome, traces: Sequence[Trace], axis: str) -> None:
    """Breakdowns of the runs at one instant, the difference of two, and every finding; one run is looked into."""
    shown = traces[:MOST_BARS]
    st.subheader("Where the memory is", divider="gray")
    step = _instant(shown)
    evidence = [read_evidence(home.run(trace.run_id), trace) for trace in shown]
    found = [breakdown(one, _time_of(one, step)) for one in evidence]
    figure = drawn(f"breakdown {step}", shown, lambda: bars(found))
    st.plotly_chart(figure, key="breakdown", config={"displaylogo": False}, alt="Breakdown of each run")
    for one in found:
        if one.request:
            st.markdown(
                f"**{one.run_id}** asked for {size(one.request.size)} of "
                f"{BY_KEY[one.request.category].label} more: {plain(one.request.where, 120)}"
            )
        for note in one.notes:
            st.caption(f"{one.run_id}: {plain(note)}")
    with st.expander("As a table"):
        st.dataframe(_table(found), hide_index=True)
    if len(evidence) == 1:
        _inside(evidence[0], found[0], axis)
    if len(traces) > MOST_BARS:
        st.caption(f"The first {MOST_BARS} of {len(traces)} runs; choose fewer to see the others.")
    if len(found) > 1:
        _difference(shown, found, step)
    _findings(evidence, found)


def _inside(evidence: Evidence, found: Breakdown, axis: str) -> None:
    """The pool of one run over time, and the blocks of the chosen instant."""
    history = pool_history(evidence)
    if history is None:
        return
    st.subheader("What the pool held", divider="gray")
    st.plotly_chart(
        area(evidence.trace, history, axis), key="area", config={"displaylogo": False}, alt="The pool by category"
    )
    st.subheader("Which tensors at that instant", divider="gray")
    blocks = named_blocks(evidence, position_of(evidence, found.t_ns))
    st.plotly_chart(icicle(blocks), key="icicle", config={"displaylogo": False}, alt="Living blocks by module")


def _instant(traces: Sequence[Trace]) -> float | None:
    """The step chosen on the page or in the address; None for each run's own peak, or its failure."""
    last = max((phase.step_end or 0 for trace in traces for phase in trace.phases), default=0)
    left, right = st.columns([1, 2], vertical_alignment="bottom")
    step = left.number_input(
        "Instant (step)",
        min_value=0.0,
        max_value=float(last),
        value=None,
        step=1.0,
        format="%g",
        placeholder="each at its peak",
        key=AT,
        bind="query-params",
    )
    where = "at its failed request, or at its peak of device used" if step is None else f"at step {step:g}"
    right.caption(f"Each run {where}. A step is one forward pass; empty the field for the peaks.")
    return step


def _time_of(evidence: Evidence, step: float | None) -> int | None:
    if step is None:
        return None
    trace = evidence.trace
    for phase in trace.phases:
        end = phase.step_end if phase.step_end is not None else phase.step_start
        if phase.step_start <= step <= end and end > phase.step_start and phase.t_end:
            share = (step - phase.step_start) / (end - phase.step_start)
            return int(phase.t_start + share * (phase.t_end - phase.t_start))
    return None


def _table(found: Sequence[Breakdown]) -> list[dict[str, str]]:
    keys = [key for key in BY_KEY if any(key in one.terms for one in found)]
    rows = [
        {
            "category": BY_KEY[key].label,
            **{one.run_id: f"{size(one.terms.get(key, 0))} ({one.sources.get(key, '–')})" for one in found},
            "what it is": BY_KEY[key].what,
        }
        for key in keys
    ]
    return [*rows, {"category": "total", **{one.run_id: f"{size(one.total)} ({one.measure})" for one in found}}]


def _difference(traces: Sequence[Trace], found: Sequence[Breakdown], step: float | None) -> None:
    names = [one.run_id for one in found]
    st.subheader("Where they differ", divider="gray")
    a, b = found[0], found[1]
    if len(found) > 2:
        left, right = st.columns(2)
        a = found[names.index(left.selectbox("A", names, index=0, key="a", bind="query-params"))]
        b = found[names.index(right.selectbox("minus B", names, index=1, key="b", bind="query-params"))]
    result = difference(a, b)
    st.markdown(
        f"**{a.run_id} − {b.run_id} = {'−' if result.total < 0 else ''}{size(abs(result.total))}**, term by term"
    )
    for note in result.notes:
        st.caption(plain(note))
    figure = drawn(f"waterfall {step} {a.run_id} {b.run_id}", traces, lambda: waterfall(result))
    st.plotly_chart(figure, key="waterfall", config={"displaylogo": False}, alt="Difference, term by term")
    st.caption("The axis begins where the changes are, not always at 0.")
    with st.expander("As a table"):
        terms = {"category": [BY_KEY[key].label for key in result.terms], "bytes": list(result.terms.values())}
        st.dataframe(terms, hide_index=True)


def _findings(evidence: Sequence[Evidence], found: Sequence[Breakdown]) -> None:
    st.subheader("What explains it", divider="gray")
    cases = [Case(one, part) for one, part in zip(evidence, found, strict=True)]
    said: dict[str, list[tuple[Case, Finding]]] = {}
    terms = difference(found[0], found[1]).terms if len(found) == 2 else None
    for case, finding in ranked(cases, terms):
        said.setdefault(finding.sentence, []).append((case, finding))
    if not said:
        st.caption("No rule has anything to say about these runs.")
        return
    for same in list(said.values())[:MOST_FINDINGS]:
        _finding([case.breakdown.run_id for case, _ in same], *same[0])


def _finding(run_ids: Sequence[str], case: Case, finding: Finding) -> None:
    """One sentence, said once of all the runs it holds for, with the change to try."""
    trace = case.evidence.trace
    st.markdown(f"**{', '.join(run_ids)}** {plain(finding.sentence, 600)}")
    if finding.advice:
        st.caption(plain(finding.advice, 400))
    if finding.change:
        changes = ", ".join(f"{name}={value}" for name, value in finding.change.items())
        st.page_link(
            "pages/1_Explore.py",
            label=f"Try {plain(changes, 60)}",
            icon=":material/science:",
            query_params=explore_query(trace, finding.change),
            help="Opens Explore with this run's spec and the change",
        )


def explore_query(trace: Trace, change: dict[str, object]) -> dict[str, str]:
    """What fills Explore's form with a run's spec and a change: the fields that are not at their defaults."""
    defaults = {name: field.default for name, field in RunSpec.model_fields.items()}
    wanted = {**trace.spec, **change}
    kept = {name: value for name, value in wanted.items() if name in defaults and value != defaults[name]}
    return {
        name: str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
        for name, value in kept.items()
        if value is not None and not (name == "device" and str(value).startswith("cuda:"))
    }
