"""The three jobs, each one repeat of what a run measures.

A job is called with the model to call, the inputs and the spec, and returns what it made (kept until the release
phase) with its shape, [rows, tokens].
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Callable

import torch

from core.worker.model import DTYPES
from core.worker.wrap import unwrapped

Job = Callable[[Any, torch.Tensor, torch.Tensor, "dict[str, Any]"], "tuple[Any, list[int]]"]

SAMPLING = ("temperature", "top_k", "top_p", "cache_implementation")
"""Handed to generate only when they are set: each is a logits processor or a cache of its own."""


def generate(model: Any, ids: torch.Tensor, mask: torch.Tensor, spec: dict[str, Any]) -> tuple[Any, list[int]]:
    """`generate` of the model inside any wrapper. No min_new_tokens: its logits processor allocates."""
    options = {name: spec[name] for name in SAMPLING if spec[name] is not None}
    if spec["num_beams"] != 1:
        options["num_beams"] = spec["num_beams"]
    output = unwrapped(model).generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=spec["new_tokens"],
        do_sample=spec["do_sample"],
        use_cache=spec["use_cache"],
        **options,
    )
    return output, list(output.shape)


def forward(model: Any, ids: torch.Tensor, mask: torch.Tensor, spec: dict[str, Any]) -> tuple[Any, list[int]]:
    """One pass over the prompt, with the logits of all positions."""
    output = model(input_ids=ids, attention_mask=mask, use_cache=spec["use_cache"])
    return output, list(output.logits.shape[:2])


def loop(model: Any, ids: torch.Tensor, mask: torch.Tensor, spec: dict[str, Any]) -> tuple[Any, list[int]]:
    """A greedy decoding loop as people write it by hand, where the grad mode is whatever surrounds it."""
    past, current = None, ids
    for _ in range(spec["new_tokens"]):
        output = model(input_ids=current, attention_mask=mask, past_key_values=past, use_cache=spec["use_cache"])
        token = output.logits[:, -1:].argmax(-1)
        past = output.past_key_values if spec["use_cache"] else None
        current = token if spec["use_cache"] else torch.cat([current, token], dim=1)
        mask = torch.cat([mask, mask.new_ones((mask.shape[0], 1))], dim=1)
    return (output, current, mask), list(mask.shape)


JOBS: dict[str, Job] = {"generate": generate, "forward": forward, "loop": loop}

_GRAD_MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "grad": torch.enable_grad,
}


@contextlib.contextmanager
def modes(spec: dict[str, Any], device_type: str) -> Iterator[None]:
    """The grad mode, and autocast inside it, that a job runs under. Autocast's copies of weights live until it ends."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_GRAD_MODES[spec["grad_mode"]]())
        if spec["autocast"] != "none":
            stack.enter_context(torch.autocast(device_type, dtype=DTYPES[spec["autocast"]]))
        yield
