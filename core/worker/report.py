"""result.json as it grows: whole and true at any time it is written."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import traceback
from typing import Any

from core.runfolder.jsonio import write_json
from core.runfolder.layout import RunFolder
from core.worker.clock import clock_pair
from core.worker.errors import describe


class Report:
    """What the job tells about itself. Fields that were never reached stay None."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self.warnings: list[str] = []
        self.fields: dict[str, Any] = {
            "outcome": "failed",
            "error": None,
            "peak": {"allocated": None, "reserved": None},
            "seconds": {"load": None, "generate": None, "repeats": []},
            "versions": {"python": platform.python_version()},
            "device": None,
            "clock": {"start": clock_pair(), "end": None},
            "model": None,
            "output_shape": None,
            "history": None,
            "deepspeed": None,
            "warnings": self.warnings,
        }

    def set(self, **fields: Any) -> None:
        self.fields.update(fields)

    def fail(self, error: BaseException, phase: str | None) -> None:
        """Record how the job ended; the whole traceback goes to stderr."""
        document = describe(error, phase)
        self.set(outcome="oom" if document["kind"] == "oom" else "failed", error=document)
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)

    def warn(self, what: str, error: BaseException) -> None:
        """Something beside the job failed; the result stands."""
        self.warnings.append(f"{what}: {type(error).__name__}: {error}"[:1000])
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)

    def write(self) -> None:
        self.fields["clock"]["end"] = clock_pair()
        write_json(self._folder.result, self.fields, self._folder.reserve)


def installed_version(package: str) -> str | None:
    """The version that this interpreter would import; None where there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
