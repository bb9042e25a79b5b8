"""Text that came from a user, made safe for Plotly, which reads a few tags in labels and hovers."""

from __future__ import annotations

import html


def plain(text: object, most: int = 80) -> str:
    """`text` as Plotly shows it literally, cut to `most` characters."""
    said = " ".join(str(text).split())
    return html.escape(said if len(said) <= most else f"{said[: most - 1]}…", quote=False)
