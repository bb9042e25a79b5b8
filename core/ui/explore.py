"""The right side of Explore: the runs that the form makes, and the runs that were started from it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from core.runs.home import DataHome
from core.runs.prepare import Preparation, experiment_title, prepare
from core.runs.settings import Settings
from core.runs.submit import submit
from core.spec.errors import VramscopeError
from core.spec.matrix import expand
from core.ui.links import ids_in_query
from core.ui.progress import live_runs
from core.ui.text import plain

STARTED = "started"


def matrix_of_choices(choices: Mapping[str, list[str]], settings: Settings, force: bool) -> Preparation | None:
    """The runs that the choices make, checked; None, with the reason on the page, where they make none."""
    if "model" not in choices:
        st.info("Choose a model on the left: a preset, a folder with config.json, or a hub id.")
        return None
    try:
        return prepare(expand(choices), settings, force=force)
    except VramscopeError as error:
        st.error(plain(error, 1000), icon=":material/error:")
        return None


def matrix_table(preparation: Preparation) -> None:
    """How many runs, and what varies in them."""
    runs = preparation.runs
    count = f"{len(runs)} run" if len(runs) == 1 else f"{len(runs)} runs"
    devices = ", ".join(sorted({run.spec.device for run in runs}))
    st.markdown(f"**{count}** on {plain(devices)}")
    for warning in preparation.warnings:
        st.warning(plain(warning, 500))
    varying = preparation.varying or ("model", "batch_size", "prompt_tokens", "new_tokens")
    st.dataframe([{name: str(getattr(run.spec, name)) for name in varying} for run in runs], hide_index=True)


def submit_button(home: DataHome, preparation: Preparation) -> None:
    """Starts the runs; the page returns at once and shows them as they go."""
    runs = preparation.runs
    title = st.text_input("Title", placeholder=experiment_title(runs, preparation.varying), max_chars=200)
    if st.button(f"Run {len(runs)}", type="primary", icon=":material/play_arrow:"):
        try:
            submitted = submit(home, runs, title or experiment_title(runs, preparation.varying))
        except VramscopeError as error:
            st.error(plain(error, 1000))
            return
        st.query_params[STARTED] = ",".join([*submitted.run_ids, *ids_in_query(STARTED)][:12])
        st.rerun()


def started_runs(home: DataHome) -> None:
    """The runs started from here, live; they are in the address, so a reload keeps them."""
    ids = ids_in_query(STARTED)
    if not ids:
        return
    st.subheader("Started here", divider="gray")
    live_runs(home, ids)
    if st.button("Open in Compare", icon=":material/compare_arrows:"):
        st.switch_page("pages/2_Compare.py", query_params={"runs": ",".join(ids)})
