"""Whether a card is as it was before a run: what is looked at before the next run gets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil

from core.devices.device import Reading
from core.runs.supervisor.processes import tagged

SLACK = 64 * 2**20
"""Bytes by which a card may differ: the driver's own tables and a desktop's windows move by less."""

PATIENCE_NS = 15_000_000_000
"""How long a driver may take to give the memory of a process back; 2 s is the longest that was seen."""


@dataclass(frozen=True)
class Stayed:
    """Memory of an ended run that is still in use: how much as far as the driver says, and who holds it."""

    message: str
    pids: tuple[int, ...] = ()


def baseline_of(reading: Reading) -> dict[str, Any]:
    """What to keep of a reading from before a run; None where the driver does not say."""
    sizes = reading.processes
    return {
        "used": reading.device_used,
        "unowned": _unowned(reading),
        "pids": sorted(sizes) if sizes is not None else None,
    }


def stayed(run_id: str, baseline: dict[str, Any], reading: Reading) -> Stayed | None:
    """What of the run is still on the card; None when the card is back at its baseline.

    What processes of others hold is theirs, however much it grew. Where the driver lists no processes, the card as a
    whole has to be where it was.
    """
    if reading.device_used is None:
        why = "; ".join(reading.missing.values()) or "no reason given"
        return Stayed(f"the driver does not say what is in use ({why})")
    if baseline.get("used") is None:
        return None  # it never said, so there is nothing to compare with
    unowned, before = _unowned(reading), baseline.get("unowned")
    if unowned is None or before is None or reading.processes is None:
        more = reading.device_used - int(baseline["used"])
        return Stayed(f"{_mib(more)} more than before it are in use, and nobody says by whom") if more > SLACK else None
    ours = {process.pid for process in tagged(run_id)}
    known = set(baseline.get("pids") or ())
    # a pid that was not there before and that nobody can name is one of another namespace: perhaps the run's
    held = {p: n for p, n in reading.processes.items() if p in ours or (p not in known and not psutil.pid_exists(p))}
    more = sum(size or 0 for size in held.values()) + max(0, unowned - int(before))
    return Stayed(f"{_mib(more)} of it stayed", tuple(sorted(held))) if more > SLACK or held else None


def _unowned(reading: Reading) -> int | None:
    """Bytes in use that belong to no process; None where a figure is missing."""
    if reading.device_used is None or reading.processes is None:
        return None
    sizes = list(reading.processes.values())
    if any(size is None for size in sizes):
        return None
    return reading.device_used - sum(size or 0 for size in sizes)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
