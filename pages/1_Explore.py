"""Explore: what do I want to try?"""

import streamlit as st

from core.runs.settings import read_settings
from core.ui.explore import matrix_of_choices, matrix_table, started_runs, submit_button
from core.ui.form import spec_form
from core.ui.page import data_home, page

page("Explore", "What do I want to try? Several values in a field make a matrix; nothing starts before you press Run.")
home = data_home()
settings = read_settings(home)

left, right = st.columns([2, 3], gap="large")
with left:
    choices = spec_form(settings)
with right:
    force = st.toggle("Run jobs that seem too large for this machine", value=False)
    preparation = matrix_of_choices(choices, settings, force)
    if preparation:
        matrix_table(home, preparation)
        submit_button(home, preparation)
    started_runs(home)
