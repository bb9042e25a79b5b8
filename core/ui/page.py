"""What every page begins with: its configuration, and the data folder it reads."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from core.runs.home import DataHome, open_home
from core.runs.store import Store
from core.spec.errors import DataFolderError
from core.ui.access import guard

ICON = str(Path(__file__).with_name("icon.png"))

PAGES = (
    ("streamlit_app.py", "Home", ":material/home:"),
    ("pages/1_Explore.py", "Explore", ":material/science:"),
    ("pages/2_Compare.py", "Compare", ":material/compare_arrows:"),
    ("pages/4_Diagnose.py", "Diagnose", ":material/troubleshoot:"),
    ("pages/5_Runs.py", "Runs", ":material/list:"),
)
"""Streamlit's own list would call the first one `streamlit app`."""


def page(title: str, question: str) -> None:
    """Configure the page and show its title and the one question it answers. Call it first."""
    st.set_page_config(page_title=f"{title} · VRAMscope", page_icon=ICON, layout="wide")
    guard()
    with st.sidebar:
        for path, label, icon in PAGES:
            st.page_link(path, label=label, icon=icon)
    st.title(title)
    st.caption(question)


def data_home() -> DataHome:
    """The data folder; where it cannot be written the page says so and ends."""
    try:
        return open_home()
    except DataFolderError as error:
        st.error(str(error))
        st.stop()


def data_store(home: DataHome) -> Store:
    """The runs of the data folder. Opened anew for each script run: another process may have rebuilt the index.

    Where the index refuses, being a newer version's, the page says so and ends.
    """
    try:
        return Store(home)
    except DataFolderError as error:
        st.error(str(error))
        st.stop()
