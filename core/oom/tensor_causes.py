"""Causes that follow from which tensor was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from core.oom.case import Case, Cause
from core.oom.identify import tied
from core.oom.tensor import Tensor
from core.plots.units import GIB, size

LARGEST_CARD = 96 * GIB
"""Weights above this fit none but a few cards, so they are a cause even where the card is not named."""

CPU = "cpu"

BY_SIZE_ALONE = 74
"""The most that a size can carry by itself: another tensor, in another data type, may have the same bytes."""


def tensor_causes(case: Case) -> Iterator[Cause]:
    """Of the best tensor and of those that fit as well, and of what their size means together with the facts."""
    for tensor in tied(case.tensors) if case.tensors else []:
        strength = _strength(tensor)
        if tensor.kind == "weights":
            yield from _weights(case, tensor, strength)
        else:
            yield from _activations(case, tensor, strength)
    yield from _preallocated(case)


def _strength(tensor: Tensor) -> float:
    """From a tensor's score to a cause's weight: computed from what was given 80, solved backwards 45 to 70."""
    return min(82.0, tensor.score - 20) if not tensor.solved else max(10.0, min(72.0, tensor.score - 6))


TAGS = {
    "mask": "attention_mask_dense",
    "kv": "kv_cache",
    "broadcast": "broadcast_buckets_cached",
    "gradients": "ddp_gradient_buckets",
    "activation": "activations",
}


def _activations(case: Case, tensor: Tensor, strength: float) -> Iterator[Cause]:
    facts = case.facts
    told = f"{size(tensor.bytes)} are {tensor.name}: {tensor.counted}.{_more_rows(case, tensor)}"
    if tensor.kind == "logits_all":
        yield Cause("logits_all_positions_fp32" if tensor.dtype == "fp32" else "logits_all_positions", strength, told)
    elif tensor.kind == "scores":
        first, second = "attention_scores_eager", "attention_scores_sdpa_math"
        if facts.attn_implementation == "sdpa":
            first, second = second, first
        yield Cause(first, strength, told)
        yield Cause(second, strength - (20 if facts.attn_implementation == "eager" else 4), told)
    elif tensor.kind in TAGS:
        static = tensor.kind == "kv" and (facts.cache_implementation == "static" or facts.max_seq_len)
        yield Cause("kv_cache_preallocated" if static else TAGS[tensor.kind], strength, told)
    if facts.use_cache is False and tensor.kind in ("logits_all", "scores", "activation", "mask"):
        yield Cause(
            "no_cache_recomputes_activations",
            strength + 2,
            f"{told} Without a cache each step makes it for all tokens.",
        )
    if facts.grad_mode == "grad" and facts.job in ("loop", "forward") and tensor.kind != "kv":
        yield Cause("grad_graph_retained", strength - 4, f"{told} With gradients on, those of each step are kept.")
    if facts.injects and tensor.kind != "weights":
        yield from _squeezed(case, tensor, strength)


def _more_rows(case: Case, tensor: Tensor) -> str:
    """Rows beyond the prompt that was named: a template, special tokens, or more than one sequence."""
    named = (case.facts.prompt_tokens or 0) * (case.facts.batch_size or 1)
    rows = prod(tensor.shape[:-1])
    if tensor.kind != "logits_all" or "prompt" not in tensor.solved or not named or rows <= named:
        return ""
    return f" That is {rows - named:,} rows more than the {named:,} that were named."


def _squeezed(case: Case, tensor: Tensor, strength: float) -> Iterator[Cause]:
    """DeepSpeed's workspace takes what is free at the first forward pass, so that any later tensor fails."""
    capacity, workspace = case.holders.total, case.workspace
    weights = case.dims.weights_bytes(case.facts.element_bytes or 2) or 0
    takes_all = workspace is None or capacity is None or workspace.full_bytes + weights > 0.8 * capacity
    full = f" (it would take {size(workspace.full_bytes)} for {workspace.max_tokens:,} tokens)" if workspace else ""
    yield Cause(
        "deepspeed_workspace",
        strength + 3 if takes_all else 35,
        f"DeepSpeed's kernels took nearly all free memory for their workspace{full}; the {size(tensor.bytes)} of "
        f"{tensor.name} no longer fit.",
    )


def _preallocated(case: Case) -> Iterator[Cause]:
    facts = case.facts
    tokens = facts.max_seq_len
    if not tokens or not facts.batch_size or case.error.backend == CPU:
        return
    whole = case.dims.kv_bytes(facts.batch_size, tokens, int(facts.element_bytes or 2))
    if whole and case.holders.share(whole) > 0.2:
        told = f"A cache for {facts.batch_size:,} × {tokens:,} tokens takes {size(whole)} from the start."
        yield Cause("kv_cache_preallocated", 70, told)


