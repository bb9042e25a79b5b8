"""A model's dimensions under one set of names, whatever its config calls them, and the tensors that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from core.spec.families import FAMILIES
from core.spec.family import Family, Row

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}

KEYS: dict[str, tuple[str, ...]] = {
    "hidden": ("n_embed", "hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim",),
    "vocab": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len"),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "window": ("sliding_window",),
}
"""What configs call a size; the first that is there wins (as n_embed does in BloomConfig)."""


def _given(config: Mapping[str, Any], size: str) -> int | None:
    return next((config[key] for key in KEYS[size] if type(config.get(key)) is int), None)


def _stated(config: Mapping[str, Any], size: str) -> bool:
    return any(key in config for key in KEYS[size])


@dataclass(frozen=True)
class Architecture:
    """Dimensions of a decoder. `learned_positions`: positions are a table, so a longer sequence cannot run at all.

    None is unknown: `max_positions` where the config does not say (and any length runs, as with ALiBi), and for a
    `model_type` without a table in `families` also `gated_mlp`, `tied` and `intermediate` where the config is silent.
    `window`: tokens that some or all layers attend to at most, so that their KV cache keeps no more.
    """

    model_type: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int | None
    vocab: int
    max_positions: int | None
    learned_positions: bool
    gated_mlp: bool | None
    tied: bool | None
    window: int | None
    family: Family | None
    switched: tuple[Row, ...] = field(default=())

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Architecture | None:
        """None where the config lacks a dimension that nothing can stand in for."""
        model_type = str(config.get("model_type", ""))
        family = FAMILIES.get(model_type)
        defaults = family.defaults if family else {}
        hidden, layers, heads, vocab = (
            _given(config, size) or defaults.get(size) for size in ("hidden", "layers", "heads", "vocab")
        )
        if not (hidden and layers and heads and vocab):
            return None

        def or_default(size: str) -> int | None:
            """The family's own default stands in for a key that is absent, not for one that is null."""
            return _given(config, size) or (None if _stated(config, size) else defaults.get(size))

        tied = config.get("tie_word_embeddings")
        dimensions = {"hidden": hidden}
        known = family is not None and all(
            config.get(key) in (None, dimensions[value] if isinstance(value, str) else value)
            for key, value in family.assumes.items()
        )
        return Architecture(
            model_type=model_type,
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=or_default("kv_heads") or heads,
            head_dim=or_default("head_dim") or hidden // heads,
            intermediate=or_default("intermediate") or (4 * hidden if family else None),
            vocab=vocab,
            max_positions=or_default("positions"),
            learned_positions=bool(family and family.learned_positions),
            gated_mlp=family.gated_mlp if family else None,
            tied=bool(tied) if tied is not None else family.tied if family else None,
            window=None if config.get("use_sliding_window") is False else or_default("window"),
            family=family if known else None,
            switched=tuple(
                row
                for switch in (family.switches if family else ())
                if bool(config.get(switch.key, switch.default))
                for row in switch.rows
            ),
        )

    def parameter_shapes(self) -> dict[str, tuple[int, ...]] | None:
        """Name and shape of every parameter, as transformers 5 names them; None for a family that is not known here.

        Tied embeddings are listed once.
        """
        if self.family is None or self.intermediate is None:
            return None
        sizes = {
            "d": self.hidden,
            "q": self.heads * self.head_dim,
            "kv": self.kv_heads * self.head_dim,
            "qkv": (self.heads + 2 * self.kv_heads) * self.head_dim,
            "hd": self.head_dim,
            "f": self.intermediate,
            "ff": 2 * self.intermediate,
            "v": self.vocab,
            "p": (self.max_positions or 0) + self.family.extra_positions,
        }
        shapes: dict[str, tuple[int, ...]] = {}
        for name, dimensions in self.family.outer:
            shapes[name] = tuple(sizes[dimension] for dimension in dimensions)
        for layer in range(self.layers):
            for name, dimensions in (*self.family.layer, *self.switched):
                shapes[f"{self.family.layers_at}.{layer}.{name}"] = tuple(sizes[dimension] for dimension in dimensions)
        if not self.tied:
            for name, dimensions in self.family.head:
                shapes[name] = tuple(sizes[dimension] for dimension in dimensions)
        return shapes

    def parameter_count(self) -> int | None:
        """Number of parameters; None for a family that is not known here."""
        shapes = self.parameter_shapes()
        return None if shapes is None else sum(prod(shape) for shape in shapes.values())

    def kv_bytes_per_token(self, element_bytes: int) -> int:
        """Keys and values of one token of one row over all layers, in bytes."""
        return 2 * self.layers * self.kv_heads * self.head_dim * element_bytes
