"""A run folder made small and free of where it was recorded: what an archive and the gallery hold of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.runfolder.jsonio import read_json, read_json_lines
from core.runfolder.layout import RunFolder
from core.runfolder.steps import last_rows
from core.runfolder.tables import EVENTS, SAMPLES, TableWriter, read_table
from core.runs.status import read_status
from core.spec.errors import NoSuchRun

DOCUMENTS: tuple[Callable[[RunFolder], Path], ...] = (
    lambda folder: folder.spec,
    lambda folder: folder.status,
    lambda folder: folder.result,
    lambda folder: folder.sampler,
    lambda folder: folder.tensors,
    lambda folder: folder.label,
    lambda folder: folder.model_config,
)
"""JSON that is kept. Logs, pids and torch's own pickle are not: they tell of a machine, not of a run."""

OF_THE_MACHINE = ("pid", "sampler_pid", "path", "foreign")


def pack_run(source: RunFolder, target: RunFolder, experiment_id: str, position: int) -> None:
    """Write the run in `source` to the new folder `target` as run `position` of `experiment_id`.

    Raises NoSuchRun when `source` is no run that has ended, OSError when the disk refuses.
    """
    status = read_status(source)
    if status is None or not status.ended:
        raise NoSuchRun(f"{source.run_id} is no run that has ended; only those are packed")
    renamed = {"run_id": f"{experiment_id}-{position}", "experiment_id": experiment_id}
    target.model.mkdir(parents=True)
    for path_of in DOCUMENTS:
        document = read_json(path_of(source))
        if document is not None:
            _write(path_of(target), {key: renamed.get(key, value) for key, value in _cleaned(document).items()})
    rows = last_rows(read_json_lines(source.phases))
    target.phases.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows), encoding="utf-8")
    for path_of, schema in ((lambda folder: folder.samples, SAMPLES), (lambda folder: folder.events, EVENTS)):
        table = read_table(path_of(source), schema)
        if table.num_rows:
            _write_table(path_of(target), table, schema)
    _write(target.recorded, recorded(source))


def recorded(folder: RunFolder) -> dict[str, Any]:
    """On what a run was recorded: card, driver, versions, date (UTC)."""
    result, status = read_json(folder.result) or {}, read_status(folder)
    versions = dict(result.get("versions") or {})
    driver = versions.pop("driver", None)
    started = status.started_at if status else None
    return {
        "card": (result.get("device") or {}).get("name") or (status.device.get("name") if status else None),
        "driver": driver,
        "versions": versions,
        "date": datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d") if started else None,
    }


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items() if key not in OF_THE_MACHINE}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


def _write_table(path: Path, table: pa.Table, schema: pa.Schema) -> None:
    with TableWriter(path, schema, compression="zstd") as writer:
        writer.write_table(table)
