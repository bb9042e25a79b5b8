"""Puts runs into the queue: the only way in, for the app and for the command line."""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass

from filelock import FileLock
from sqlalchemy.exc import SQLAlchemyError

from core.runfolder.jsonio import write_json
from core.runfolder.layout import RunFolder
from core.runs.home import DataHome
from core.runs.room import no_room
from core.runs.start import ensure_supervisor
from core.runs.status import RunStatus, write_status
from core.runs.store import Store
from core.spec.errors import DataFolderError
from core.spec.model_source import ModelSource
from core.spec.run_spec import RunSpec

logger = logging.getLogger(__name__)

ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without i, l, o, 0 and 1, which people misread when they type a link."""


@dataclass(frozen=True)
class PreparedRun:
    """A run whose spec was checked: nothing about it is left to ask."""

    spec: RunSpec
    source: ModelSource
    warnings: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True)
class Submitted:
    """What was queued."""

    experiment_id: str
    run_ids: tuple[str, ...]


def submit(home: DataHome, runs: Sequence[PreparedRun], title: str = "", note: str = "") -> Submitted:
    """Queue `runs` as one experiment, in their order, and see to it that a supervisor works on them.

    Raises DataFolderError when the folders cannot be written, or the disk is nearly full; then nothing is queued.
    """
    reason = no_room(home)
    if reason:
        raise DataFolderError(reason)
    store = Store(home)  # an index that refuses says so before anything is queued
    experiment_id = new_experiment(home, title, note, len(runs))
    run_ids = tuple(f"{experiment_id}-{position}" for position in range(1, len(runs) + 1))
    written: list[RunFolder] = []
    try:
        with FileLock(home.submit_lock):
            now_ns = _after_the_last(home)
            for run_id, run in zip(run_ids, runs, strict=True):
                written.append(_write_folder(home, run_id, experiment_id, run, now_ns / 1e9))
            for position, run_id in enumerate(run_ids, 1):
                (home.queue / f"{now_ns:020d}.{position:04d}.{run_id}").touch()
            ensure_supervisor(home)
    except OSError as error:
        for folder in written:
            shutil.rmtree(folder.root, ignore_errors=True)
        raise DataFolderError(f"the runs could not be written to {home.root}: {error}") from error
    try:
        store.put_experiment(experiment_id)
        store.put_runs(run_ids)
    except SQLAlchemyError:  # they are queued all the same
        logger.exception("the index does not take %s; reindex brings it back", experiment_id)
    return Submitted(experiment_id, run_ids)


def _after_the_last(home: DataHome) -> int:
    """Now, in nanoseconds, or just after the last ticket of the queue where the wall clock was set back since."""
    last = max((path.name for path in home.queue.iterdir()), default="0").partition(".")[0]
    return max(time.time_ns(), int(last) + 1_000_000 if last.isdigit() else 0)


def new_experiment(home: DataHome, title: str, note: str, count: int) -> str:
    """Take a free id for an experiment and write its document. Raises DataFolderError when the disk refuses."""
    while True:
        experiment_id = "".join(secrets.choice(ID_LETTERS) for _ in range(6))
        path = home.experiments / f"{experiment_id}.json"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise DataFolderError(f"the data folder {home.root} cannot be written: {error}") from error
        write_json(path, {"title": title, "note": note, "created_at": time.time(), "runs": count})
        return experiment_id


def _write_folder(home: DataHome, run_id: str, experiment_id: str, run: PreparedRun, submitted_at: float) -> RunFolder:
    folder = RunFolder(home.runs / run_id)
    folder.root.mkdir()
    folder.model.mkdir()
    folder.model_config.write_text(json.dumps(run.source.config, indent=1), encoding="utf-8")
    source = {
        "kind": run.source.kind,
        "name": run.source.name,
        "path": str(run.source.path) if run.source.path else None,
    }
    write_json(
        folder.spec,
        {
            "run_id": run_id,
            "experiment_id": experiment_id,
            "label": run.label,
            "spec": run.spec.to_dict(),
            "source": source,
            "warnings": list(run.warnings),
        },
    )
    write_status(folder, RunStatus(run_id, experiment_id, "queued", submitted_at))
    return folder
