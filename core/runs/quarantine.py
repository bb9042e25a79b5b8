"""Cards that get no runs: memory stayed on them after a run had ended, which would falsify every run that follows."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from core.runfolder.jsonio import read_json, write_json
from core.runs.home import DataHome


@dataclass(frozen=True)
class Quarantine:
    """Why a card gets no runs. `baseline`: what was on it before that run, by which it is released again."""

    device: str
    run_id: str
    message: str
    pids: tuple[int, ...]
    baseline: dict[str, Any]
    since: float

    @property
    def text(self) -> str:
        """One line for a page."""
        held = f", PID {', '.join(map(str, self.pids))}" if self.pids else ""
        return f"no runs until its memory is back: {self.message} after {self.run_id}{held}"


def quarantines(home: DataHome) -> dict[str, Quarantine]:
    """Every card in quarantine, by its device id."""
    found = {}
    for path in _folder(home).glob("*.json"):
        document = read_json(path) or {}
        try:
            one = Quarantine(**{field.name: document[field.name] for field in fields(Quarantine)})
        except KeyError:
            continue
        found[one.device] = one
    return found


def put_into_quarantine(
    home: DataHome, device: str, run_id: str, message: str, pids: tuple[int, ...], baseline: dict[str, Any]
) -> None:
    """Raises OSError when the disk refuses."""
    _folder(home).mkdir(exist_ok=True)
    write_json(_path(home, device), asdict(Quarantine(device, run_id, message, pids, baseline, time.time())))


def release_from_quarantine(home: DataHome, device: str) -> None:
    _path(home, device).unlink(missing_ok=True)


def _folder(home: DataHome) -> Path:
    return home.root / "quarantine"


def _path(home: DataHome, device: str) -> Path:
    return _folder(home) / f"{re.sub(r'[^A-Za-z0-9-]', '_', device)}.json"
