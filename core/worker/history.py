"""torch's own record of every allocation, from the first one to snapshot.pickle."""

from __future__ import annotations

import inspect
import os
import pickle
from typing import Any

import torch

from core.runfolder.layout import RunFolder

MAX_ENTRIES = 5_000_000
"""Entries that torch keeps before it drops the oldest; without stacks each takes about 100 bytes."""


class AllocatorHistory:
    """The history of the one visible card. Start it while the pool is empty: what was allocated before has no event."""

    def __init__(self, folder: RunFolder, stacks: bool) -> None:
        self._folder = folder
        self._stacks = stacks

    def start(self) -> None:
        """Record allocations, frees and segments; with Python stacks when asked.

        Raises TypeError or AttributeError where torch has neither the interface of 2.1 nor that of 2.0.
        """
        record: Any = torch.cuda.memory._record_memory_history
        options: dict[str, Any] = {"context": "all" if self._stacks else None, "max_entries": MAX_ENTRIES}
        if "skip_actions" in inspect.signature(record).parameters:
            options["skip_actions"] = ["free_requested"]  # a third of all entries, and none that is read
        try:
            record(enabled="all", stacks="python", **options)
        except TypeError:  # torch 2.0
            record(
                True,
                record_context=self._stacks,
                trace_alloc_max_entries=MAX_ENTRIES,
                trace_alloc_record_context=self._stacks,
            )

    def save(self) -> dict[str, Any]:
        """Write snapshot.pickle whole or not at all, stop recording, and say how many entries it has."""
        snapshot: Any = torch.cuda.memory._snapshot()
        path = self._folder.snapshot
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as stream:
                pickle.dump(snapshot, stream, protocol=4)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
            record: Any = torch.cuda.memory._record_memory_history
            record(None)
        entries = max((len(trace) for trace in snapshot.get("device_traces", [])), default=0)
        return {"entries": entries, "truncated": entries >= MAX_ENTRIES}
