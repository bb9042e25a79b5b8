"""What a list of runs shows of each, and how it is read off a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder
from core.runs.home import is_run_id
from core.runs.status import Peak, State, read_status


class RunRow(NamedTuple):
    """One run in a list, in the order of the index's columns. Times are seconds since the epoch, peaks bytes or None.

    A tuple, since a list of 10,000 of them is made for one page.
    """

    run_id: str
    experiment_id: str
    position: int
    state: State
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    seconds: float | None
    model: str
    device: str
    device_name: str | None
    batch_size: int | None
    prompt_tokens: int | None
    new_tokens: int | None
    label: str
    title: str
    note: str
    peak: Peak
    error_kind: str | None
    error_message: str | None


@dataclass(frozen=True)
class ExperimentRow:
    """One experiment in a list, with the ids of its runs that still exist, in order."""

    experiment_id: str
    title: str
    note: str
    created_at: float
    run_ids: tuple[str, ...]


def columns_of(folder: RunFolder) -> dict[str, Any] | None:
    """The index row of the run in `folder`; None when the folder has no readable spec and status."""
    document, status = read_json(folder.spec), read_status(folder)
    if document is None or status is None or not isinstance(document.get("spec"), dict):
        return None
    if not is_run_id(str(status.run_id)):
        return None
    spec, label = document["spec"], read_json(folder.label) or {}
    error = status.error
    columns = {
        "run_id": status.run_id,
        "experiment_id": status.experiment_id,
        "position": int(status.run_id.rpartition("-")[2]),
        "state": status.state,
        "submitted_at": status.submitted_at,
        "started_at": status.started_at,
        "ended_at": status.ended_at,
        "seconds": status.seconds,
        "model": str(spec.get("model")),
        "device": str(spec.get("device")),
        "device_name": status.device.get("name"),
        "batch_size": spec.get("batch_size"),
        "prompt_tokens": spec.get("prompt_tokens"),
        "new_tokens": spec.get("new_tokens"),
        "label": str(document.get("label", "")),
        "title": str(label.get("title", "")),
        "note": str(label.get("note", "")),
        "peak_allocated": status.peak.allocated,
        "peak_reserved": status.peak.reserved,
        "peak_process_used": status.peak.process_used,
        "peak_device_used": status.peak.device_used,
        "peak_host_rss": status.peak.host_rss,
        "error_kind": error.kind if error else None,
        "error_message": _said(error.message, error.reason)[:500] if error else None,
    }
    return columns if all(map(_fits, columns.items())) else None


def _fits(column: tuple[str, Any]) -> bool:
    """Whether a value can stand in its column: one folder that was tampered with must not keep the others out."""
    name, value = column
    if value is None:
        return name in MAY_LACK
    if name in TIMES:
        return type(value) in (int, float) and 0 <= value < END_OF_TIME
    if name in COUNTS or name.startswith("peak_"):
        return type(value) is int and -(2**63) <= value < 2**63
    return isinstance(value, str)


END_OF_TIME = 253_402_300_800
"""Seconds since the epoch at the end of the year 9999, which is the last that a date can show."""

TIMES = ("submitted_at", "started_at", "ended_at", "seconds")
COUNTS = ("position", "batch_size", "prompt_tokens", "new_tokens")
MAY_LACK = frozenset(
    {*TIMES[1:], *COUNTS[1:], "device_name", "error_kind", "error_message"}
    | {f"peak_{name}" for name in Peak.__dataclass_fields__}
)

PEAK_AT = RunRow._fields.index("peak")
PEAKS = len(Peak.__dataclass_fields__)


def row_of(values: Sequence[Any]) -> RunRow:
    """A RunRow from a row of the index, whose five peaks stand where RunRow has one field."""
    after = PEAK_AT + PEAKS
    return RunRow._make((*values[:PEAK_AT], Peak(*values[PEAK_AT:after]), *values[after:]))


def _said(message: str, reason: str | None) -> str:
    """The first line of an error, and what it really was."""
    first = str(message).strip().partition("\n")[0]
    return f"{first} ({reason})" if reason else first
