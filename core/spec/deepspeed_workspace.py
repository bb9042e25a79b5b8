"""The workspace that DeepSpeed's injected kernels take from the driver at the first forward pass.

Source: `GenWorkSpace` in csrc/transformer/inference/includes/inference_context.h of the releases 0.7.4, 0.8.2 and 0.9
to 0.19.8, called by `DeepSpeedTransformerInference.allocate_workspace` (ds_transformer.py, before 0.9 ds_attention.py).
"""

from __future__ import annotations

from dataclasses import dataclass

MIB, GIB = 2**20, 2**30

NEWEST = (0, 19)

_HEAD_WIDTHS = (32, 64, 128)
"""Since 0.9 a head is padded to the next of these; a wider one is not."""


@dataclass(frozen=True)
class Workspace:
    """size: bytes; tokens: positions (prompt + new) that it has room for."""

    size: int
    tokens: int


@dataclass(frozen=True)
class Sizing:
    """How a workspace follows from the memory that is free. `activations`, `scratch`, `cache`: elements a token."""

    activations: int
    scratch: int
    cache: int
    element_bytes: int
    max_tokens: int

    @property
    def bytes_per_token(self) -> int:
        return self.element_bytes * (self.activations + self.scratch + self.cache)

    @property
    def full_bytes(self) -> int:
        """The workspace for all of max_out_tokens."""
        return self.bytes_per_token * self.max_tokens

    def left_free(self, free: int) -> int:
        """Bytes that are not taken, whatever is free: the source adds a number of elements to bytes here."""
        return least_left(self.scratch, free)

    def at(self, free: int) -> Workspace:
        """The workspace when `free` bytes are free on the card. Its tokens may be 0 or less: then it cannot be had."""
        per_token = self.activations + self.scratch + self.cache
        tokens = min(self.max_tokens, (free - self.left_free(free)) // self.element_bytes // per_token)
        return Workspace(self.bytes_per_token * tokens, tokens)


def least_left(scratch: int, free: int) -> int:
    """Bytes that a workspace leaves free, or that are missing when it is refused; `scratch` in elements."""
    return scratch + (500 if free > GIB else 100) * MIB


def sizing(
    *,
    batch_size: int,
    hidden_size: int,
    heads: int,
    layers: int,
    dtype: str,
    max_out_tokens: int,
    tp_size: int = 1,
    external_cache: bool = False,
    version: tuple[int, ...] = NEWEST,
) -> Sizing:
    """`external_cache` is set for BLOOM alone, which keeps its KV cache outside.

    Since 0.9 float16 and int8 are sized as float32: the functions called for them are instantiated for float.
    """
    old = version < (0, 9)
    width = hidden_size // heads
    if not old:
        width = next((padded for padded in _HEAD_WIDTHS if width <= padded), width)
    hidden = heads * width
    element = 2 if dtype == "bf16" or (old and dtype != "fp32") else 4
    scratch = 2 * batch_size * heads * max_out_tokens if old else batch_size * (heads // tp_size) * max_out_tokens
    cache = 0 if external_cache else 2 * layers * batch_size * (hidden // tp_size)
    return Sizing((16 if old else 10) * hidden * batch_size, scratch, cache, element, max_out_tokens)
