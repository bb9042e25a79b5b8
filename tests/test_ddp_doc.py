"""docs/ddp-on-one-gpu.md says nothing that the recorded runs do not: each figure in it is worked out again here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from core.explain.breakdown import breakdown
from core.explain.evidence import Evidence, read_evidence
from core.explain.findings import Case, find
from core.runs.gallery import gallery_run
from core.spec.architecture import Architecture
from core.spec.deepspeed_workspace import sizing

MIB, GIB = 2**20, 2**30
TEXT = (Path(__file__).resolve().parents[1] / "docs" / "ddp-on-one-gpu.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)? (?:MiB|GiB|tokens)\b")
QUOTED = {"48,319 MiB", "38,260 MiB", "642.00 MiB"}
"""The forum's own, for which there is no run here."""


def evidence_of(number: int) -> Evidence:
    folder = gallery_run(f"ddppuzzle-{number}")
    assert folder
    return read_evidence(folder)


@pytest.fixture(scope="module")
def runs() -> list[Evidence]:
    return [evidence_of(number) for number in range(1, 6)]


def row(evidence: Evidence) -> list[str]:
    """What the table says of a run after its name."""
    trace = evidence.trace
    facts = trace.result["deepspeed"]
    error: dict[str, Any] = dict(trace.error or {})
    ends = {
        "finished": "fits",
        "oom": f"out of memory, {int(error.get('requested_bytes') or 0) / MIB:.2f} MiB",
        "failed": "failed: `CUBLAS_STATUS_ALLOC_FAILED`",
    }[trace.state]
    assert trace.state != "failed" or "CUBLAS_STATUS_ALLOC_FAILED" in error["message"]
    return [
        ends,
        f"{facts['workspace']['taken_bytes'] / GIB:.2f} GiB",
        f"{facts['banner']['max_tokens']} tokens",
        f"{(trace.peaks['reserved'].bytes or 0) / MIB:,.0f} MiB",
        f"{(trace.peaks['device_used'].bytes or 0) / MIB:,.0f} MiB",
    ]


def test_the_table_is_what_was_recorded(runs: list[Evidence]) -> None:
    said = [line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("| ")][2:]
    assert [[cell.strip() for cell in cells[1:]] for cells in said] == [row(evidence) for evidence in runs]


def test_every_figure_is_one_of_the_runs(runs: list[Evidence]) -> None:
    plain, ddp = runs[0], runs[1]
    spec = plain.trace.spec
    logits = int(spec["batch_size"]) * int(spec["prompt_tokens"]) * (plain.vocabulary or 0) * 4
    (cached,) = (one for one in find(Case(ddp, breakdown(ddp))) if one.key == "cached_at_sizing")
    needed = int(spec["prompt_tokens"]) + int(spec["new_tokens"])
    known = {cell for evidence in runs for cell in row(evidence)} | QUOTED | {
        f"{spec['prompt_tokens']} tokens",
        f"{needed} tokens",
        f"{spec['capacity_mib']:,} MiB",
        f"{runs[3].trace.spec['prefill_cache_mib']:,} MiB",
        f"{logits / MIB:.2f} MiB",
        f"{cached.size / GIB:.2f} GiB",
        f"{cured(plain, needed) / GIB:.2f} GiB",
    }  # fmt: skip
    assert set(FIGURE.findall(TEXT)) <= known
    assert f"max_out_tokens={needed}" in TEXT
    assert f"{spec['new_tokens']} new tokens for {spec['batch_size']} prompts" in TEXT


def cured(evidence: Evidence, tokens: int) -> int:
    """Bytes of the workspace for `tokens`, with the memory that was free."""
    architecture = Architecture.from_config(evidence.config)
    assert architecture
    return (
        sizing(
            batch_size=int(evidence.trace.spec["batch_size"]),
            hidden_size=architecture.hidden,
            heads=architecture.heads,
            layers=architecture.layers,
            dtype=str(evidence.trace.spec["dtype"]),
            max_out_tokens=tokens,
            external_cache=False,
        )
        .at(int(evidence.trace.result["deepspeed"]["workspace"]["free_bytes"]))
        .size
    )


def test_the_versions_and_the_card_are_those_of_the_runs(runs: list[Evidence]) -> None:
    for evidence in runs:
        versions, device = evidence.trace.result["versions"], evidence.trace.device
        assert f"transformers {versions['transformers']}, DeepSpeed {versions['deepspeed']}" in TEXT.replace("\n", " ")
        assert f"torch {'.'.join(versions['torch'].split('.')[:2])}" in TEXT
        assert str(device.get("name")) in TEXT
