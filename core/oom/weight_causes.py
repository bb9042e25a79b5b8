"""Causes that follow from a weight that was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from core.oom.case import Case, Cause
from core.oom.tensor import Tensor
from core.plots.units import GIB, size

LARGEST_CARD = 96 * GIB
"""Weights above this fit none but a few cards, so they are a cause even where the card is not named."""

CPU = "cpu"

BY_SIZE_ALONE = 74
"""The most that a size can carry by itself: another tensor, in another data type, may have the same bytes."""


def weight_causes(case: Case, tensor: Tensor, strength: float) -> Iterator[Cause]:
    """Of one weight: whose width, share or copy it is, and whether all of them fit the card."""
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
    if part and part > (0.97 * capacity if capacity else LARGEST_CARD):
        on = f"a card of {size(capacity)}" if capacity else f"cards of up to {size(LARGEST_CARD)}"
        whose = "The weights are" if ranks == 1 else f"One of {ranks} parts of the weights is"
        over = capacity is None or part > capacity
        yield Cause(
            "weights_exceed_card",
            strength + (8 if capacity and over else -2),
            f"{told} {whose} {size(part)}: {'more than' if over else 'nearly all of'} {on}.",
        )
    roomy = bool(capacity and part and part < 0.8 * capacity)
    yield Cause("weights", strength - (28 if roomy else 4), told)


SHARDING = ("vllm", "sglang", "tgi", "tensorrt")
"""Engines that never load a whole model on each rank."""


def _whole_on_each(case: Case, tensor: Tensor) -> bool:
    ranks = case.facts.tp_size or 1
    return ranks > 1 and f" of {ranks} parts" not in tensor.name


def _too_many(case: Case, tensor: Tensor, strength: float, told: str) -> Iterator[Cause]:
    """A rank that loads an unsharded matrix, and holds more than its part, has the whole model to itself."""
    whole, ranks = case.dims.weights_bytes(4 if tensor.dtype == "fp32" else 2), case.facts.tp_size or 1
    held = case.holders.tensors
    sharded = any(word in (case.facts.engine or "") for word in SHARDING)
    if whole and not sharded and _whole_on_each(case, tensor) and (held is None or held > 1.2 * whole / ranks):
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
