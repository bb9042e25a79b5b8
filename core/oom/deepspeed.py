"""DeepSpeed's inference workspace: what it asks of the driver, by version.

Source: csrc/transformer/inference/includes/inference_context.h, GenWorkSpace, of the releases 0.7.4, 0.8.2 and 0.9 to
0.19. Element size: ops/transformer/inference/ds_attention.py and ds_transformer.py (since 0.9 float16 is sized as 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from core.oom.dims import Dims
from core.oom.facts import Facts

MIB, GIB = 2**20, 2**30
DEFAULT_TOKENS = 1024
MAX_HEAD = 128


@dataclass(frozen=True)
class Workspace:
    """`activations`, `scratch` and `cache`: elements for each token. `floor_bytes`: what has to be free, at least."""

    activations: int
    scratch: int
    cache: int
    element_bytes: int
    max_tokens: int

    @property
    def bytes_per_token(self) -> int:
        return self.element_bytes * (self.activations + self.scratch + self.cache)

    def size(self, tokens: int) -> int:
        """Bytes of the workspace that holds so many tokens."""
        return self.bytes_per_token * tokens

    @property
    def full_bytes(self) -> int:
        return self.size(self.max_tokens)

    def minimum(self, free: int) -> int:
        """Bytes that are left free, or refused: elements are added to bytes, as in the source."""
        return minimum_bytes(self.scratch, free)

    def tokens(self, free: int) -> int:
        """Tokens that the workspace takes when so many bytes are free: at most `max_tokens`."""
        room = max(0, free - self.minimum(free)) // self.element_bytes
        return min(self.max_tokens, room // (self.activations + self.scratch + self.cache))


def minimum_bytes(scratch: int, free: int) -> int:
    return scratch + (500 if free > GIB else 100) * MIB


def workspace_of(dims: Dims, facts: Facts, element_bytes: int | None = None) -> Workspace | None:
    """The workspace of this model and batch (1 where it is not known); None without the model's dimensions."""
    if not (dims.hidden and dims.heads and dims.layers):
        return None
    version = facts.version("deepspeed") or (0, 14)
    old = version < (0, 9)
    batch, ranks = facts.batch_size or 1, facts.tp_size or 1
    head = dims.hidden // dims.heads
    padded = head if old or head > MAX_HEAD else next(size for size in (32, 64, 128) if head <= size)
    width = dims.heads * padded
    tokens = facts.max_out_tokens or DEFAULT_TOKENS
    if element_bytes is None:
        element_bytes = 2 if facts.dtype == "bf16" or (old and facts.dtype != "fp32") else 4
    scratch = 2 * batch * dims.heads * tokens if old else batch * (dims.heads // ranks) * tokens
    cache = 2 * dims.layers * batch * (width // ranks)
    if dims.name and "bloom" in dims.name.lower():
        cache = 0  # BLOOM keeps its cache outside (external_cache)
    return Workspace((16 if old else 10) * width * batch, scratch, cache, element_bytes, tokens)
