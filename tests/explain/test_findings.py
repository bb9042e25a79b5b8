"""Each finding: when it is said, and when it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from core.explain.breakdown import breakdown
from core.explain.evidence import read_evidence
from core.explain.findings import Case, find
from core.explain.findings.rules import RULES
from core.runs.gallery import gallery_run, recordings

GIB = 2**30
RUN_IDS = [run_id for recording in recordings() for run_id in recording.run_ids]


@cache
def recorded(run_id: str) -> Case:
    folder = gallery_run(run_id)
    assert folder
    evidence = read_evidence(folder)
    return Case(evidence, breakdown(evidence))


def changed(case: Case, terms: dict[str, int] | None = None, **spec: Any) -> Case:
    """The recorded case with other figures."""
    trace = replace(case.evidence.trace, spec={**case.evidence.trace.spec, **spec})
    both = {**case.terms, **(terms or {})}
    return Case(replace(case.evidence, trace=trace), replace(case.breakdown, terms=both, total=sum(both.values())))


def keys(case: Case) -> set[str]:
    return {finding.key for finding in find(case)}


PLAIN, DDP = "ddppuzzle-1", "ddppuzzle-2"
HOLES, GROWN = "fragmentation-1", "fragmentation-2"

SAID: tuple[tuple[str, Callable[[], Case], Callable[[], Case]], ...] = (
    ("deepspeed_workspace", lambda: recorded(PLAIN), lambda: changed(recorded(PLAIN), new_tokens=350)),
    ("cached_at_sizing", lambda: recorded(DDP), lambda: recorded(PLAIN)),
    ("fragmentation", lambda: recorded(HOLES), lambda: recorded(GROWN)),
    ("autocast_copies", lambda: recorded("autocast-2"), lambda: recorded("autocast-1")),
    ("all_logits", lambda: recorded(PLAIN), lambda: recorded("autocast-2")),
    ("growing_cache", lambda: recorded(HOLES), lambda: changed(recorded(HOLES), cache_implementation="static")),
    ("ddp_buckets", lambda: wrapping(DDP), lambda: recorded(DDP)),
    (
        "fp32_weights",
        lambda: with_config(changed(recorded(HOLES), dtype="fp32"), torch_dtype="float16"),
        lambda: with_config(changed(recorded(HOLES), dtype="fp32"), torch_dtype="float32"),
    ),
    (
        "kept_activations",
        lambda: changed(recorded(HOLES), {"activations": 20 * GIB}, grad_mode="grad", job="loop"),
        lambda: changed(recorded(HOLES), {"activations": 20 * GIB}, grad_mode="no_grad", job="loop"),
    ),
    ("outside_pytorch", lambda: changed(recorded(GROWN), {"libraries": 3 * GIB}), lambda: recorded(HOLES)),
    ("other_process", lambda: changed(recorded(HOLES), {"other_processes": GIB}), lambda: recorded(HOLES)),
    ("short_peak", lambda: recorded(DDP), lambda: changed(recorded(DDP), record_interval_ms=0.0001)),
)


def wrapping(run_id: str) -> Case:
    """The recorded case at the end of its wrap phase."""
    evidence = recorded(run_id).evidence
    (wrap,) = (phase for phase in evidence.trace.phases if phase.name == "wrap")
    buckets = [index for index, t in enumerate(evidence.t_ns.tolist()) if wrap.t_start <= t <= (wrap.t_end or 0)]
    fullest = max(buckets, key=lambda index: evidence.trace.series["allocated"].values[index])
    return Case(evidence, breakdown(evidence, int(evidence.t_ns[fullest])))


def with_config(case: Case, **config: Any) -> Case:
    return Case(replace(case.evidence, config={**case.evidence.config, **config}), case.breakdown)


def test_every_rule_has_a_positive_and_a_negative() -> None:
    assert len(SAID) == len(RULES)


@pytest.mark.parametrize(("key", "positive", "negative"), SAID, ids=[row[0] for row in SAID])
def test_a_finding_is_said_when_it_holds_and_only_then(
    key: str, positive: Callable[[], Case], negative: Callable[[], Case]
) -> None:
    assert key in keys(positive())
    assert key not in keys(negative())


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_findings_have_numbers_and_come_by_size(run_id: str) -> None:
    findings = find(recorded(run_id))
    assert [f.size for f in findings] == sorted((f.size for f in findings), reverse=True)
    for finding in findings:
        assert any(character.isdigit() for character in finding.sentence)
        assert finding.size > 0
        assert set(finding.change) <= set(recorded(run_id).spec), "a change names fields of the spec"


def test_the_puzzle_is_explained_and_cured() -> None:
    first = find(recorded(PLAIN))[0]
    assert first.key == "deepspeed_workspace"
    assert first.change == {"max_out_tokens": 72}
    assert "32.8 GiB" in first.sentence
    assert "350 tokens" in first.sentence
    assert "6.1 GiB" in first.advice
    (cached,) = (f for f in find(recorded(DDP)) if f.key == "cached_at_sizing")
    assert "2.2 GiB" in cached.sentence
    assert find(recorded(HOLES))[0].key == "fragmentation"
