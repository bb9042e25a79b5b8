"""A breakdown: named categories at one instant, which sum to what the card has in use."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from core.explain.blocks import Named, named_blocks, whole_free_segments
from core.explain.categories import BY_KEY
from core.explain.evidence import Evidence
from core.explain.instant import failed_at, instant_of, position_of
from core.explain.naming import Block, name_block
from core.explain.outside import outside_pool, value_at
from core.trace.trace import Source, Trace

LARGEST = 5


@dataclass(frozen=True)
class Request:
    """An allocation that failed: bytes, and what it would have been."""

    size: int
    category: str
    where: str


@dataclass(frozen=True)
class Breakdown:
    """`terms`: bytes by category, in the order of CATEGORIES, never 0; they sum to `total` always.

    `measure`: what the total is (device used, reserved, host RSS). `sources`: how each term is known. `largest`: the
    largest blocks of a category, label and bytes. `notes`: what could not be told, and why.
    """

    run_id: str
    t_ns: int
    phase: str
    step: float
    measure: str
    total: int
    terms: dict[str, int]
    sources: dict[str, Source]
    largest: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    request: Request | None = None
    notes: tuple[str, ...] = ()


def breakdown(evidence: Evidence, t_ns: int | None = None) -> Breakdown:
    """The breakdown at `t_ns` (monotonic nanoseconds), by default at `instant_of`."""
    trace = evidence.trace
    t_ns = instant_of(evidence) if t_ns is None else t_ns
    if trace.spec.get("device") == "cpu":
        return _of_host(trace, t_ns)
    notes: list[str] = []
    reserved, allocated = (value_at(trace.series.get(name), t_ns) for name in ("reserved", "allocated"))
    terms: dict[str, int] = defaultdict(int)
    sources: dict[str, Source] = {}
    exact: Source = "simulated" if trace.simulated else "exact"
    blocks = named_blocks(evidence, position_of(evidence, t_ns)) if evidence.has_events else []
    for block in blocks:
        terms[block.rule.category] += block.size
    sources |= dict.fromkeys(terms, exact)
    if reserved is not None and allocated is not None:
        _around_blocks(evidence, t_ns, blocks, int(allocated), int(reserved), terms)
        sources |= {"rounding": exact, "cached_segments": exact, "cached_holes": exact}
    if not evidence.has_events:
        notes.append("the allocator's history was not recorded: what the tensors are is not known")
    elif not evidence.has_marks:
        notes.append("module marks were not recorded: blocks of a forward pass are named by their stack alone, or not")
    outside, measure = outside_pool(trace, t_ns), "device used"
    if outside is None:
        measure = "reserved"
        notes.append("the card was not sampled: what lies outside PyTorch's pool is not known")
    else:
        terms |= {key: terms.get(key, 0) + size for key, size in outside.terms.items()}
        notes += outside.notes
        sources |= dict.fromkeys(outside.terms, "simulated" if trace.simulated else "sampled")
    ordered = {key: terms[key] for key in BY_KEY if terms.get(key)}
    return Breakdown(
        trace.run_id,
        t_ns,
        trace.phases_at(np.asarray([t_ns]))[0],
        float(trace.steps(np.asarray([t_ns]))[0]),
        measure,
        sum(ordered.values()),
        ordered,
        {key: sources.get(key, "derived") for key in ordered},
        _largest(blocks),
        _request(evidence, t_ns),
        tuple(notes),
    )


def _around_blocks(
    evidence: Evidence, t_ns: int, blocks: list[Named], allocated: int, reserved: int, terms: dict[str, int]
) -> None:
    """What the counters have beyond the blocks: rounding, and free memory in whole segments and in holes."""
    if not evidence.has_events:
        terms["unattributed"] += allocated
    else:
        terms["rounding"] += allocated - sum(block.size for block in blocks)
    whole = whole_free_segments(evidence, position_of(evidence, t_ns), blocks) if evidence.has_events else 0
    whole = min(whole, reserved - allocated)
    terms["cached_segments"] += whole
    terms["cached_holes"] += reserved - allocated - whole


def _largest(blocks: list[Named]) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for block in sorted(blocks, key=lambda one: -one.size):
        if len(found[block.rule.category]) < LARGEST:
            found[block.rule.category].append((block.label, block.size))
    return dict(found)


def _request(evidence: Evidence, t_ns: int) -> Request | None:
    """The failing allocation when the breakdown is of its instant."""
    failed = failed_at(evidence)
    if failed is None or int(evidence.t_ns[failed]) != t_ns:
        return None
    row = evidence.events.slice(failed, 1).to_pylist()[0]
    phase = evidence.trace.phases_at(np.asarray([t_ns]))[0].partition(" ")[0]
    block = Block(
        size=int(row["size"]),
        phase=phase,
        module=row["module"],
        origin=row["origin"],
        vocabulary=evidence.vocabulary,
        marks=evidence.has_marks,
        stacks=evidence.has_stacks,
    )
    error = evidence.trace.error or {}
    size = error.get("requested_bytes") or int(row["size"])
    return Request(int(size), name_block(block).category, row["origin"] or row["module"] or "")


def _of_host(trace: Trace, t_ns: int) -> Breakdown:
    held = value_at(trace.series.get("host_rss"), t_ns)
    total = int(held or 0)
    return Breakdown(
        trace.run_id,
        t_ns,
        trace.phases_at(np.asarray([t_ns]))[0],
        float(trace.steps(np.asarray([t_ns]))[0]),
        "host RSS",
        total,
        {"process_memory": total} if total else {},
        {"process_memory": "sampled"},
        notes=("a run on the CPU has no allocator of PyTorch's to ask: its memory is one figure",),
    )
