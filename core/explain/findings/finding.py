"""A finding, and the case that rules look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.explain.breakdown import Breakdown
from core.explain.evidence import Evidence

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class Finding:
    """One sentence with its evidence. `size`: the bytes it is about, by which findings are sorted.

    t_ns: the instant it speaks of. change: spec fields that would help, empty where there is none.
    """

    key: str
    sentence: str
    size: int
    t_ns: int
    change: dict[str, Any] = field(default_factory=dict)
    advice: str = ""


@dataclass(frozen=True)
class Case:
    """A run at the instant of its breakdown."""

    evidence: Evidence
    breakdown: Breakdown

    @property
    def spec(self) -> dict[str, Any]:
        return dict(self.evidence.trace.spec)

    @property
    def terms(self) -> dict[str, int]:
        return self.breakdown.terms

    @property
    def cached(self) -> int:
        return self.terms.get("cached_segments", 0) + self.terms.get("cached_holes", 0)

    @property
    def reserved(self) -> int:
        pool = ("weights", "buffers", "kv_cache", "logits", "activations", "autocast_copies", "ddp_buckets")
        rest = ("library_workspaces", "inputs", "load", "unattributed", "rounding")
        return sum(self.terms.get(key, 0) for key in (*pool, *rest)) + self.cached

    def finding(
        self, key: str, sentence: str, size: int, change: dict[str, Any] | None = None, advice: str = "", t_ns: int = 0
    ) -> Finding:
        return Finding(key, sentence, size, t_ns or self.breakdown.t_ns, change or {}, advice)


def said(size: float) -> str:
    """`642.0 MiB`, or from 1 GiB on `32.8 GiB`."""
    return f"{size / GIB:,.1f} GiB" if abs(size) >= GIB else f"{size / MIB:,.1f} MiB"
