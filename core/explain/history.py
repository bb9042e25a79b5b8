"""The categories of the pool over the whole run: what a stacked area draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.explain.blocks import rules_of
from core.explain.categories import BY_KEY
from core.explain.evidence import NEVER, Evidence
from core.explain.naming import RULES, UNKNOWN
from core.explain.outside import value_at
from core.trace.downsample import keep


@dataclass(frozen=True)
class PoolHistory:
    """`t_ns`: times; `layers`: bytes at each of them by category, in the order of CATEGORIES, the last is `cached`."""

    t_ns: NDArray[np.int64]
    layers: dict[str, NDArray[np.int64]]


def pool_history(evidence: Evidence, most: int = 1500) -> PoolHistory | None:
    """At most about `most` instants, with the peaks of the sum among them; None without the allocator's history."""
    if not evidence.has_events:
        return None
    blocks, count = evidence.blocks, evidence.events.num_rows
    rules, _ = rules_of(evidence, np.arange(len(blocks.born)))
    categories = [rule.category for rule in (*RULES, UNKNOWN)]
    freed = blocks.died != NEVER
    sums: dict[str, NDArray[np.int64]] = {}
    for category in dict.fromkeys(categories):
        inside = np.isin(rules, [number for number, name in enumerate(categories) if name == category])
        if not inside.any():
            continue
        change = np.zeros(count, dtype=np.int64)
        np.add.at(change, blocks.born[inside], blocks.size[inside])
        np.add.at(change, blocks.died[inside & freed], -blocks.size[inside & freed])
        sums[category] = np.cumsum(change)
    total = np.sum(list(sums.values()), axis=0) if sums else np.zeros(count, dtype=np.int64)
    chosen = keep(total.astype(np.float64), most)
    t_ns = evidence.t_ns[chosen]
    reserved = evidence.trace.series.get("reserved")
    held = np.asarray([value_at(reserved, int(t)) or 0 for t in t_ns], dtype=np.int64)
    layers = {key: sums[key][chosen] for key in BY_KEY if key in sums}
    layers["cached_segments"] = np.maximum(held - total[chosen], 0)
    return PoolHistory(t_ns, layers)
