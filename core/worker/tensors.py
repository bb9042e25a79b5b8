"""Which storage belongs to which parameter or buffer, so that blocks of the allocator's history get a name."""

from __future__ import annotations

import time
from typing import Any

from core.runfolder.jsonio import write_json
from core.runfolder.layout import RunFolder


class TensorList:
    """Storages of a model on the card, collected whenever one may have moved: after load, engine and wrap.

    t_ns is when the tensor was first seen at that address; a later line with the same name is where it moved to.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], dict[str, Any]] = {}

    def collect(self, model: Any) -> None:
        now = time.monotonic_ns()
        named = [("parameter", *pair) for pair in model.named_parameters()]
        named += [("buffer", *pair) for pair in model.named_buffers()]
        for kind, name, tensor in named:
            if tensor.device.type != "cuda":
                continue
            storage = tensor.untyped_storage()
            row = {
                "name": name,
                "kind": kind,
                "data_ptr": storage.data_ptr(),
                "storage_bytes": storage.nbytes(),
                "t_ns": now,
            }
            self._seen.setdefault((name, row["data_ptr"]), row)

    def save(self, folder: RunFolder) -> None:
        """Write tensors.json, when there is anything to write."""
        if self._seen:
            write_json(folder.tensors, {"tensors": list(self._seen.values())})
