"""Compare: why do they differ?"""

import streamlit as st

from core.ui.compare import chosen_runs, figures, headline, tables, take_away, view_choices
from core.ui.explain import explanation
from core.ui.page import data_home, data_store, page

page("Compare", "Why do they differ? Runs laid over each other, from their first second to their last step.")
home = data_home()
traces = chosen_runs(home, data_store(home))

if traces:
    headline(traces)
    axis, metrics = view_choices(traces)
    take_away(home, traces, axis, metrics)
    figures(traces, axis, metrics)
    explanation(home, traces, axis)
    tables(traces)
else:
    st.info("Choose one run to see where its memory went, or several to lay them over each other.")
