"""Home: the devices, the queue, what was recorded last, and where to start."""

import streamlit as st

from core.ui.devices import device_lines
from core.ui.experiments import experiments_table
from core.ui.gallery import gallery_cards
from core.ui.page import data_home, data_store, page
from core.ui.progress import live_runs
from core.ui.runs_table import runs_table

page("VRAMscope", "Where does GPU memory go when a model generates?")
home = data_home()
store = data_store(home)
queue = store.queue()
latest = store.list_runs(limit=10)
experiments = store.list_experiments(limit=6)

st.subheader("Devices", divider="gray")
device_lines(home, queue)

start, compare, all_runs = st.columns(3)
start.page_link("pages/1_Explore.py", label="Explore: run something", icon=":material/science:")
compare.page_link("pages/2_Compare.py", label="Compare: why do they differ?", icon=":material/compare_arrows:")
all_runs.page_link("pages/5_Runs.py", label="Runs: everything recorded", icon=":material/list:")

if queue:
    st.subheader("Queue", divider="gray")
    live_runs(home, [row.run_id for row in queue[:8]])
    if len(queue) > 8:
        st.caption(f"and {len(queue) - 8} more waiting")

gallery_cards()

st.subheader("Latest on this machine", divider="gray")
if latest:
    experiments_table(experiments)
    chosen = runs_table(latest, key="latest")
    if st.button("Compare the chosen runs", disabled=not chosen, icon=":material/compare_arrows:"):
        st.switch_page("pages/2_Compare.py", query_params={"runs": ",".join(chosen)})
else:
    st.info("Nothing recorded yet. Explore starts a first run of a tiny model in a few seconds, on the CPU too.")
