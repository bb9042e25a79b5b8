"""Buttons that hand runs out as files. Nothing is made before one is pressed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from core.export.formats import FORMATS, exported, file_name
from core.runs.home import DataHome


def downloads(home: DataHome, run_ids: Sequence[str]) -> None:
    """One button a format; those that hold one run are there when one is shown."""
    folders = [home.run(run_id) for run_id in run_ids]
    for form in FORMATS.values():
        if form.single and len(folders) != 1:
            continue
        st.download_button(
            form.label,
            data=partial(exported, form.name, folders),
            file_name=file_name(form.name, run_ids),
            mime=form.mime,
            key=f"download-{form.name}",
            on_click="ignore",
            width="stretch",
        )
    if len(folders) > 1:
        st.caption("A script that repeats a run, and a snapshot for memory_viz, are there when one run is shown.")
