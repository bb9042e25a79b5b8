"""Takes the hub's tokens out of what a run leaves: a library may print one, and logs and errors are read by others."""

from __future__ import annotations

import os
import re
from pathlib import Path

from core.runs.environment import hub_tokens

TOKEN = re.compile(rb"\b(hf|api_org)_[A-Za-z0-9]{8,}")
HIDDEN = "[token removed]"
SHORTEST = 8
"""Characters of an environment variable that is taken for a token wherever it stands; a shorter one is a word."""


def without_tokens(data: bytes) -> bytes:
    """`data` with every token of the hub, and the values of this process's own, replaced."""
    for value in hub_tokens().values():
        if len(value) >= SHORTEST:
            data = data.replace(value.encode(), HIDDEN.encode())
    return TOKEN.sub(HIDDEN.encode(), data)


def text_without_tokens(text: str) -> str:
    return without_tokens(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


def clean(path: Path) -> None:
    """Take the tokens out of a file that has been written to its end. A file without one is left as it is."""
    try:
        data = path.read_bytes()
        cleaned = without_tokens(data)
        if cleaned != data:
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            try:
                temporary.write_bytes(cleaned)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
    except OSError:
        try:
            if TOKEN.search(path.read_bytes()):
                path.unlink()  # no room to write it again: better no log than a token
        except OSError:
            pass  # it is not there
