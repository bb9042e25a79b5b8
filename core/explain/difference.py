"""Two breakdowns subtracted, term by term. The terms sum to the difference of the totals, always."""

from __future__ import annotations

from dataclasses import dataclass

from core.explain.breakdown import Breakdown
from core.explain.categories import BY_KEY


@dataclass(frozen=True)
class Difference:
    """A minus B. `terms`: bytes by category, the largest change first; `notes`: what makes the two hard to compare."""

    a: Breakdown
    b: Breakdown
    total: int
    terms: dict[str, int]
    notes: tuple[str, ...] = ()


def difference(a: Breakdown, b: Breakdown) -> Difference:
    """What `a` has more than `b` of each category; nothing of those where they have the same."""
    changes = {key: a.terms.get(key, 0) - b.terms.get(key, 0) for key in BY_KEY}
    ordered = sorted(((key, size) for key, size in changes.items() if size), key=lambda pair: -abs(pair[1]))
    notes = []
    if a.measure != b.measure:
        notes.append(f"{a.run_id} is {a.measure}, {b.run_id} is {b.measure}: their totals are not the same thing")
    return Difference(a, b, a.total - b.total, dict(ordered), tuple(notes))
