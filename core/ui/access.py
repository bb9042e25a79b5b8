"""Stands before every page: nobody uses a server that is open to others without having logged in."""

from __future__ import annotations

import os

import streamlit as st

from core.runs.access import OPEN_TO_ALL, PUBLIC_URL, Authentication, admitted, authentication, is_loopback
from core.runs.home import DataHome, open_home
from core.runs.settings import Settings, read_settings
from core.spec.errors import DataFolderError, VramscopeError
from core.spec.roots import limit_models


def guard() -> None:
    """End the script here for whom the page is not. Call after the page is configured and before anything is shown."""
    here_only = is_loopback(st.get_option("server.address"))
    try:
        login = authentication()
    except VramscopeError as error:
        st.error(str(error))
        st.stop()
    if login is None and not here_only and os.environ.get(OPEN_TO_ALL) != "1":
        st.error(
            "This server can be reached from other machines and has no authentication, so it shows nothing. "
            "Start it with `python -m core serve`; docs/serving.md says how to let others in."
        )
        st.stop()
    settings = _settings()
    if login is not None:
        _log_in(login, settings)
    if login is not None or not here_only or os.environ.get(PUBLIC_URL):
        limit_models(settings.model_roots)


def _settings() -> Settings:
    try:
        home: DataHome = open_home()
    except DataFolderError:
        return Settings()  # the page says it
    return read_settings(home)


def _log_in(login: Authentication, settings: Settings) -> None:
    if not st.user.is_logged_in:
        st.title("VRAMscope")
        for name in login.providers or (None,):
            if st.button(f"Log in{f' with {name}' if name else ''}", key=f"login-{name}", icon=":material/login:"):
                st.login(name)
        st.stop()
    verified = st.user.get("email_verified", True) is not False
    if not admitted(st.user.get("email") if verified else None, settings.allowed_users):
        st.error("You are logged in, but not among those who may use this server; its admin has a list.")
        if st.button("Log out", icon=":material/logout:"):
            st.logout()
        st.stop()
    with st.sidebar:
        if st.button("Log out", icon=":material/logout:"):
            st.logout()
