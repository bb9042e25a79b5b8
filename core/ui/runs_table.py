"""A list of runs as a table in which some can be chosen."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.plots.units import size
from core.runs.rows import RunRow
from core.ui.text import when

NOT_RECORDED = "–"


def _peak(value: int | None) -> str:
    return NOT_RECORDED if value is None else size(value)


def runs_table(rows: Sequence[RunRow], key: str, choose: bool = True) -> list[str]:
    """Show `rows`; returns the ids of those chosen, in the order of the table."""
    table = [
        {
            "run": row.run_id,
            "title": row.title or row.label or row.model,
            "state": row.state,
            "model": row.model,
            "work": f"{row.batch_size} × {row.prompt_tokens} + {row.new_tokens}",
            "device": row.device_name or row.device,
            "peak allocated": _peak(row.peak.allocated),
            "peak reserved": _peak(row.peak.reserved),
            "peak device": _peak(row.peak.device_used),
            "peak host RSS": _peak(row.peak.host_rss),
            "when": when(row.submitted_at),
            "note": row.note,
        }
        for row in rows
    ]
    if not choose:
        st.dataframe(table, hide_index=True, key=key)
        return []
    chosen = st.dataframe(table, hide_index=True, key=key, on_select="rerun", selection_mode="multi-row")
    return [rows[position].run_id for position in chosen["selection"]["rows"] if position < len(rows)]
