"""The figures of the cases, recomputed from their context: sizes of tensors, weights, caches, workspaces and rests."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest

from core.oom import diagnose, facts_from
from core.oom.account import context_bytes, cublas_workspace_bytes, repeated_bytes
from core.oom.activations import job_tensors
from core.oom.deepspeed import workspace_of
from core.oom.dims import dims_of
from core.oom.figures import NO_VALUE
from core.oom.rounding import rounded
from core.spec.deepspeed_workspace import least_left

KIB, MIB, GIB, GB = 2**10, 2**20, 2**30, 10**9
CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "cases.json").read_text(encoding="utf-8"))


class Sums:
    """One case's figures by the names that the cases give them."""

    def __init__(self, message: str | None, context: dict[str, Any]) -> None:
        self.facts = facts_from(context)
        self.dims = dims_of(self.facts.model, self.facts.config)
        self.context = context
        found = diagnose(message or "", self.facts).explanations
        self.first = found[0] if found else None

    def tensor(self, kind: str, dtype: str, **facts: Any) -> int:
        here = facts_from({**self.context, **facts})
        return next(
            t.bytes for t in job_tensors(self.dims, here) if t.kind == kind and (t.dtype == "fp32") == (dtype == "fp32")
        )

    def best(self, kind: str) -> int:
        """The tensor that the message was matched to; the computed one where there is no message."""
        return self.first.tensors[0].bytes if self.first else self.tensor(kind, "fp32")

    def weights(self, element: int) -> int:
        return self.dims.weights_bytes(element) or 0

    def kv(self, element: int = 2, tokens: int = 0, rows: int = 0) -> int:
        whole = (self.facts.prompt_tokens or 0) + max(0, (self.facts.new_tokens or 0) - 1)
        return self.dims.kv_bytes(rows or self.facts.batch_size or 1, tokens or whole, element) or 0

    def held(self, name: str) -> int:
        assert self.first
        value = getattr(self.first.holders, name)
        assert value is not None, name
        return int(value)

    def asked(self) -> int:
        assert self.first
        return self.first.error.requested_bytes or 0

    def free(self) -> int:
        assert self.first
        return self.first.error.free_bytes or 0

    def listed(self) -> bool:
        return self.first is not None and self.first.holders.other_processes is not None

    def layer(self) -> int:
        """Weights of one layer, 16 bit."""
        return sum(2 * prod(shape) for name, shape in (self.dims.shapes or {}).items() if "*" in name)

    def layer_reached(self) -> int:
        """Which layer was being made, cache and weights together, when the allocation failed."""
        embedding = 2 * (self.dims.vocab or 0) * (self.dims.hidden or 0)
        each = self.layer() + self.kv(2, self.context["max_seq_len"]) // (self.dims.layers or 1)
        return (self.held("tensors") - embedding) // each + 1

    def grown(self, first: str, last: str) -> float:
        seen = self.context["observed_gb"]
        return float(seen[last] - seen[first]) / (int(last) - int(first))

    def workspace(self, **facts: Any) -> Any:
        return workspace_of(self.dims, facts_from({**self.context, **facts}), facts.pop("element_bytes", None))


FREE = round(34.5 * GIB)

