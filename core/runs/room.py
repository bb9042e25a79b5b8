"""Whether the disk of the data folder has room for another run."""

from __future__ import annotations

import shutil

from core.runs.home import DataHome

LEAST_FREE = 64 * 2**20
"""Bytes. A run of some minutes with its history takes about as much; below, it would only fail late."""


def no_room(home: DataHome) -> str | None:
    """Why no run can be taken now; None where there is room."""
    try:
        free = shutil.disk_usage(home.root).free
    except OSError as error:
        return f"the disk of the data folder {home.root} does not answer ({error.strerror})"
    if free >= LEAST_FREE:
        return None
    return (
        f"the disk of the data folder {home.root} has {free / 2**20:,.0f} MiB free and a run needs "
        f"{LEAST_FREE >> 20} MiB; delete runs or move the folder (VRAMSCOPE_HOME)"
    )
