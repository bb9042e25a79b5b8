"""How far a run is, from the phases its worker has written."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder
from core.runs.status import State, read_status

TAIL_BYTES = 8192


@dataclass(frozen=True)
class Progress:
    """Where a run is. `steps` counts forward passes; `total_steps` is None until the spec is readable.

    eta_s: seconds left by the pace of the forward passes so far, None before the second.
    """

    state: State
    phase: str | None = None
    index: int = 0
    step: int = 0
    total_steps: int | None = None
    eta_s: float | None = None

    @property
    def fraction(self) -> float:
        if self.state in ("finished", "finishing"):
            return 1.0
        return min(1.0, self.step / self.total_steps) if self.total_steps else 0.0

    @property
    def text(self) -> str:
        """One line for a progress bar: `decode 21/37`."""
        if self.state != "running" or self.phase is None:
            return self.state
        if self.phase == "decode" and self.total_steps:
            return f"decode {self.step}/{self.total_steps}"
        return self.phase


def total_steps(spec: dict[str, Any]) -> int:
    """Forward passes that the job will make. generate's first one is the prefill and yields the first token."""
    passes = 1 if spec.get("job") == "forward" else max(1, int(spec.get("new_tokens", 1)))
    return passes * int(spec.get("repeats", 1))


def progress(folder: RunFolder) -> Progress:
    """Reads the tail of phases.jsonl: cheap enough to ask several times a second."""
    status = read_status(folder)
    state: State = status.state if status else "queued"
    document = read_json(folder.spec)
    total = total_steps(document["spec"]) if document else None
    rows = _tail(folder.phases)
    if not rows:
        return Progress(state, total_steps=total)
    last = rows[-1]
    step = int(last["step_end"] if last.get("t_end") else last["step_start"])
    eta = _eta(rows, step, total) if state == "running" else None
    return Progress(state, str(last["name"]), int(last["index"]), step, total, eta)


def _eta(rows: list[dict[str, Any]], step: int, total: int | None) -> float | None:
    """From the mean pace of the decode steps in the tail; a prefill costs more than a step, so it is left out."""
    done = [row for row in rows if row["name"] == "decode" and row.get("t_end")]
    if total is None or not done:
        return None
    span_ns = done[-1]["t_end"] - done[0]["t_start"]
    return float(span_ns / len(done) / 1e9 * (total - step))


def _tail(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - TAIL_BYTES))
            lines = stream.read().split(b"\n")
    except OSError:
        return []
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the first line of the tail may be cut, the last half written
        if isinstance(row, dict) and "name" in row:
            rows.append(row)
    return rows
