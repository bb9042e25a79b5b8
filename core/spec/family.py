"""How a family of models is described: rows of parameter names and dimensions, and the sizes it takes by default.

Dimensions: d hidden, q all query heads, kv all key heads, qkv query and keys and values fused, hd one head,
f feed-forward, ff gate and up projection fused, v vocabulary, p positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Row = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Switch:
    """Rows that a layer has only where the config's `key` (or, unset, `default`) is true."""

    key: str
    default: bool
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Family:
    """`outer` parameters outside the layers, `layer` those of each layer under `layers_at`, `head` the untied head.

    `defaults`: the sizes that transformers takes where a config does not say (where this lacks one too, it follows from
    the others: kv_heads from heads, head_dim from hidden / heads, intermediate as 4 x hidden).
    `assumes`: config values under which the table holds, a string being the name of a size; with any other value the
    parameters are unknown.
    """

    outer: tuple[Row, ...]
    layers_at: str
    layer: tuple[Row, ...]
    head: tuple[Row, ...]
    defaults: Mapping[str, int]
    switches: tuple[Switch, ...] = ()
    assumes: Mapping[str, bool | str] = field(default_factory=dict)
    tied: bool = False
    gated_mlp: bool = False
    learned_positions: bool = False
    extra_positions: int = 0


def sizes(
    hidden: int, layers: int, heads: int, vocab: int, positions: int | None = None, **more: int
) -> dict[str, int]:
    """Default sizes by name; `positions` is None for a family without a limit of its own."""
    given = {} if positions is None else {"positions": positions}
    return {"hidden": hidden, "layers": layers, "heads": heads, "vocab": vocab, **given, **more}


def linear(name: str, out: str, into: str) -> tuple[Row, ...]:
    """A torch.nn.Linear with bias."""
    return ((f"{name}.weight", (out, into)), (f"{name}.bias", (out,)))


def norm(name: str) -> tuple[Row, ...]:
    """A layer norm with bias."""
    return ((f"{name}.weight", ("d",)), (f"{name}.bias", ("d",)))
