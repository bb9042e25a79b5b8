"""Breakdowns, difference and findings as one JSON object: what `explain`, `compare --json` and exports say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.explain.breakdown import Breakdown
from core.explain.difference import Difference, difference
from core.explain.evidence import Evidence
from core.explain.findings import Case, ranked


def explained(evidence: Sequence[Evidence], found: Sequence[Breakdown]) -> dict[str, Any]:
    """All sizes in bytes. `difference` is that of two runs, the first minus the second, else None."""
    pair = difference(found[0], found[1]) if len(found) == 2 else None
    cases = [Case(one, part) for one, part in zip(evidence, found, strict=True)]
    return {
        "breakdowns": {one.run_id: _breakdown(e, one) for e, one in zip(evidence, found, strict=True)},
        "difference": _difference(pair) if pair else None,
        "findings": [
            {
                "id": finding.key,
                "run": case.breakdown.run_id,
                "text": finding.sentence,
                "advice": finding.advice,
                "bytes": finding.size,
                "seconds": _seconds(case.evidence, finding.t_ns),
                "change": finding.change or None,
            }
            for case, finding in ranked(cases, pair.terms if pair else None)
        ],
    }


def _breakdown(evidence: Evidence, one: Breakdown) -> dict[str, Any]:
    request = one.request
    return {
        "instant": {"seconds": _seconds(evidence, one.t_ns), "step": round(one.step, 4), "phase": one.phase},
        "measure": one.measure,
        "categories": one.terms,
        "sources": one.sources,
        "total": one.total,
        "request": {"bytes": request.size, "category": request.category, "where": request.where} if request else None,
        "notes": list(one.notes),
    }


def _difference(pair: Difference) -> dict[str, Any]:
    return {
        "a": pair.a.run_id,
        "b": pair.b.run_id,
        "terms": [{"name": key, "bytes": size} for key, size in pair.terms.items()],
        "total": pair.total,
        "notes": list(pair.notes),
    }


def _seconds(evidence: Evidence, t_ns: int) -> float:
    return round((t_ns - evidence.trace.t0_ns) / 1e9, 6)
