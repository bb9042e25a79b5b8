"""Runs under way, one row each, filled in live."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.plots.units import size
from core.runs.cancel import cancel
from core.runs.home import DataHome
from core.runs.progress import progress
from core.runs.rows import columns_of
from core.runs.start import look_after
from core.runs.status import ENDED, read_status
from core.spec.errors import NoSuchRun
from core.ui.text import plain

EVERY_S = 1.0

MARKS = {
    "finished": ":green[finished]",
    "oom": ":orange[out of memory]",
    "failed": ":red[failed]",
    "cancelled": ":gray[cancelled]",
    "timed_out": ":red[timed out]",
    "lost": ":red[lost]",
}


def live_runs(home: DataHome, run_ids: Sequence[str]) -> None:
    """Rows for `run_ids` that update once a second while one of them runs, and then no more."""
    if not run_ids:
        return
    unfinished = not _all_ended(home, run_ids)

    @st.fragment(run_every=EVERY_S if unfinished else None)
    def rows() -> None:
        if unfinished:
            look_after(home)
        for run_id in run_ids:
            _row(home, run_id)
        if unfinished and _all_ended(home, run_ids):
            st.rerun()  # the whole page: without the timer, and with what can be done with ended runs

    rows()


def _all_ended(home: DataHome, run_ids: Sequence[str]) -> bool:
    for run_id in run_ids:
        try:
            status = read_status(home.run(run_id))
        except NoSuchRun:
            continue
        if status is None or not status.ended:
            return False
    return True


def _row(home: DataHome, run_id: str) -> None:
    try:
        folder = home.run(run_id)
    except NoSuchRun as error:
        st.warning(str(error))
        return
    where, columns = progress(folder), columns_of(folder) or {}
    label, bar, action = st.columns([3, 5, 1], vertical_alignment="center")
    label.markdown(f"**{run_id}**  {plain(columns.get('label') or columns.get('model', ''))}")
    if where.state in ENDED:
        peak = columns.get("peak_device_used") or columns.get("peak_host_rss")
        if str(columns.get("device")) == "cpu":
            peak = columns.get("peak_host_rss")
        said = f"{MARKS[where.state]} · peak {size(peak)}"
        if columns.get("error_message"):
            said += f" · {plain(columns['error_message'], 300)}"
        bar.markdown(said)
        return
    left = f" · {where.eta_s:.0f} s left" if where.eta_s is not None else ""
    bar.progress(where.fraction, f"{where.text}{left}")
    if action.button("Cancel", key=f"cancel-{run_id}", icon=":material/close:"):
        cancel(home, [run_id])
