"""Links that open a page with a view: everything that determines it is in the address."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

import streamlit as st

from core.runs.access import PUBLIC_URL, is_loopback

MOST_RUNS = 30


def compare_query(run_ids: Sequence[str], **view: str) -> str:
    """`runs=a,b&axis=step`: readable, with commas as they are."""
    return urlencode({"runs": ",".join(run_ids), **view}, safe=",")


def ids_in_query(name: str = "runs") -> list[str]:
    """The ids in the address, each once, at most 30 of at most 40 characters: the rest is no link of ours."""
    parts = st.query_params.get(name, "")[:4000].split(",")
    return [part.strip()[:40] for part in dict.fromkeys(parts) if part.strip()][:MOST_RUNS]


def address() -> str:
    """Where visitors reach the app: VRAMSCOPE_PUBLIC_URL, else the address this visitor came by."""
    public = os.environ.get(PUBLIC_URL)
    if public:
        return public.rstrip("/")
    parts = urlsplit(str(st.context.url or "http://127.0.0.1:8501"))
    return f"{parts.scheme}://{parts.netloc}"


def copy_link(page: str, query: str) -> None:
    """Show the link to this view, ready to copy, and say who can open it."""
    link = f"{address()}/{page}?{query}"
    with st.popover("Copy link", icon=":material/link:"):
        st.code(link, language=None, wrap_lines=True)
        if is_loopback(urlsplit(link).hostname or ""):
            st.caption(
                "Only this machine can open it. To let others in, see docs/serving.md and set "
                f"{PUBLIC_URL}; or send the CSV."
            )
