"""What the runs of a matrix would come to, asked before any is started. Answers are kept by spec, versions and card."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from core.devices.registry import calibrated_cards
from core.runfolder.jsonio import read_json, write_json
from core.runs.environment import PROJECT_ROOT, child_environment
from core.runs.home import DataHome
from core.runs.submit import PreparedRun
from core.spec.cards import PREFIX, Card, all_cards

CHANGE_NOTHING = (
    "record_interval_ms",
    "record_history",
    "record_stacks",
    "record_modules",
    "timeout_s",
    "device",
    "seed",
)
"""Fields that are not part of a question: they change no figure, or are told by the card."""

MOST = 40
"""Runs of one matrix that are asked about; each takes some seconds."""


def forecasts(home: DataHome, runs: Sequence[PreparedRun], names: Sequence[str | None]) -> list[dict[str, Any] | None]:
    """For each run its answer as far as it is known (core.simulate.verdict), None while it is worked out or not asked.

    `names`: what the run's device is called, by which its card is found. What is not known yet is asked for.
    """
    asked = [question_of(run, name) for run, name in zip(runs[:MOST], names, strict=False)]
    folder = home.root / "forecasts"
    folder.mkdir(exist_ok=True)
    answers: list[dict[str, Any] | None] = []
    missing = False
    for question in asked:
        if question is None:
            answers.append({"verdict": "not simulated", "peak_device_used": None, "message": ""})
            continue
        path = folder / f"{_key(question)}.json"
        found = read_json(path)
        if found is None and not path.with_suffix(".todo").exists():
            write_json(path.with_suffix(".todo"), question)
        missing = missing or found is None
        answers.append(found)
    if missing:
        _ensure_process(folder)
    return answers + [None] * (len(runs) - len(asked))


def question_of(run: PreparedRun, device_name: str | None) -> dict[str, Any] | None:
    """None for a run that is not on a card that is known, or in another environment than the app's own."""
    card = card_of(run.spec.device, device_name)
    if card is None or run.spec.environment != "default":
        return None
    spec = {name: value for name, value in run.spec.to_dict().items() if name not in CHANGE_NOTHING}
    versions = {name: _version(name) for name in ("torch", "transformers", "deepspeed")}
    return {
        "spec": spec | {"device": card.device_id, "seed": 0},
        "config": run.source.config,
        "card": card.id,
    } | versions


def card_of(device: str, name: str | None) -> Card | None:
    """The card of the catalogue that a device is, by its id or its name; None for the CPU and an unknown card."""
    cards = all_cards(calibrated_cards())
    if device.startswith(PREFIX):
        return next((card for card in cards if card.device_id == device), None)
    return next((card for card in cards if card.name == name), None)


def _key(question: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:32]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _ensure_process(folder: Path) -> None:
    lock = FileLock(folder / "forecasting.lock")
    started = folder / "started"
    try:
        lock.acquire(timeout=0)
        lock.release()
    except Timeout:
        return
    # importing torch takes seconds, in which it has no lock yet
    if started.exists() and 0 <= time.time() - started.stat().st_mtime < 15:
        return
    started.touch()
    with (folder / "forecasting.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "core.simulate.forecasting", str(folder)],
            cwd=PROJECT_ROOT,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
