"""Keeps what a job prints from filling the disk."""

from __future__ import annotations

import os
from pathlib import Path

MOST_BYTES = 16 * 2**20
KEPT_BYTES = 4 * 2**20

NOTE = b"\n[VRAMscope: the output grew beyond 16 MiB; what is missing here was cut out]\n"


def bound(path: Path) -> None:
    """Cut a log that has grown too long back to its beginning, which says most. Its writer appends after it."""
    try:
        if path.stat().st_size <= MOST_BYTES:
            return
        os.truncate(path, KEPT_BYTES)
        with path.open("ab", buffering=0) as stream:
            stream.write(NOTE)
    except OSError:
        pass  # not there, or the disk is full of something else
