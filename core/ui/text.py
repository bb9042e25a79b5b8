"""Text that came from a user, shown as text: Streamlit's labels and captions read Markdown."""

from __future__ import annotations

import re
import time

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:])")


def plain(text: object, most: int = 200) -> str:
    """`text` in Markdown that shows it literally, on one line, cut to `most` characters."""
    said = " ".join(str(text).split())
    return _SPECIAL.sub(r"\\\1", said if len(said) <= most else f"{said[: most - 1]}…")


def when(seconds: float | None) -> str:
    """A moment as date and time of this machine, or a dash."""
    return "–" if not seconds else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
