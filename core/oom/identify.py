"""Ranks the tensors that a request can stand for. Equal evidence stays a tie; no evidence is no match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from core.oom.activations import activation_tensors, narrow
from core.oom.dims import Dims
from core.oom.error import OomError
from core.oom.facts import Facts
from core.oom.rounding import Window, window_of
from core.oom.sites import Site
from core.oom.tensor import Tensor
from core.oom.weights import fingerprints, weight_tensors

BUCKET = 250 * 2**20
"""DDP broadcasts parameters in flattened buckets of 250 MiB (torch/nn/parallel/distributed.py)."""

TIE = 8.0
BEHIND = 30.0
"""A tensor that fits so much worse than the best is not worth naming."""
MOST_TENSORS = 8

FUSING = ("vllm", "deepspeed", "tgi", "tensorrt", "sglang", "gaudi")
"""Engines that hold query, key and value, or gate and up projection, as one matrix."""

NO_TENSORS = ("deepspeed", "nccl", "cublas", "cudnn")
"""Backends whose requests are their own: a workspace, a communicator's buffers, a handle."""

TELLING = {"weights", "kv", "scores", "mask", "logits_all"}
"""Kinds of line that make nothing but such a tensor."""

CHANCE = 0.03
"""A window this wide, as a part of the request, holds some size of a model by chance: 2 MiB of less than 64 MiB."""

UNLIKELY_SEQUENCES = 256
LARGE = 2**30
"""A single request this large is nearly always logits or scores, if it is not weights."""

COMPUTED, NAMED_WEIGHT, FINGERPRINT, SOLVED, SOLVED_TWICE, LOOSE = 100.0, 92.0, 58.0, 62.0, 36.0, 48.0


def identify(error: OomError, dims: Dims, facts: Facts, site: Site | None) -> list[Tensor]:
    """The tensors that fit, best first, at most 8; empty where none does."""
    window = window_of(error)
    if window is None or error.backend in NO_TENSORS:
        return []
    if site and site.kind in ("weights_all", "warmup", "compute"):  # one buffer for many tensors
        whole = Tensor(
            "weights", "all the weights", "parameters*2", (dims.parameters or 0,), "fp16", score=NAMED_WEIGHT
        )
        return [whole] if site.kind != "compute" and window.holds(whole.bytes) else []
    found = [
        replace(tensor, score=_score(tensor, facts, site, window))
        for tensor in _candidates(dims, facts, window)
        if not (site and site.kind == "kv_cache" and tensor.kind != "kv")
    ]
    unique: dict[tuple[str, tuple[int, ...], str], Tensor] = {}
    for tensor in sorted(found, key=lambda tensor: -tensor.score):
        unique.setdefault((tensor.kind, tensor.shape, tensor.dtype), tensor)
    best = max((tensor.score for tensor in unique.values()), default=0.0)
    return [tensor for tensor in unique.values() if tensor.score >= max(20.0, best - BEHIND)][:MOST_TENSORS]


def tied(tensors: list[Tensor]) -> list[Tensor]:
    """The best, and those that fit as well."""
    return [tensor for tensor in tensors if tensors[0].score - tensor.score <= TIE]


def _candidates(dims: Dims, facts: Facts, window: Window) -> Iterator[Tensor]:
    yield from weight_tensors(dims, facts, window)
    yield from activation_tensors(dims, facts, window)
    if dims.shapes is None:
        yield from fingerprints(window)
    if facts.wrap == "ddp":
        if window.holds(BUCKET):
            yield Tensor("broadcast", "DDP's broadcast bucket", "250*2**20*1", (BUCKET,), "uint8")
        if dims.parameters:
            bucket = (
                Tensor(
                    "gradients",
                    "DDP's gradient bucket",
                    "parameters*4",
                    (dims.parameters,),
                    facts.dtype or narrow(facts),
                )
                if facts.dtype in (None, "bf16", "fp16", "fp32")
                else None
            )
            if bucket and window.holds(bucket.bytes):
                yield bucket


def _score(tensor: Tensor, facts: Facts, site: Site | None, window: Window) -> float:
    score = _base(tensor, facts, window)
    if window.coarse:
        return score - 60
    if window.share > CHANCE:
        score -= 6 if tensor.kind == "weights" or tensor.solved else 12
    if tensor.kind in ("scores", "mask"):
        score += {"eager": 8.0, "sdpa": 4.0, "flash_attention_2": -60.0}.get(facts.attn_implementation or "", 0.0)
    if tensor.kind == "activation":
        score -= 6  # below what makes a tie: keys of a layer and hidden states can have the same bytes
    if site and site.kind in ("logits", tensor.kind):
        score += 30 if tensor.kind.startswith(site.kind) else 0
    elif site and site.kind in TELLING and tensor.kind != site.kind:
        score -= 45 if tensor.solved else 25
    if window.holds(tensor.bytes) and tensor.bytes == window.high:
        score += 3
    return score


def _base(tensor: Tensor, facts: Facts, window: Window) -> float:
    if tensor.kind == "weights":
        base = FINGERPRINT if ", as in " in tensor.name else NAMED_WEIGHT
        if " in one" in tensor.name:
            fuses = any(word in (facts.engine or "") for word in FUSING)
            base -= 9 if not fuses else -1 if " parts)" in tensor.name else 0
        given = facts.dtype in ("bf16", "fp16", "fp32")
        return base - (6 if given and tensor.dtype != facts.dtype else 0)
    large = window.asked >= LARGE
    if len(tensor.solved) > 1 and "vocab" not in tensor.solved:
        # any size is some square: it takes a reason to think of scores or a mask at all
        named = tensor.kind == "logits_all" or (facts.attn_implementation is not None and tensor.kind == "scores")
        reason = -24 if not named else 22 if large else 8
        return SOLVED_TWICE + reason + (6 if window.exact else 0) - (2 if tensor.dtype != "fp32" else 0)
    return _known(tensor, facts, window) - (4 if _unlikely(tensor, facts) else 0)


def _known(tensor: Tensor, facts: Facts, window: Window) -> float:
    """For what follows from the facts, but for one size at most."""
    if not tensor.solved:
        return COMPUTED
    if tensor.loose:
        return LOOSE if tensor.kind == "kv" or window.asked >= LARGE else LOOSE - 5
    if "vocab" in tensor.solved:  # a public vocabulary that divides the request to near the prompt
        return SOLVED + 4
    base = SOLVED + (8 if window.exact else 0)
    if tensor.kind == "logits_last":
        base -= 18
    elif "batch" in tensor.solved and tensor.shape[0] > UNLIKELY_SEQUENCES:
        base -= 14
    elif tensor.kind == "logits_all" and facts.prompt_tokens and not window.exact:  # a few tokens more than were named
        others = (window.high - window.low) * tensor.shape[1] // tensor.bytes
        near = tensor.shape[1] <= 1.1 * facts.prompt_tokens + 8
        base += (8 if others < 1 else 2 if others < 4 else -6) if near else -6
    return base


def _unlikely(tensor: Tensor, facts: Facts) -> bool:
    """The other width than the one the kind has as a rule: softmax and all-position logits are float32."""
    if tensor.kind in ("logits_all", "scores", "mask"):
        return tensor.dtype != "fp32" and facts.attn_implementation != "sdpa"
    return tensor.dtype == "fp32" and facts.dtype != "fp32"
