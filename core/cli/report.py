"""A run as one JSON object, the shape that `run --json` and `show --json` print."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.runfolder.jsonio import read_json, read_json_lines
from core.runfolder.layout import RunFolder
from core.runs.status import read_status


def run_report(folder: RunFolder) -> dict[str, Any]:
    """Peaks are bytes or null. Phase times are seconds since the worker was started, null while a phase runs."""
    status, document = read_status(folder), read_json(folder.spec) or {}
    error = status.error if status else None
    return {
        "id": folder.run_id,
        "state": status.state if status else "lost",
        "spec": document.get("spec"),
        "peak": asdict(status.peak) if status else None,
        "phases": phases(folder, status.t0_ns if status else None),
        "error": asdict(error) if error else None,
        "seconds": status.seconds if status else None,
        "warnings": [*document.get("warnings", []), *(read_json(folder.result) or {}).get("warnings", [])],
        "trace_incomplete": status.trace_incomplete if status else None,
        "folder": str(folder.root),
    }


def phases(folder: RunFolder, t0_ns: int | None) -> list[dict[str, Any]]:
    """The phases in order; a row at the start of a phase is replaced by the one at its end."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for row in read_json_lines(folder.phases):
        rows[row["name"], row["index"]] = row
    return [
        {
            "name": row["name"],
            "index": row["index"],
            "t_start": _seconds(row["t_start"], t0_ns),
            "t_end": _seconds(row["t_end"], t0_ns),
        }
        for row in rows.values()
    ]


def _seconds(t_ns: int | None, t0_ns: int | None) -> float | None:
    return None if t_ns is None or t0_ns is None else (t_ns - t0_ns) / 1e9
