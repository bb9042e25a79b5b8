"""All that a run folder tells about its memory, read once: trace, blocks, segments, the model's tensors and config."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.explain.naming import HEAD
from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder
from core.runfolder.tables import EVENTS, codes_of, read_table, rows_named
from core.trace.read import read_trace
from core.trace.trace import Trace

LAYER = re.compile(r"\.(\d+)(\.|$)")
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Blocks:
    """Every allocation, in order. `born` and `died` are positions among the events; NEVER for one that was not freed.

    `module` and `origin` are indices into `modules` and `origins`, -1 where nothing was recorded. size: bytes that were
    asked for.
    """

    born: NDArray[np.int64]
    died: NDArray[np.int64]
    addr: NDArray[np.uint64]
    size: NDArray[np.int64]
    module: NDArray[np.int32]
    origin: NDArray[np.int32]
    modules: tuple[str, ...]
    origins: tuple[str, ...]

    def living(self, position: int) -> NDArray[np.intp]:
        """Indices of the blocks that are there after the first `position` events."""
        return np.flatnonzero((self.born < position) & (self.died >= position))


@dataclass(frozen=True)
class Tensor:
    """A parameter or buffer of the model: where its storage lay when it was first seen there."""

    name: str
    kind: str
    addr: int
    bytes: int
    t_ns: int


@dataclass(frozen=True)
class Evidence:
    """`t_ns`: the time of each event; `config`: the model's config.json."""

    trace: Trace
    events: pa.Table
    t_ns: NDArray[np.int64]
    blocks: Blocks
    tensors: tuple[Tensor, ...]
    config: Mapping[str, Any]

    @property
    def vocabulary(self) -> int | None:
        size = self.config.get("vocab_size") or (self.config.get("text_config") or {}).get("vocab_size")
        return size if isinstance(size, int) else None

    @property
    def has_events(self) -> bool:
        return bool(self.events.num_rows)

    @property
    def has_marks(self) -> bool:
        return bool(self.blocks.modules)

    @property
    def has_stacks(self) -> bool:
        return bool(self.blocks.origins)

    def rows(self, *actions: str) -> NDArray[np.intp]:
        """The positions of the events of these kinds."""
        return np.flatnonzero(rows_named(self.events["action"], actions))

    @cached_property
    def layers(self) -> NDArray[np.int64]:
        """For each event the number of the layer at work, -1 where none is."""
        codes, names = codes_of(self.events["module"])
        numbers = [LAYER.search(name) for name in names]
        of_module = np.asarray([int(found.group(1)) if found else -1 for found in numbers] + [-1], dtype=np.int64)
        return of_module[codes]

    @cached_property
    def bytes_by_module(self) -> dict[str, set[int]]:
        """The sizes of the model's own tensors, by the module that uses them. A tied head has none of its own."""
        found: dict[str, set[int]] = {}
        for tensor in self.tensors:
            found.setdefault(tensor.name.rpartition(".")[0], set()).add(tensor.bytes)
        everything = {tensor.bytes for tensor in self.tensors}
        for module in self.blocks.modules:
            if HEAD.search(module) and module not in found:
                found[module] = everything
        return found

    def position(self, t_ns: int) -> int:
        """How many events there were up to and including `t_ns`."""
        return int(np.searchsorted(self.t_ns, t_ns, side="right"))


def read_evidence(folder: RunFolder, trace: Trace | None = None) -> Evidence:
    """The evidence in `folder`; `trace`, where it was read already. Raises NoSuchRun when it is not one of a run."""
    trace, events = trace or read_trace(folder), read_table(folder.events, EVENTS)
    return Evidence(
        trace,
        events,
        events["t_ns"].to_numpy().astype(np.int64),
        pair_blocks(events),
        tuple(_tensors(read_json(folder.tensors) or {})),
        read_json(folder.model_config) or {},
    )


def _tensors(document: dict[str, Any]) -> list[Tensor]:
    return [
        Tensor(str(t["name"]), str(t["kind"]), int(t["data_ptr"]), int(t["storage_bytes"]), int(t["t_ns"]))
        for t in document.get("tensors", [])
    ]


def pair_blocks(events: pa.Table) -> Blocks:
    """Match each allocation with the free of its address that comes next."""
    is_alloc, is_free = (rows_named(events["action"], (name,)) for name in ("alloc", "free"))
    addr = events["addr"].fill_null(0).to_numpy().astype(np.uint64)
    wanted = np.flatnonzero(is_alloc | is_free)
    order = wanted[np.argsort(addr[wanted], kind="stable")]
    after = np.append(order[1:], -1)
    same = np.zeros(len(order), dtype=bool)
    if len(order):
        same[:-1] = addr[order[:-1]] == addr[order[1:]]
    opens = is_alloc[order]
    died = np.where(same[opens], after[opens], NEVER)
    by_birth = np.argsort(order[opens], kind="stable")
    born = order[opens][by_birth].astype(np.int64)
    module, modules = codes_of(events["module"])
    origin, origins = codes_of(events["origin"])
    size = events["size"].to_numpy().astype(np.int64)
    return Blocks(
        born, died[by_birth].astype(np.int64), addr[born], size[born], module[born], origin[born], modules, origins
    )
