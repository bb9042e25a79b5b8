"""The rules, in the order in which findings of equal size are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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


ABOUT = {
    "deepspeed_workspace": ("deepspeed_workspace",),
    "cached_at_sizing": ("deepspeed_workspace",),
    "fragmentation": ("cached_segments", "cached_holes"),
    "autocast_copies": ("autocast_copies",),
    "all_logits": ("logits",),
    "growing_cache": ("kv_cache",),
    "ddp_buckets": ("ddp_buckets",),
    "fp32_weights": ("weights",),
    "kept_activations": ("activations",),
    "outside_pytorch": ("cuda_context", "libraries", "nccl", "non_torch"),
    "other_process": ("other_processes",),
}
"""The terms of a breakdown that a finding explains."""


def ranked(cases: Sequence[Case], terms: Mapping[str, int] | None = None) -> list[tuple[Case, Finding]]:
    """The findings of all cases, the largest first; first of all those that explain `terms`, the difference of two."""
    terms = terms or {}

    def rank(pair: tuple[Case, Finding]) -> tuple[int, int]:
        explains = sum(abs(terms.get(name, 0)) for name in ABOUT.get(pair[1].key, ()))
        return -explains, -pair[1].size

    return sorted(((case, finding) for case in cases for finding in find(case)), key=rank)


def find(case: Case) -> list[Finding]:
    """Every finding about one run, the largest first."""
    found = [finding for rule in RULES if (finding := rule(case)) is not None]
    return sorted(found, key=lambda finding: -finding.size)
