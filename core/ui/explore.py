"""The right side of Explore: the runs that the form makes, and the runs that were started from it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from core.devices.registry import list_devices
from core.plots.units import size
from core.runs.forecast import MOST, forecasts
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
FORECAST_S = 1.0
VERDICTS = {
    "fits": "fits",
    "tight": "tight",
    "oom": "out of memory",
    "fails": "a library finds no memory",
    "unknown": "cannot be simulated",
    "not simulated": "–",
}


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


def matrix_table(home: DataHome, preparation: Preparation) -> None:
    """How many runs, and what varies in them."""
    runs = preparation.runs
    count = f"{len(runs)} run" if len(runs) == 1 else f"{len(runs)} runs"
    devices = ", ".join(sorted({run.spec.device for run in runs}))
    st.markdown(f"**{count}** on {plain(devices)}")
    for warning in preparation.warnings:
        st.warning(plain(warning, 500))
    _forecast_rows(home, preparation)


def _forecast_rows(home: DataHome, preparation: Preparation) -> None:
    """One row a run with what a simulation says of it; it fills in while the answers come."""
    runs = preparation.runs
    devices = list_devices()
    names = [None if run.spec.device == "cpu" else devices.find(run.spec.device).name for run in runs]
    varying = preparation.varying or ("model", "batch_size", "prompt_tokens", "new_tokens")
    pending = any(answer is None for answer in forecasts(home, runs, names)[:MOST])

    @st.fragment(run_every=FORECAST_S if pending else None)
    def rows() -> None:
        answers = forecasts(home, runs, names)
        table = []
        for run, answer in zip(runs, answers, strict=True):
            said = (answer or {}).get("verdict", "…")
            peak = (answer or {}).get("peak_device_used")
            forecast = {"simulated verdict": VERDICTS.get(said, said), "simulated peak": size(peak) if peak else "–"}
            table.append({name: str(getattr(run.spec, name)) for name in varying} | forecast)
        if all(run.spec.device == "cpu" for run in runs):
            table = [{name: row[name] for name in varying} for row in table]
        st.dataframe(table, hide_index=True)
        if len(runs) > MOST:
            st.caption(f"Simulated beforehand are the first {MOST} of {len(runs)} runs.")
        if pending and all(answer is not None for answer in answers[:MOST]):
            st.rerun()

    rows()


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
