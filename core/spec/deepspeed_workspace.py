"""The workspace that DeepSpeed's injected kernels take from the driver at the first forward pass.

Source: `GenWorkSpace` in csrc/transformer/inference/includes/inference_context.h of DeepSpeed 0.19.8, called by
`DeepSpeedTransformerInference.allocate_workspace` (deepspeed/model_implementations/transformers/ds_transformer.py).
"""

from __future__ import annotations

from dataclasses import dataclass

MIB, GIB = 2**20, 2**30

ELEMENT_BYTES = {"bf16": 2, "fp16": 4, "fp32": 4, "int8": 4}
"""float16 and int8 are sized as float32: the functions that are called for them are instantiated for float."""

_HEAD_WIDTHS = (32, 64, 128)
"""A head is padded to the next of these; a wider one is not."""


@dataclass(frozen=True)
class Workspace:
    """size: bytes; tokens: positions (prompt + new) that it has room for."""

    size: int
    tokens: int


def workspace(
    free: int,
    *,
    batch_size: int,
    hidden_size: int,
    heads: int,
    layers: int,
    dtype: str,
    max_out_tokens: int,
    tp_size: int = 1,
    external_cache: bool = False,
) -> Workspace:
    """The workspace when `free` bytes are free on the card. tokens may be 0 or less: then it cannot be had.

    `external_cache` is set for BLOOM alone, which keeps its KV cache outside.
    """
    element = ELEMENT_BYTES[dtype]
    width = hidden_size // heads
    hidden = heads * next((w for w in _HEAD_WIDTHS if width <= w), width)
    activations = 10 * hidden * batch_size
    attention = batch_size * (heads // tp_size) * max_out_tokens
    cache = 0 if external_cache else 2 * layers * batch_size * hidden // tp_size
    # the source adds a number of elements to bytes here
    reserve = attention + (500 if free > GIB else 100) * MIB
    per_token = activations + attention + cache
    tokens = min(max_out_tokens, (free - reserve) // element // per_token)
    return Workspace(element * tokens * per_token, tokens)
