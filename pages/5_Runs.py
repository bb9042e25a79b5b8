"""Runs: where is the one from Tuesday?"""

import streamlit as st

from core.ui.manage import chosen_actions, deleted_notice, filters, import_form
from core.ui.page import data_home, data_store, page
from core.ui.runs_table import runs_table

page("Runs", "Where is the one from Tuesday? Everything recorded on this machine.")
home = data_home()
store = data_store(home)

deleted_notice(store)
import_form(home)
rows = filters(store)
if rows:
    st.caption(f"{len(rows)} runs")
    chosen = runs_table(rows, key="runs")
    chosen_actions(home, store, chosen)
else:
    st.info("No run is like that. Clear the filters, or start one in Explore.")
