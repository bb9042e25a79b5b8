"""Runs as Markdown for an issue or a forum: specs that differ, peaks, breakdown, difference, findings."""

from __future__ import annotations

from collections.abc import Sequence

from core.explain.breakdown import Breakdown, breakdown
from core.explain.categories import BY_KEY
from core.explain.document import explained
from core.explain.evidence import Evidence
from core.plots.tables import Row, differences_table, peaks_table, subtitle_of, title_of
from core.plots.units import size


def report(evidence: Sequence[Evidence]) -> str:
    """The whole text. Figures say how they were got."""
    traces = [one.trace for one in evidence]
    found = [breakdown(one) for one in evidence]
    said = explained(evidence, found)
    parts = [f"## {_cell(title_of(traces))}", _cell(subtitle_of(traces)), "### Peaks", _table(peaks_table(traces))]
    parts += [
        f"`{trace.run_id}` {_cell(trace.ended_as)}:\n\n```\n{_fenced(trace.error['message'])}\n```"
        for trace in traces
        if trace.error
    ]
    parts += ["### Where the memory is", _table(_breakdowns(found))]
    if said["difference"]:
        pair = said["difference"]
        rows = [{"": BY_KEY[term["name"]].label, "difference": signed(term["bytes"])} for term in pair["terms"]]
        parts += [f"### {pair['a']} − {pair['b']}", _table([*rows, {"": "total", "difference": signed(pair["total"])}])]
    if said["findings"]:
        parts.append("### What explains it")
        for finding in said["findings"]:
            change = " ".join(f"`{name}={value}`" for name, value in (finding["change"] or {}).items())
            parts.append(f"* `{finding['run']}` {_cell(finding['text'])}{f' Try {change}.' if change else ''}")
    rows = differences_table(traces, everything=len(traces) == 1)
    if rows:
        parts += ["### Specs", _table(rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def signed(value: int) -> str:
    """`+2,114.0 MiB`, `−788.0 MiB`."""
    return f"{'−' if value < 0 else '+'}{size(abs(value))}"


def _breakdowns(found: Sequence[Breakdown]) -> list[Row]:
    keys = [key for key in BY_KEY if any(key in one.terms for one in found)]
    rows = [
        {
            "": BY_KEY[key].label,
            **{one.run_id: f"{size(one.terms.get(key, 0))} ({one.sources.get(key, '–')})" for one in found},
        }
        for key in keys
    ]
    return [*rows, {"": "total", **{one.run_id: f"{size(one.total)} ({one.measure})" for one in found}}]


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    names = list(rows[0])
    lines = [f"| {' | '.join(_cell(name) for name in names)} |", f"|{' --- |' * len(names)}"]
    lines += [f"| {' | '.join(_cell(row.get(name, '')) for name in names)} |" for row in rows]
    return "\n".join(lines)


def _cell(text: object) -> str:
    """One line that stays in its cell, and that Markdown shows as it is."""
    said = " ".join(str(text).split())
    for special in "\\`*_[]<>|#":
        said = said.replace(special, f"\\{special}")
    return said


def _fenced(text: str) -> str:
    return text.replace("```", "'''")[:4000]
