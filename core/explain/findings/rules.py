"""The rules, in the order in which findings of equal size are shown."""

from __future__ import annotations

from collections.abc import Callable

from core.explain.findings import card, pool
from core.explain.findings.finding import Case, Finding

RULES: tuple[Callable[[Case], Finding | None], ...] = (
    card.greedy_workspace,
    card.cached_at_sizing,
    pool.fragmentation,
    pool.autocast_copies,
    pool.all_logits,
    pool.growing_cache,
    pool.ddp_buckets,
    pool.fp32_weights,
    pool.kept_activations,
    card.outside_pytorch,
    card.other_process,
    card.missed_by_a_sampler,
)


def find(case: Case) -> list[Finding]:
    """Every finding about one run, the largest first."""
    found = [finding for rule in RULES if (finding := rule(case)) is not None]
    return sorted(found, key=lambda finding: -finding.size)
