"""Causes that an engine's own words tell: llama.cpp's buffers, vLLM's and others' accounts before they start."""

from __future__ import annotations

from collections.abc import Iterator

from core.oom.case import Case, Cause
from core.plots.units import size


def engine_causes(case: Case) -> Iterator[Cause]:
    """Of what the engine says that the memory was for."""
    kind, site = case.error.kind, case.site
    if kind in WORDS:
        yield from WORDS[kind](case)
    elif kind.startswith("ggml") and site:
        yield from _ggml(case, site.kind)
    elif site and site.kind == "warmup":
        yield from _warmup(case)
    elif site and site.kind == "kv_cache" and case.facts.engine in ("vllm", "sglang", "tgi"):
        yield Cause("kv_cache_preallocated", 62, "The engine was setting its cache of keys and values aside.")


def _warmup(case: Case) -> Iterator[Cause]:
    """transformers asks for all the weights at once before it loads them, to have them in one piece."""
    asked, total = case.error.requested_bytes, case.error.total_bytes
    told = f"The {size(asked)} are all the weights, asked for at once before they are loaded"
    if asked and total and asked > 0.95 * total:
        yield Cause("weights_exceed_card", 80, f"{told}; the card has {size(total)}.")
    elif asked:
        yield Cause("weights", 64, f"{told}.")


def _ggml(case: Case, made: str) -> Iterator[Cause]:
    asked = case.error.requested_bytes
    told = f"{size(asked)} are" if asked else "It was"
    if made == "weights_all":
        each = f"{told} one buffer for all the weights that this device is to hold{_bits(case)}."
        yield Cause("weights_exceed_card", 66, each)
        yield Cause("weights", 62, each)
    elif made == "kv_cache":
        tokens = f" for {case.facts.max_seq_len:,} tokens" if case.facts.max_seq_len else ""
        yield Cause("kv_cache_preallocated", 66, f"{told} one buffer for the cache of keys and values{tokens}.")
    elif made == "compute":
        yield Cause("activations", 62, f"{told} the buffer for one step's activations: it grows with the micro-batch.")


def _bits(case: Case) -> str:
    asked, parameters = case.error.requested_bytes, case.dims.parameters
    bits = 8 * asked / parameters if asked and parameters else 0
    return f", {bits:.1f} bits for each of {parameters / 1e9:.2f} billion" if parameters and 1.5 < bits < 34 else ""


def _no_blocks(case: Case) -> Iterator[Cause]:
    told = "After the weights and one trial pass nothing of the engine's share of the card is left for its cache"
    yield Cause("kv_cache_preallocated", 64, f"{told} of keys and values.")
    yield Cause("weights_exceed_card", 58, f"{told}: the weights may be too large for it.")


def _too_few_tokens(case: Case) -> Iterator[Cause]:
    numbers, error = case.error.numbers, case.error
    room = (
        f"The cache for one sequence of {numbers['minimum']:,} tokens takes {size(error.requested_bytes)}, and "
        f"{size(error.free_bytes)} are left for it"
        if error.requested_bytes
        else f"What is left for the cache holds {numbers['available']:,} tokens, fewer than the longest sequence "
        f"({numbers['minimum']:,})"
    )
    yield Cause("kv_cache_preallocated", 84, f"{room}.")


def _startup(case: Case) -> Iterator[Cause]:
    error = case.error
    used = (error.total_bytes or 0) - (error.free_bytes or 0)
    told = f"Before this engine took anything, {size(used)} of {size(error.total_bytes)} were in use"
    share = f"and it wants {size(error.requested_bytes)}"
    yield Cause("other_process_holds_card", 82, f"{told}, {share}: another process, or an earlier one, holds them.")


def _too_few(case: Case) -> Iterator[Cause]:
    yield Cause(
        "kv_cache_preallocated", 60, "What the weights leave of the engine's share is too little for its cache."
    )


def _host(case: Case) -> Iterator[Cause]:
    error = case.error
    asked, free = size(error.requested_bytes), size(error.free_bytes)
    yield Cause("weights", 64, f"The model needs {asked} of the machine's own memory, and {free} are free.")


WORDS = {
    "vllm_no_blocks": _no_blocks,
    "vllm_tokens": _too_few_tokens,
    "vllm_cache": _too_few_tokens,
    "vllm_startup": _startup,
    "sglang": _too_few,
    "tgi": _too_few,
    "ollama_host": _host,
}
