"""DeepSpeed's inference workspace from what is known of a job."""

from __future__ import annotations

from dataclasses import replace

from core.oom.dims import Dims
from core.oom.facts import Facts
from core.spec.deepspeed_workspace import Sizing, sizing
from core.spec.rules import DEEPSPEED_MAX_OUT_TOKENS

UNNAMED = (0, 14)
"""The version that is taken where none is known: all since 0.9 size it alike."""


def workspace_of(dims: Dims, facts: Facts, element_bytes: int | None = None) -> Sizing | None:
    """The workspace of this model and batch (1 where it is not known); None without the model's dimensions."""
    if not (dims.hidden and dims.heads and dims.layers):
        return None
    found = sizing(
        batch_size=facts.batch_size or 1,
        hidden_size=dims.hidden,
        heads=dims.heads,
        layers=dims.layers,
        dtype=facts.dtype or "fp16",
        max_out_tokens=facts.max_out_tokens or DEEPSPEED_MAX_OUT_TOKENS,
        tp_size=facts.tp_size or 1,
        external_cache="bloom" in (dims.name or "").lower(),
        version=facts.version("deepspeed") or UNNAMED,
    )
    return found if element_bytes is None else replace(found, element_bytes=element_bytes)
