"""The blocks that are there at an instant, each with its name; and what PyTorch keeps beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.explain.evidence import NEVER, Evidence
from core.explain.naming import JOB, RULES, UNKNOWN, Block, Rule, name_block

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
    rules, tensors = rules_of(evidence, alive)
    return [
        Named(
            (*RULES, UNKNOWN)[rule],
            int(blocks.size[index]),
            int(blocks.addr[index]),
            tensor,
            blocks.modules[blocks.module[index]] if blocks.module[index] >= 0 else None,
            blocks.origins[blocks.origin[index]] if blocks.origin[index] >= 0 else None,
        )
        for index, rule, tensor in zip(alive.tolist(), rules.tolist(), tensors, strict=True)
    ]


def rules_of(evidence: Evidence, chosen: NDArray[np.intp]) -> tuple[NDArray[np.int64], list[str | None]]:
    """For each block in `chosen` the position of its rule in (*RULES, UNKNOWN), and the model's tensor in it.

    Blocks repeat each other, layer after layer and step after step, so a rule is looked for once for each kind.
    """
    if not len(chosen):
        return np.empty(0, dtype=np.int64), []
    blocks, trace, t_ns = evidence.blocks, evidence.trace, evidence.t_ns
    born_t, died = t_ns[blocks.born[chosen]], blocks.died[chosen]
    end = max((p.t_end or 0 for p in trace.phases if p.name in JOB), default=0)
    kept = (died == NEVER) | (t_ns[np.minimum(died, len(t_ns) - 1)] >= end)
    tensors = _tensors_in(evidence, chosen, born_t)
    kinds = np.asarray([("parameter", "buffer").index(kind) if kind else 2 for kind, _ in tensors])
    sizes, module = blocks.size[chosen], blocks.module[chosen]
    starts = np.asarray([phase.t_start for phase in trace.phases], dtype=np.int64)
    phase = np.searchsorted(starts, born_t, side="right") - 1
    names = [one.name for one in trace.phases]
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    phase_code = np.asarray([known[name] for name in names] + [-1], dtype=np.int64)[phase]
    columns = (phase_code, module, blocks.origin[chosen], _outlives(evidence, chosen), kept, kinds, sizes)
    table = np.stack([np.asarray(column, dtype=np.int64) for column in columns], axis=1)
    unique, inverse = np.unique(table, axis=0, return_inverse=True)
    rules = np.asarray([_rule_of(evidence, row, list(known)) for row in unique.tolist()], dtype=np.int64)
    return rules[inverse.reshape(-1)], [name for _, name in tensors]


def _rule_of(evidence: Evidence, row: list[int], phases: list[str]) -> int:
    phase, module, origin, outlives, kept, kind, size = row
    blocks, spec = evidence.blocks, evidence.trace.spec
    name = blocks.modules[module] if module >= 0 else None
    block = Block(
        size=size,
        phase=phases[phase] if phase >= 0 else "",
        module=name,
        origin=blocks.origins[origin] if origin >= 0 else None,
        outlives=bool(outlives),
        kept=bool(kept),
        tensor=("parameter", "buffer", None)[kind],
        halved=2 * size in evidence.bytes_by_module.get(name or "", ()),
        autocast=spec.get("autocast", "none") != "none" and spec.get("dtype") == "fp32",
        grad=spec.get("grad_mode") == "grad" and spec.get("job") != "generate",
        vocabulary=evidence.vocabulary,
        marks=evidence.has_marks,
        stacks=evidence.has_stacks,
    )
    rule = name_block(block)
    return RULES.index(rule) if rule in RULES else len(RULES)


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
    evidence: Evidence, chosen: NDArray[np.intp], born_t: NDArray[np.int64]
) -> list[tuple[str | None, str | None]]:
    """Kind and name of the model's tensor in each block; a parameter comes before a buffer.

    A tensor lies in the last block that was made at or before its address, and before it was seen there.
    """
    found: list[tuple[str | None, str | None]] = [(None, None)] * len(chosen)
    blocks = evidence.blocks
    addr, size = blocks.addr[chosen], blocks.size[chosen]
    # addresses come again, so blocks are ordered by address, and those of one address by age
    order = np.lexsort((blocks.born[chosen], addr))
    starts = addr[order]
    for tensor in evidence.tensors:
        at = int(np.searchsorted(starts, np.uint64(tensor.addr), side="right")) - 1
        while at >= 0 and born_t[order[at]] > tensor.t_ns and starts[at] == starts[at - 1]:
            at -= 1
        if at < 0:
            continue
        number = int(order[at])
        inside = int(addr[number]) <= tensor.addr < int(addr[number]) + max(int(size[number]), 1)
        if inside and born_t[number] <= tensor.t_ns and found[number][0] != "parameter":
            found[number] = (tensor.kind, tensor.name)
    return found


def whole_free_segments(evidence: Evidence, position: int, taken: list[Named]) -> int:
    """Bytes of segments in which no block lies, after the first `position` events."""
    spans = segments_at(evidence, position)
    starts = np.asarray([start for start, _ in spans], dtype=np.uint64)
    used = set((np.searchsorted(starts, [np.uint64(b.addr) for b in taken], side="right") - 1).tolist())
    return sum(length for number, (_, length) in enumerate(spans) if number not in used)


def segments_at(evidence: Evidence, position: int) -> list[tuple[int, int]]:
    """Start and length of each segment after the first `position` events, by address.

    A segment that grows is mapped piece by piece; what lies together is one.
    """
    spans: dict[int, int] = {}
    kinds = [(name, evidence.rows(name)) for name in (*TAKES, *GIVES)]
    changes = sorted((index, name) for name, found in kinds for index in found[found < position].tolist())
    addresses = evidence.events["addr"].fill_null(0).to_numpy()
    sizes = evidence.events["size"].to_numpy()
    grows = False
    for index, action in changes:
        addr, size = int(addresses[index]), int(sizes[index])
        grows = grows or action == "segment_map"
        if action in TAKES:
            spans[addr] = size
        else:
            cut(spans, addr, size)
    found = sorted(spans.items())
    return _joined(found) if grows else found


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, length in spans:
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((start, length))
    return joined


def cut(spans: dict[int, int], addr: int, size: int) -> None:
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
