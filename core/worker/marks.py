"""Which module was at work when: a mark at each enter and leave, so that allocations can be told apart by module."""

from __future__ import annotations

import time
from typing import Any

from core.runfolder.jsonio import write_json
from core.runfolder.layout import RunFolder

MARK_LIMIT = 2_000_000
"""Marks kept: about 100 MB of JSON. A 7B model makes about 900 a step."""


class ModuleMarks:
    """Enter and leave marks of every module under one model. `names` are those of `named_modules`; the root is ""."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._marks: list[tuple[int, int, int]] = []
        self._handles: list[Any] = []

    def attach(self, model: Any) -> None:
        for name, module in model.named_modules():
            index = len(self._names)
            self._names.append(name)
            self._handles.append(module.register_forward_pre_hook(self._mark(index, 1)))
            self._handles.append(module.register_forward_hook(self._mark(index, -1)))

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def save(self, folder: RunFolder, warnings: list[str]) -> None:
        """Write modules.json. A module that an error left has an enter mark only."""
        if len(self._marks) >= MARK_LIMIT:
            warnings.append(f"module marks end after the first {MARK_LIMIT:,}")
        write_json(folder.modules, {"names": self._names, "marks": self._marks})

    def _mark(self, index: int, direction: int) -> Any:
        marks, clock = self._marks, time.monotonic_ns

        def hook(*_: Any) -> None:
            if len(marks) < MARK_LIMIT:
                marks.append((clock(), index, direction))

        return hook
