"""The parts of Runs: filters, and what can be done with the runs chosen."""

from __future__ import annotations

from typing import get_args

import streamlit as st

from core.export.archive import import_archive
from core.plots.units import size
from core.runs.home import DataHome
from core.runs.rows import RunRow
from core.runs.status import State
from core.runs.store import Store
from core.spec.errors import VramscopeError
from core.ui.downloads import downloads
from core.ui.text import plain

DELETED = "deleted-runs"
MOST_ROWS = 1_000


def filters(store: Store) -> list[RunRow]:
    """The runs that the filters let through, newest first; the filters are in the address."""
    text, state, model, device = st.columns([3, 1, 1, 1])
    words = text.text_input("Text", key="q", bind="query-params", max_chars=200, placeholder="id, title, note, model …")
    everything = store.list_runs(limit=MOST_ROWS)
    chosen_state = state.selectbox("State", list(get_args(State)), index=None, key="state", bind="query-params")
    models = sorted({row.model for row in everything})
    chosen_model = model.selectbox("Model", models, index=None, key="model", bind="query-params")
    devices = sorted({row.device for row in everything})
    chosen_device = device.selectbox("Device", devices, index=None, key="device", bind="query-params")
    return store.list_runs(
        text=words or "", state=chosen_state, model=chosen_model, device=chosen_device, limit=MOST_ROWS
    )


def deleted_notice(store: Store) -> None:
    """Offers to undo the last deletion."""
    deleted = st.session_state.get(DELETED)
    if not deleted:
        return
    said, undo = st.columns([4, 1], vertical_alignment="center")
    said.info(f"{len(deleted)} deleted: {', '.join(deleted)}")
    if undo.button("Undo", icon=":material/undo:"):
        try:
            store.restore(deleted)
        except VramscopeError as error:
            st.error(plain(error))
        st.session_state[DELETED] = []
        st.rerun()


def chosen_actions(home: DataHome, store: Store, chosen: list[str]) -> None:
    """Open, download, delete, and edit title and note of the runs chosen in the table."""
    if not chosen:
        st.caption("Choose rows to open, download, rename or delete them.")
        return
    compare, download, delete = st.columns(3)
    if compare.button(f"Compare {len(chosen)}", type="primary", icon=":material/compare_arrows:"):
        st.switch_page("pages/2_Compare.py", query_params={"runs": ",".join(chosen)})
    with download.popover("Download", icon=":material/download:"):
        downloads(home, chosen)
    if delete.button(f"Delete {len(chosen)}", icon=":material/delete:"):
        try:
            store.delete(chosen)
            st.session_state[DELETED] = chosen
        except VramscopeError as error:
            st.error(plain(error))
            return
        st.rerun()
    if len(chosen) == 1:
        _label_form(store, chosen[0])


def _label_form(store: Store, run_id: str) -> None:
    row = next((row for row in store.list_runs(text=run_id) if row.run_id == run_id), None)
    if row is None:
        return
    with st.form(f"label-{run_id}"):
        title = st.text_input("Title", row.title, max_chars=200)
        note = st.text_area("Note", row.note, max_chars=10_000)
        if st.form_submit_button("Save"):
            store.rename(run_id, title, note)
            st.rerun()
    if row.error_message:
        st.markdown(f"{plain(row.state)}: {plain(row.error_message, 500)}")
    st.caption(f"peak reserved {size(row.peak.reserved)}, peak host RSS {size(row.peak.host_rss)}")


def import_form(home: DataHome) -> None:
    """Takes an archive from another installation."""
    with st.expander("Import an archive"):
        file = st.file_uploader("Archive", type=["zip"], key="archive", label_visibility="collapsed")
        if file is None or not st.button("Import", icon=":material/upload:"):
            return
        try:
            _, run_ids = import_archive(home, file.getvalue())
        except VramscopeError as error:
            st.error(plain(error, 500))
            return
        st.switch_page("pages/2_Compare.py", query_params={"runs": ",".join(run_ids[:30])})