def _weights(case: Case, tensor: Tensor, strength: float) -> Iterator[Cause]:
    facts, capacity = case.facts, case.holders.total
    told = f"{size(tensor.bytes)} are {tensor.name}, {tensor.counted} ({'32' if tensor.dtype == 'fp32' else '16'} bit)."
    dequantised = case.site is not None and case.site.kind == "dequantised"
    if facts.quantised or dequantised:
        yield Cause(
            "quantized_weights_dequantized",
            strength + 6 if dequantised else min(strength + 6, BY_SIZE_ALONE),
            f"{told} The model is quantised, so this is a copy in full width.",
        )
        return
    if facts.autocast in ("bf16", "fp16") and facts.dtype == "fp32" and tensor.dtype != "fp32":
        yield Cause("autocast_weight_cache", strength + 4, f"{told} Autocast keeps a copy of each float32 weight.")
        return
    if case.error.backend == CPU:
        yield from _on_cpu(case, tensor, strength, told)
        return
    yield from _too_many(case, tensor, strength, told)
    width = 4 if tensor.dtype == "fp32" else 2
    whole, half = case.dims.weights_bytes(width), case.dims.weights_bytes(2)
    if tensor.dtype == "fp32":
        fits = capacity and whole and whole < 0.8 * capacity
        sums = f" In float32 the weights are {size(whole)}, in 16 bit {size(half)}." if whole else ""
        weight = strength - (30 if fits else 0) + (4 if facts.dtype in (None, "fp32") else -10)
        sure = facts.dtype == "fp32" or (case.site is not None and case.site.kind == "weights")
        yield Cause("weights_in_float32", weight if sure else min(weight, BY_SIZE_ALONE), told + sums)
        if half and capacity and half > 0.97 * capacity and (facts.tp_size or 1) == 1:
            yield Cause("weights_exceed_card", strength + 5, f"{told} Even in 16 bit the weights are {size(half)}.")
        return
    ranks = facts.tp_size or 1
    part = whole // ranks if whole else None
    if part and part > (0.97 * capacity if capacity else LARGEST_CARD) and not _whole_on_each(case, tensor):
        on = f"a card of {size(capacity)}" if capacity else f"cards of up to {size(LARGEST_CARD)}"
        yield Cause(
            "weights_exceed_card",
            strength + (8 if capacity else -2),
            f"{told} The weights are {size(part)}: more than {on}.",
        )
    roomy = bool(capacity and part and part < 0.8 * capacity)
    yield Cause("weights", strength - (28 if roomy else 4), told)


def _whole_on_each(case: Case, tensor: Tensor) -> bool:
    ranks = case.facts.tp_size or 1
    return ranks > 1 and f" of {ranks} parts" not in tensor.name


def _too_many(case: Case, tensor: Tensor, strength: float, told: str) -> Iterator[Cause]:
    """A rank that loads an unsharded matrix, and holds more than its part, has the whole model to itself."""
    whole, ranks = case.dims.weights_bytes(4 if tensor.dtype == "fp32" else 2), case.facts.tp_size or 1
    held = case.holders.tensors
    if whole and _whole_on_each(case, tensor) and (held is None or held > 1.2 * whole / ranks):
        yield Cause(
            "full_model_on_each_rank",
            strength + 9,
            f"{told} It is whole, not one of {ranks} parts: each rank loads {size(whole)}, not {size(whole // ranks)}.",
        )


def _on_cpu(case: Case, tensor: Tensor, strength: float, told: str) -> Iterator[Cause]:
    """Host memory: a conversion holds each weight twice for a moment, in the old and the new type."""
    given = case.facts.dtype
    other_width = given is not None and (given == "fp32") != (tensor.dtype == "fp32")
    converting = case.site is not None and case.site.mark in ("returnt.to(", "module._apply(", "self._apply(")
    copied = 8.0 if other_width else 2.0 if converting else -4.0 if tensor.dtype == "fp32" and given is None else -8.0
    yield Cause(
        "weights_conversion_copy_on_cpu",
        strength + copied,
        f"{told} Converting on the CPU holds the old and the new copy at once.",
    )
    if tensor.dtype == "fp32":
        yield Cause("weights_in_float32", strength - (8 if other_width else 0), told)
    else:
        yield Cause("weights", strength - (8 if other_width else 0), told)
