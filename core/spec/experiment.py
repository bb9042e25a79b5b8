"""An experiment as a file, YAML or JSON.

title: Why DDP "saves" memory
note: text
base: {model: llama-7b, batch_size: 150}      # fields of every run
matrix: {wrap: [none, ddp]}                   # either: a list for any field
runs:                                         # or: one entry a run, in order
  - {name: plain}
  - {name: ddp, wrap: ddp}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.spec.document import read_document
from core.spec.errors import InvalidSpec
from core.spec.matrix import Matrix, combinations, expand, matrix_of, refuse_twice, shown
from core.spec.run_spec import parse_spec

KEYS = ("title", "note", "base", "matrix", "runs")


@dataclass(frozen=True)
class Experiment:
    """What a file describes, with overrides applied."""

    title: str
    note: str
    matrix: Matrix


def load_experiment(path: Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """Read the experiment at `path`. `overrides` take the place of a field in every run; a list multiplies the runs.

    Raises InvalidSpec, with the line where the file cannot be read, with the run where a run will not do.
    """
    document = _mapping(read_document(path), f"{path.name}: an experiment")
    unknown = [key for key in document if key not in KEYS]
    if unknown:
        raise InvalidSpec(f"{path.name}: {unknown[0]!r} is not part of an experiment; it has {', '.join(KEYS)}")
    try:
        matrix = _matrix(document, _mapping(document.get("base") or {}, "base"), dict(overrides or {}))
    except InvalidSpec as error:
        raise InvalidSpec(f"{path.name}: {error}") from error
    return Experiment(str(document.get("title") or path.stem), str(document.get("note") or ""), matrix)


def _matrix(document: dict[str, Any], base: dict[str, Any], overrides: dict[str, Any]) -> Matrix:
    if document.get("runs") is None:
        return expand({**base, **_mapping(document.get("matrix") or {}, "matrix"), **overrides})
    if document.get("matrix") is not None:
        raise InvalidSpec("it has both runs and matrix; keep one of them")
    entries = document["runs"]
    if not isinstance(entries, list) or not entries:
        raise InvalidSpec("runs is a list with an entry for each run")
    lists = {name: list(value) if isinstance(value, list | tuple) else [value] for name, value in overrides.items()}
    several = [name for name, values in lists.items() if len(values) > 1]
    specs, names = [], []
    for number, entry in enumerate(entries, 1):
        fields = _mapping(entry, f"run {number}")
        name = str(fields.pop("name", "") or "")
        of_entry = []
        for combination in combinations(lists, times=len(entries)):
            try:
                of_entry.append(parse_spec({**base, **fields, **combination}))
            except InvalidSpec as error:
                raise InvalidSpec(f"run {number}{f' ({name})' if name else ''}: {error}") from error
            names.append(" ".join(filter(None, (name, *(f"{field}={shown(combination[field])}" for field in several)))))
        refuse_twice(lists, of_entry)
        specs += of_entry
    return matrix_of(specs, names)


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidSpec(f"{what} has to be fields with values, not {type(value).__name__}")
    return {str(key): item for key, item in value.items()}
