"""Causes that follow from which tensor was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from core.oom.case import Case, Cause
from core.oom.identify import tied
from core.oom.tensor import Tensor
from core.oom.weight_causes import CPU, weight_causes
from core.plots.units import GIB, size


def tensor_causes(case: Case) -> Iterator[Cause]:
    """Of the best tensor and of those that fit as well, and of what their size means together with the facts."""
    for tensor in tied(case.tensors) if case.tensors else []:
        strength = _strength(tensor)
        if tensor.kind == "weights":
            yield from weight_causes(case, tensor, strength)
        else:
            yield from _activations(case, tensor, strength)
    yield from _preallocated(case)
    yield from _by_site(case)


FUSED = "scaled_dot_product_attention("
BY_SITE = {
    "logits_all": ("logits_all_positions_fp32", "the logits of all positions, in float32"),
    "kv": ("kv_cache", "keys or values, longer by the new token"),
    "mask": ("attention_mask_dense", "an attention mask"),
    "scores": ("attention_scores_eager", "attention scores"),
}


def _by_site(case: Case) -> Iterator[Cause]:
    """The line that failed tells what was made, whatever its size."""
    site, asked = case.site, case.error.requested_bytes
    if site is None or site.kind not in BY_SITE or case.error.backend not in ("cuda", "hip", "xpu", "mps", "cpu", None):
        return
    tag, made = BY_SITE[site.kind]
    told = f"The last line of the traceback made {made}"
    if site.mark == FUSED:  # its fused kernels make much less: a large request is the scores
        yield Cause("attention_scores_sdpa_math", 60 if (asked or 0) >= GIB else 40, f"{told}, without a fused kernel.")
    else:
        yield Cause(tag, 60, f"{told}.")


def _strength(tensor: Tensor) -> float:
    """From a tensor's score to a cause's weight: computed from what was given 80, solved backwards 45 to 70."""
    return min(82.0, tensor.score - 20) if not tensor.solved else max(10.0, min(72.0, tensor.score - 6))


TAGS = {
    "mask": "attention_mask_dense",
    "kv": "kv_cache",
    "broadcast": "broadcast_buckets_cached",
    "gradients": "ddp_gradient_buckets",
    "activation": "activations",
    "logits_last": "activations",
}


def _activations(case: Case, tensor: Tensor, strength: float) -> Iterator[Cause]:
    facts = case.facts
    told = f"{size(tensor.bytes)} are {tensor.name}: {tensor.counted}.{_more_rows(case, tensor)}"
    if tensor.kind == "logits_all":
        yield Cause("logits_all_positions_fp32" if tensor.dtype == "fp32" else "logits_all_positions", strength, told)
    elif tensor.kind == "scores":
        first, second = "attention_scores_eager", "attention_scores_sdpa_math"
        fused = case.site is not None and case.site.mark == FUSED
        if facts.attn_implementation == "sdpa" or fused:
            first, second = second, first
        seen = fused or (case.site is not None and case.site.kind == "scores") or facts.attn_implementation == "eager"
        yield Cause(first, strength, told)
        yield Cause(second, strength - (20 if seen else 4), told)
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