FIGURES: dict[str, Callable[[Sums], float]] = {
    "logits_fp32_mib": lambda s: s.tensor("logits_all", "fp32") / MIB,
    "logits_fp32_gib": lambda s: s.best("logits_all") / GIB,
    "logits_bf16_mib": lambda s: s.tensor("logits_all", "bf16") / MIB,
    "request_rounded_mib": lambda s: rounded(s.tensor("logits_all", "fp32")) / MIB,
    "weights_gib": lambda s: s.weights(2) / GIB,
    "weights_fp32_gib": lambda s: s.weights(4) / GIB,
    "weights_fp16_gib": lambda s: s.weights(2) / GIB,
    "weights_fp16_gb": lambda s: s.weights(2) / GB,
    "shard_gib": lambda s: s.weights(2) / s.context["tensor_parallel"] / GIB,
    "workspace_mib_per_token": lambda s: s.workspace().bytes_per_token / MIB,
    "workspace_full_gib": lambda s: s.workspace().full_bytes / GIB,
    "workspace_minimum_mib": lambda s: s.workspace().left_free(FREE) / MIB,
    "workspace_tokens_if_free_34p5_gib": lambda s: s.workspace().at(FREE).tokens,
    "workspace_gib_if_free_34p5_gib": lambda s: s.workspace().at(FREE).size / GIB,
    "left_for_pytorch_mib_if_free_34p5_gib": lambda s: (FREE - s.workspace().at(FREE).size) / MIB,
    "left_for_pytorch_mib_max": lambda s: (s.workspace().left_free(FREE) + s.workspace().bytes_per_token) / MIB,
    "workspace_gib_max_out_tokens_72": lambda s: s.workspace(max_out_tokens=72).full_bytes / GIB,
    "workspace_gib_max_out_tokens_128": lambda s: s.workspace(max_out_tokens=128).full_bytes / GIB,
    "floor_mib": lambda s: least_left(0, s.free()) / MIB,
    "temp_bytes": lambda s: s.asked() - least_left(0, s.free()),
    "free_mib": lambda s: s.free() / MIB,
    "total_gib": lambda s: s.held("total") / GIB,
    "missing_mib": lambda s: (s.asked() - s.free()) / MIB,
    "bytes_per_token": lambda s: s.workspace().bytes_per_token,
    "workspace_gib": lambda s: s.workspace().full_bytes / GIB,
    "tokens": lambda s: s.first.error.numbers["tokens"] if s.first else 0,
    "workspace_gib_with_deepspeed_0_9_formula": lambda s: (
        workspace_of(s.dims, facts_from({**s.context, "versions": {"deepspeed": "0.9.0"}}), 2).full_bytes / GIB  # type: ignore[union-attr]
    ),
    "non_torch_gib": lambda s: s.held("unaccounted") / GIB,
    "reserved_unallocated_gib": lambda s: s.held("cache") / GIB,
    "logits_last_fp16_mib": lambda s: s.tensor("logits_last", "fp16", batch_size=128) / MIB,
    "logits_all_gib": lambda s: s.tensor("logits_all", "bf16") / GIB,
    "logits_last_mib": lambda s: s.tensor("logits_last", "bf16") / MIB,
    "logits_512_mib": lambda s: s.tensor("logits_all", "bf16", prompt_tokens=512) / MIB,
    "logits_2048_gib": lambda s: s.tensor("logits_all", "bf16", prompt_tokens=2048) / GIB,
    "rows": lambda s: s.first.tensors[0].shape[1] if s.first else 0,
    "rows_above_prompt": lambda s: s.first.tensors[0].shape[1] - s.context["prompt_tokens"] if s.first else 0,
    "difference_gib": lambda s: s.context["observed_gib"] - s.context["observed_gib_with_avoid_record_streams"],
    "ddp_increase_mib": lambda s: s.context["reserved_after_mib"] - s.context["reserved_before_mib"],
    "tensor_mib": lambda s: TENSOR / MIB,
    "tensor_reserved_mib": lambda s: rounded(TENSOR) / MIB,
    "context_mib_2080ti": lambda s: context_bytes(1035 * MIB, TENSOR) / MIB,
    "context_mib_3090": lambda s: context_bytes(1644 * MIB, TENSOR) / MIB,
    "cublas_workspace_mib": lambda s: s.context["allocated_bytes"] / MIB,
    "free_plus_cached_gib": lambda s: (s.held("free") + s.held("cache")) / GIB,
    "allocated_gib": lambda s: s.held("tensors") / GIB,
    "kv_per_layer_mib": lambda s: s.kv(2, s.context["max_seq_len"]) / (s.dims.layers or 1) / MIB,
    "scores_gib": lambda s: s.best("scores") / GIB,
    "scores_fp32_gib": lambda s: s.tensor("scores", "fp32") / GIB,
    "scores_bf16_gib": lambda s: s.tensor("scores", "bf16") / GIB,
    "scores_fp32_mib": lambda s: s.tensor("scores", "fp32") / MIB,
    "scores_gb": lambda s: s.tensor("scores", "fp32") / GB,
    "seq": lambda s: s.context["prompt_tokens"],
    "mask_gib": lambda s: s.tensor("mask", s.context.get("dtype", "fp32")) / GIB,
    "kv_kib_per_token": lambda s: s.kv(2, 1, 1) / KIB,
    "before_gib": lambda s: s.weights(2) / GIB,
    "after_gib": lambda s: (s.weights(2) + s.kv()) / GIB,
    "kv_fp32_mib": lambda s: s.kv(4) / MIB,
    "kv_bf16_mib": lambda s: s.kv(2) / MIB,
    "kv_gb": lambda s: s.kv() / GB,
    "kv_gib": lambda s: s.kv(2, s.context.get("max_seq_len") or 0) / GIB,
    "total_needed_gib": lambda s: (s.weights(2) + s.kv(2, s.context["max_seq_len"])) / GIB,
    "autocast_extra_fraction_of_fp32_weights": lambda s: 2 / 4,
    "autocast_extra_fraction_of_bf16_weights": lambda s: 0,
    "elements_of_8_bytes": lambda s: (repeated_bytes(s.asked(), 10**8) or 0) // 8,
    "bytes_exact": lambda s: repeated_bytes(s.asked(), 10**8) or 0,
    "value_bytes": lambda s: NO_VALUE,
    "cublas_workspace_bytes": lambda s: cublas_workspace_bytes(),
    "others_gib": lambda s: (s.held("other_processes") if s.listed() else s.held("unaccounted")) / GIB,
    "sum_gib": lambda s: (s.held("other_processes") + (s.first.error.process_bytes or 0)) / GIB if s.first else 0,
    "weights_per_layer_mib": lambda s: s.layer() / MIB,
    "layer_reached": lambda s: s.layer_reached(),
    "retained_gb_per_step_first_100": lambda s: s.grown("0", "100"),
    "retained_gb_per_step_second_100": lambda s: s.grown("100", "200"),
}
TENSOR = 64 * 16 * 200 * 200 * 4

MEASURED = {
    "rows_warmed_run",
    "rows_above_prompt_warmed_run",
    "extra_mib_with_cache",
    "extra_mib_without_cache",
}
"""Reported by people, not derived."""

WITHOUT = [case for case in CASES if not case["message"]]


ROWS = [(row, case["expect"]["tolerance"]) for case in CASES for row in (case, *case.get("variants", []))]


@pytest.mark.parametrize(("row", "tolerance"), ROWS, ids=[row["id"] for row, _ in ROWS])
def test_the_numbers_of_a_case(row: dict[str, Any], tolerance: float) -> None:
    sums = Sums(row["message"], row["context"])
    for name, wanted in row["expect"]["numbers"].items():
        if name not in MEASURED:
            assert FIGURES[name](sums) == pytest.approx(wanted, rel=max(tolerance, 1e-6)), name


def test_the_tensors_of_cases_without_a_message() -> None:
    """Each expected tensor is among those computed from the context."""
    for case in WITHOUT:
        wanted = case["expect"]["tensor"]
        if not wanted or case["id"] == "C24":  # its shape is given, not computed
            continue
        facts = facts_from(case["context"])
        found = {tensor.bytes for tensor in job_tensors(dims_of(facts.model, facts.config), facts)}
        assert wanted["bytes"] in found, case["id"]
