"""JSON documents that are whole or absent, and JSON lines that survive a cut.

Imported by the worker, so: standard library only, Python >= 3.9.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from core.runfolder.layout import SCHEMA_VERSION


def write_json(path: Path, document: dict[str, Any], spare: Path | None = None) -> None:
    """Write `document` so that a reader sees the old file or the new one, never half of one.

    `spare`: a file that is given up when the disk is full, so that what matters most still finds room.
    Raises OSError when the disk refuses; the temporary file is then removed and the old file is untouched.
    """
    try:
        _write_json(path, document)
    except OSError:
        if spare is None or not spare.exists():
            raise
        spare.unlink(missing_ok=True)
        _write_json(path, document)


def _write_json(path: Path, document: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump({"schema_version": SCHEMA_VERSION, **document}, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """The document at `path`; None when there is none or it cannot be read as a JSON object."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


class JsonLines:
    """Appends rows to a file, each flushed to the kernel, so that a killed process loses none that it wrote.

    A row that the disk refuses is counted in `lost` and nothing is raised: a job does not end for want of a record.
    """

    def __init__(self, path: Path) -> None:
        self._stream = path.open("ab", buffering=0)
        self.lost = 0

    def append(self, row: dict[str, Any]) -> None:
        # after a refusal the last line may be half written: the next one begins anew
        line = (("\n" if self.lost else "") + json.dumps(row) + "\n").encode()
        try:
            whole = self._stream.write(line) == len(line)
        except OSError:
            whole = False
        self.lost += not whole

    def close(self) -> None:
        self._stream.close()


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Whole rows of the file in order; a cut-off or damaged line is left out, a missing file has none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    rows = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows
