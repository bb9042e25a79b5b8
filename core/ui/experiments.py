"""The latest experiments, each with a link that opens its runs in Compare."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.runs.rows import ExperimentRow
from core.ui.links import compare_query
from core.ui.text import when


def experiments_table(rows: Sequence[ExperimentRow]) -> None:
    """Title, number of runs and date of each experiment."""
    table = [
        {
            "experiment": row.title or row.experiment_id,
            "runs": len(row.run_ids),
            "when": when(row.created_at),
            "open": f"/Compare?{compare_query(row.run_ids[:30])}",
        }
        for row in rows
    ]
    link = st.column_config.LinkColumn("compare", display_text="Open in Compare")
    st.dataframe(table, hide_index=True, column_config={"open": link}, key="experiments")
