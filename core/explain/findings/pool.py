"""Findings about what PyTorch's pool holds."""

from __future__ import annotations

import numpy as np

from core.explain.blocks import rules_of
from core.explain.findings.finding import MIB, Case, Finding, said
from core.explain.naming import RULES

LEAST = 64 * MIB
"""Smaller things are not worth a sentence."""

SHARE = 0.05
"""Of what is in use: less would not change what fits."""

LOGITS = [number for number, rule in enumerate(RULES) if rule.category == "logits"]
KV_CACHE = [number for number, rule in enumerate(RULES) if rule.category == "kv_cache"]

LOGITS_VERSION = "4.45"
"""transformers from this version on computes the last position's logits only (num_logits_to_keep of its models)."""


def fragmentation(case: Case) -> Finding | None:
    """Cached memory that no request fits, which segments that can grow would not leave behind."""
    if "expandable_segments:True" in str(case.spec.get("allocator") or ""):
        return None
    if case.cached < max(4 * LEAST, 0.1 * case.reserved):
        return None
    allocated = case.reserved - case.cached
    return case.finding(
        "fragmentation",
        f"PyTorch holds {said(case.cached)} that no tensor uses, beside {said(allocated)} in tensors: freed blocks of "
        "sizes that later requests do not fit.",
        case.cached,
        {"allocator": "expandable_segments:True"},
        "expandable_segments lets a segment grow instead; it is taken from the driver again as it is needed",
    )


def autocast_copies(case: Case) -> Finding | None:
    """Weights that autocast keeps in its own dtype beside the fp32 ones."""
    size = case.terms.get("autocast_copies", 0)
    if size < LEAST:
        return None
    return case.finding(
        "autocast_copies",
        f"Autocast keeps {said(size)} of {case.spec['autocast']} copies beside {said(case.terms.get('weights', 0))} of "
        "fp32 weights until its context ends.",
        size,
        {"dtype": case.spec["autocast"], "autocast": "none"},
        "load the model in that dtype, which halves the weights too; under inference_mode recent torch keeps no copies",
    )


def all_logits(case: Case) -> Finding | None:
    """fp32 logits of every prompt position, where one position a row is enough."""
    spec, vocabulary = case.spec, case.evidence.vocabulary
    if spec.get("job") != "generate" or not vocabulary or int(spec["prompt_tokens"]) < 2:
        return None
    size = int(spec["batch_size"]) * int(spec["num_beams"]) * int(spec["prompt_tokens"]) * vocabulary * 4
    request = case.breakdown.request
    blocks = case.evidence.blocks.size
    met = bool(request) and abs((request.size if request else 0) - size) <= 2 * MIB
    at = np.flatnonzero(blocks == size)
    if len(at) and case.evidence.has_marks:  # autocast's copy of a head can be of that size too
        at = at[np.isin(rules_of(case.evidence, at)[0], LOGITS)]
    if size < LEAST or not (met or len(at)):
        return None
    return case.finding(
        "all_logits",
        f"The logits of all {spec['prompt_tokens']} prompt positions are computed in fp32: {spec['batch_size']} × "
        f"{spec['prompt_tokens']} × {vocabulary:,} × 4 bytes = {said(size)}. Only the last position is used.",
        size,
        # DeepSpeed's injected kernels follow one version of a model's code, so another is no change to try blindly
        {"environment": "default"} if spec["environment"] != "default" and spec["engine"] == "transformers" else {},
        f"transformers {LOGITS_VERSION} and later computes the last position only",
        case.breakdown.t_ns if met else int(case.evidence.t_ns[case.evidence.blocks.born[at[0]]]),
    )


def growing_cache(case: Case) -> Finding | None:
    """A KV cache that is copied into new, larger blocks at every step."""
    evidence, spec = case.evidence, case.spec
    size = case.terms.get("kv_cache", 0)
    if size < LEAST or spec.get("cache_implementation") == "static" or not evidence.has_marks:
        return None
    blocks = evidence.blocks
    decode = next((p.t_start for p in evidence.trace.phases if p.name == "decode"), None)
    if decode is None:
        return None
    late = np.flatnonzero((evidence.t_ns[blocks.born] >= decode) & (blocks.size * 200 > size))
    late = late[np.isin(rules_of(evidence, late)[0], KV_CACHE)]
    if not len(late):
        return None
    copied = int(blocks.size[late].sum())
    return case.finding(
        "growing_cache",
        f"The KV cache of {said(size)} is copied into new blocks at each step: {said(copied)} were allocated for it "
        "while decoding, and the pool is left with pieces of every earlier size.",
        size,
        {"cache_implementation": "static"},
        "a static cache is allocated once, at its final size",
    )


def ddp_buckets(case: Case) -> Finding | None:
    """Gradient buckets where nothing is trained."""
    size = case.terms.get("ddp_buckets", 0)
    if size < LEAST:
        return None
    return case.finding(
        "ddp_buckets",
        f"DDP holds {said(size)} of buckets for gradients that inference never computes.",
        size,
        {"wrap": "none"},
        "without the wrapper, or with requires_grad_(False) before it, there are none",
    )


def fp32_weights(case: Case) -> Finding | None:
    """fp32 where the model was published in half the bytes."""
    published = str(case.evidence.config.get("torch_dtype") or case.evidence.config.get("dtype") or "")
    weights = case.terms.get("weights", 0)
    if case.spec.get("dtype") != "fp32" or published not in ("float16", "bfloat16") or weights < LEAST:
        return None
    dtype = {"float16": "fp16", "bfloat16": "bf16"}[published]
    return case.finding(
        "fp32_weights",
        f"The weights are fp32, {said(weights)}; this model was published in {published}, which takes half.",
        weights // 2,
        {"dtype": dtype, "autocast": "none"},
        "from_pretrained(…, dtype='auto')",
    )


def kept_activations(case: Case) -> Finding | None:
    """What autograd keeps for a backward pass that never comes."""
    size = case.terms.get("activations", 0)
    if case.spec.get("grad_mode") != "grad" or case.spec.get("job") == "generate":
        return None
    if size < max(LEAST, SHARE * case.breakdown.total):
        return None
    return case.finding(
        "kept_activations",
        f"Gradients are on, so {said(size)} of activations are kept for a backward pass that never comes.",
        size,
        {"grad_mode": "inference_mode"},
    )
