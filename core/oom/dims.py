"""A model's dimensions as far as they are known: all of them, or only a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from core.oom.known import find_model, type_in_name
from core.spec.architecture import KEYS, Architecture


@dataclass(frozen=True)
class Dims:
    """None is unknown. `shapes`: every kind of weight matrix by name; `parameters`: elements in all weights."""

    name: str | None = None
    hidden: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    intermediate: int | None = None
    vocab: int | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    parameters: int | None = None

    @property
    def known(self) -> bool:
        return any(value is not None for value in (self.hidden, self.heads, self.vocab))

    def weights_bytes(self, element_bytes: float) -> int | None:
        """All weights, in bytes."""
        return None if self.parameters is None else round(self.parameters * element_bytes)

    def kv_bytes(self, rows: int, tokens: int, element_bytes: int) -> int | None:
        """Keys and values of all layers for `rows` sequences of `tokens` tokens, in bytes."""
        if not (self.layers and self.kv_heads and self.head_dim):
            return None
        return 2 * self.layers * self.kv_heads * self.head_dim * rows * tokens * element_bytes


def dims_of(model: str | None, config: Mapping[str, Any] | None) -> Dims:
    """From a config where there is one (any part of it), filled up from what is known of a model of that name."""
    known = find_model(model) if model else None
    merged: dict[str, Any] = dict(known[1]) if known and not config else {}
    merged.update(config or {})
    if model and "model_type" not in merged and (hint := type_in_name(model)):
        merged["model_type"] = hint
    try:
        architecture = Architecture.from_config(merged) if _whole(merged) else None
    except (ArithmeticError, TypeError, ValueError):  # a hint that makes no model is no hint
        architecture = None
    name = model or (known[0] if known else None)
    if architecture is None or "kv_lora_rank" in merged:  # latent attention keeps other keys than these tables know
        return _partial(name, merged)
    experts = _first(merged, EXPERTS)
    if experts:
        return _with_experts(name, replace(architecture, intermediate=_expert_width(merged)), experts)
    shapes = _by_kind(architecture.parameter_shapes()) or _usual_shapes(architecture)
    return Dims(
        name,
        architecture.hidden,
        architecture.layers,
        architecture.heads,
        architecture.kv_heads,
        architecture.head_dim,
        _intermediate(architecture),
        architecture.vocab,
        shapes,
        architecture.parameter_count() or _usual_count(architecture, shapes),
    )


EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def _expert_width(config: Mapping[str, Any]) -> int | None:
    return _first(config, ("moe_intermediate_size", *KEYS["intermediate"]))


def _with_experts(name: str | None, architecture: Architecture, experts: int) -> Dims:
    """Each layer has `experts` feed-forwards; engines hold all of a layer in one tensor. A shared one is left out."""
    hidden, inner = architecture.hidden, _intermediate(architecture)
    plain = {key: shape for key, shape in _usual_shapes(architecture).items() if ".mlp." not in key}
    stacked = {
        "layers.*.experts.gate_up.weight": (experts, 2 * inner, hidden),
        "layers.*.experts.down.weight": (experts, hidden, inner),
    }
    single = {"layers.*.experts.*.up.weight": (inner, hidden), "layers.*.experts.*.down.weight": (hidden, inner)}
    return Dims(
        name,
        hidden,
        architecture.layers,
        architecture.heads,
        architecture.kv_heads,
        architecture.head_dim,
        inner,
        architecture.vocab,
        {**plain, **stacked, **single},
        _usual_count(architecture, {**plain, **stacked}),
    )


def _size(config: Mapping[str, Any], name: str) -> int | None:
    return _first(config, KEYS[name])


def _first(config: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    found = next((config[key] for key in keys if type(config.get(key)) is int), None)
    return found if found and 0 < found <= 10**9 else None


def _whole(config: Mapping[str, Any]) -> bool:
    return all(_size(config, name) for name in ("hidden", "layers", "heads", "vocab"))


def _partial(name: str | None, config: Mapping[str, Any]) -> Dims:
    heads, hidden, latent = _size(config, "heads"), _size(config, "hidden"), "kv_lora_rank" in config
    return Dims(
        name,
        hidden,
        _size(config, "layers"),
        heads,
        None if latent else _size(config, "kv_heads") or heads,
        None if latent else _size(config, "head_dim") or (hidden // heads if hidden and heads else None),
        _size(config, "intermediate"),
        _size(config, "vocab"),
    )


def _intermediate(architecture: Architecture) -> int:
    return architecture.intermediate or 4 * architecture.hidden


def _by_kind(shapes: Mapping[str, tuple[int, ...]] | None) -> dict[str, tuple[int, ...]]:
    """One of each kind: `model.layers.0.mlp.up_proj.weight` stands for all layers."""
    kinds: dict[str, tuple[int, ...]] = {}
    for name, shape in (shapes or {}).items():
        if len(shape) > 1:
            kinds.setdefault(".".join("*" if part.isdigit() else part for part in name.split(".")), shape)
    return kinds


GATED = ("internlm", "gemma", "granite", "olmo", "cohere", "mixtral", "qwen")
"""Types that have a gate even where the feed-forward is 4 x hidden, which else is the width of a plain one."""


def _usual_shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """For a family without a table: what most decoders have."""
    hidden, inner = architecture.hidden, _intermediate(architecture)
    query, keys = architecture.heads * architecture.head_dim, architecture.kv_heads * architecture.head_dim
    plain = inner == 4 * hidden and not architecture.model_type.startswith(GATED)
    gate = {} if plain else {"layers.*.mlp.gate.weight": (inner, hidden)}
    return {
        "embedding.weight": (architecture.vocab, hidden),
        "layers.*.attention.query.weight": (query, hidden),
        "layers.*.attention.key.weight": (keys, hidden),
        "layers.*.attention.value.weight": (keys, hidden),
        "layers.*.attention.output.weight": (hidden, query),
        **gate,
        "layers.*.mlp.up.weight": (inner, hidden),
        "layers.*.mlp.down.weight": (hidden, inner),
        **({} if architecture.tied else {"head.weight": (architecture.vocab, hidden)}),
    }


def _usual_count(architecture: Architecture, shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(prod(shape) * (architecture.layers if "*" in name else 1) for name, shape in shapes.items())
