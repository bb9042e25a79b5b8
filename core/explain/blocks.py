"""The blocks that are there at an instant, each with its name; and what PyTorch keeps beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.explain.evidence import NEVER, Evidence
from core.explain.naming import HEAD, Block, Rule, name_block

TAKES = ("segment_alloc", "segment_map")
GIVES = ("segment_free", "segment_unmap")


@dataclass(frozen=True)
class Named:
    """A living block: what it is, by which rule, how large. `tensor`: the model's own name of what lies in it."""

    rule: Rule
    size: int
    addr: int
    tensor: str | None
    module: str | None
    origin: str | None

    @property
    def label(self) -> str:
        """What a person would call it."""
        return self.tensor or self.module or (self.origin or "").partition(" < ")[0] or "unknown"


def named_blocks(evidence: Evidence, position: int) -> list[Named]:
    """Every block that is there after the first `position` events."""
    blocks = evidence.blocks
    alive = blocks.living(position)
    if not len(alive):
        return []
    trace, t_ns = evidence.trace, evidence.t_ns
    born_t = t_ns[blocks.born[alive]]
    phases = [label.partition(" ")[0] if label.startswith("decode") else label for label in trace.phases_at(born_t)]
    outlives = _outlives(evidence, alive)
    end = max((p.t_end or 0 for p in trace.phases if p.name in ("prefill", "decode")), default=0)
    died = blocks.died[alive]
    kept = (died == NEVER) | (t_ns[np.minimum(died, len(t_ns) - 1)] >= end)
    tensors = _tensors_in(evidence, alive, born_t)
    owned = _bytes_by_module(evidence)
    spec = trace.spec
    autocast = spec.get("autocast", "none") != "none" and spec.get("dtype") == "fp32"
    grad = spec.get("grad_mode") == "grad" and spec.get("job") != "generate"
    found = []
    for number, index in enumerate(alive.tolist()):
        module = blocks.modules[blocks.module[index]] if blocks.module[index] >= 0 else None
        origin = blocks.origins[blocks.origin[index]] if blocks.origin[index] >= 0 else None
        size, (kind, name) = int(blocks.size[index]), tensors[number]
        block = Block(
            size=size,
            phase=phases[number],
            module=module,
            origin=origin,
            outlives=bool(outlives[number]),
            kept=bool(kept[number]),
            tensor=kind,
            halved=2 * size in owned.get(module or "", ()),
            autocast=autocast,
            grad=grad,
            vocabulary=evidence.vocabulary,
            marks=evidence.has_marks,
            stacks=evidence.has_stacks,
        )
        found.append(Named(name_block(block), size, int(blocks.addr[index]), name, module, origin))
    return found


def _outlives(evidence: Evidence, alive: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether a block is still there when another layer is at work; without marks, when its phase has ended.

    What attention computes is gone before the next layer begins, keys and values are not. That holds in a pass that
    failed too, which has no end.
    """
    blocks, trace = evidence.blocks, evidence.trace
    born, died = blocks.born[alive], blocks.died[alive]
    if not evidence.has_marks:
        ends = np.asarray([p.t_end or NEVER for p in trace.phases], dtype=np.int64)
        starts = np.asarray([p.t_start for p in trace.phases], dtype=np.int64)
        phase_of = np.maximum(np.searchsorted(starts, evidence.t_ns[born], side="right") - 1, 0)
        died_t = np.where(died == NEVER, NEVER, evidence.t_ns[np.minimum(died, len(evidence.t_ns) - 1)])
        return np.asarray(died_t > ends[phase_of] if len(ends) else np.zeros(len(alive)), dtype=bool)
    layers = evidence.layers
    changes = np.flatnonzero(layers[1:] != layers[:-1]) + 1
    following = np.searchsorted(changes, born, side="right")
    next_change = np.append(changes, NEVER - 1)[following]
    return np.asarray(died > next_change, dtype=bool)


def _tensors_in(
    evidence: Evidence, alive: NDArray[np.intp], born_t: NDArray[np.int64]
) -> list[tuple[str | None, str | None]]:
    """Kind and name of the model's tensor in each block; a parameter comes before a buffer."""
    found: list[tuple[str | None, str | None]] = [(None, None)] * len(alive)
    blocks = evidence.blocks
    order = np.argsort(blocks.addr[alive], kind="stable")
    starts = blocks.addr[alive][order].astype(np.uint64)
    for tensor in evidence.tensors:
        at = int(np.searchsorted(starts, np.uint64(tensor.addr), side="right")) - 1
        if at < 0:
            continue
        number = int(order[at])
        index = alive[number]
        inside = int(blocks.addr[index]) <= tensor.addr < int(blocks.addr[index]) + max(int(blocks.size[index]), 1)
        if inside and born_t[number] <= tensor.t_ns and found[number][0] != "parameter":
            found[number] = (tensor.kind, tensor.name)
    return found


def _bytes_by_module(evidence: Evidence) -> dict[str, set[int]]:
    """The sizes of the model's own tensors, by the module that uses them. A tied head has none of its own."""
    found: dict[str, set[int]] = {}
    for tensor in evidence.tensors:
        found.setdefault(tensor.name.rpartition(".")[0], set()).add(tensor.bytes)
    everything = {tensor.bytes for tensor in evidence.tensors}
    for module in evidence.blocks.modules:
        if HEAD.search(module) and module not in found:
            found[module] = everything
    return found


def whole_free_segments(evidence: Evidence, position: int, taken: list[Named]) -> int:
    """Bytes of segments in which no block lies, after the first `position` events."""
    spans: dict[int, int] = {}
    wanted = np.flatnonzero(np.isin(evidence.actions[:position], (*TAKES, *GIVES)))
    addresses = evidence.events["addr"].fill_null(0).to_numpy()
    sizes = evidence.events["size"].to_numpy()
    for index in wanted.tolist():
        addr, size = int(addresses[index]), int(sizes[index])
        if evidence.actions[index] in TAKES:
            spans[addr] = size
        else:
            _cut(spans, addr, size)
    starts = np.asarray(sorted(spans), dtype=np.uint64)
    used = {int(at) for at in np.searchsorted(starts, [np.uint64(b.addr) for b in taken], side="right") - 1}
    return sum(spans[int(start)] for position_, start in enumerate(starts.tolist()) if position_ not in used)


def _cut(spans: dict[int, int], addr: int, size: int) -> None:
    """Take [addr, addr + size) out of the spans. A segment that grows is mapped and unmapped in pieces."""
    if spans.get(addr) == size:
        del spans[addr]
        return
    end = addr + size
    for start, length in list(spans.items()):
        stop = start + length
        if stop <= addr or start >= end:
            continue
        del spans[start]
        if start < addr:
            spans[start] = addr - start
        if stop > end:
            spans[end] = stop - end
