"""Weights that may have been asked for: each matrix by name, fused, sharded, and copied in another data type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from core.oom.dims import Dims, dims_of
from core.oom.facts import Facts
from core.oom.known import known_configs
from core.oom.rounding import Window
from core.oom.tensor import WIDTH, Tensor


def weight_tensors(dims: Dims, facts: Facts, window: Window) -> Iterator[Tensor]:
    """Every weight of the model, whole or as one rank's part, whose size the request can stand for."""
    for name, shape in _matrices(dims):
        for ranks in dict.fromkeys((1, facts.tp_size or 1)):
            for dtype in _dtypes(facts):
                if len(shape) < 2 or shape[0] % ranks:
                    continue
                part = (shape[0] // ranks, *shape[1:])
                tensor = Tensor("weights", _named(name, ranks), _formula(dims, shape, ranks, dtype), part, dtype)
                if window.holds(tensor.bytes):
                    yield tensor
    if dims.parameters and dims.layers:  # ZeRO and FSDP keep them in one flat piece
        for ranks in dict.fromkeys((1, facts.tp_size or 1)):
            for dtype in _dtypes(facts):
                name = _named("all the weights in one piece", ranks)
                piece = Tensor(
                    "weights",
                    name,
                    f"parameters{f'/{ranks}' if ranks > 1 else ''}*{WIDTH[dtype]}",
                    (dims.parameters // ranks,),
                    dtype,
                )
                if window.holds(piece.bytes):
                    yield piece


def _matrices(dims: Dims) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The model's own, then what engines make of them: query, key and value in one, gate and up in one."""
    shapes = dims.shapes or {}
    yield from shapes.items()
    seen = set(shapes.values())
    if dims.hidden and dims.heads and dims.kv_heads and dims.head_dim:
        fused = ((dims.heads + 2 * dims.kv_heads) * dims.head_dim, dims.hidden)
        if fused not in seen:
            yield "query, key and value in one", fused
    gated = any("gate" in name for name in shapes)
    if dims.hidden and dims.intermediate and gated and (2 * dims.intermediate, dims.hidden) not in seen:
        yield "gate and up projection in one", (2 * dims.intermediate, dims.hidden)


def _dtypes(facts: Facts) -> tuple[str, ...]:
    """16 bit and 32 bit, the given one first. Which 16 bit it was cannot be told from a size."""
    narrow = facts.dtype if facts.dtype in ("bf16", "fp16") else "fp16"
    return ("fp32", narrow) if facts.dtype == "fp32" else (narrow, "fp32")


def _named(name: str, ranks: int) -> str:
    return f"{name} (1 of {ranks} parts)" if ranks > 1 else name


def _formula(dims: Dims, shape: tuple[int, ...], ranks: int, dtype: str) -> str:
    words = "*".join(sorted((_word(dims, size) for size in shape), key=_order))
    return f"{words}{f'/{ranks}' if ranks > 1 else ''}*{WIDTH[dtype]}"


def _order(word: str) -> int:
    return next((at for at, start in enumerate(("3", "2", "(", "vocab", "hidden")) if word.startswith(start)), 9)


def _word(dims: Dims, size: int) -> str:
    heads, keys, width = dims.heads or 0, dims.kv_heads or 0, dims.head_dim or 0
    words: dict[int | None, str] = {
        (heads + 2 * keys) * width: "(heads+2*kv_heads)*head_dim",
        keys * width: "kv_heads*head_dim",
        heads * width: "heads*head_dim",
        2 * (dims.intermediate or 0): "2*intermediate",
        3 * (dims.hidden or 0): "3*hidden",
        dims.intermediate: "intermediate",
        dims.vocab: "vocab",
        dims.hidden: "hidden",
    }
    return words.get(size, str(size))


@cache
def _public() -> dict[int, list[Tensor]]:
    """Weights of public models by their bytes; one for each shape, named after the models that have it."""
    owners: dict[tuple[tuple[int, ...], str], dict[str, None]] = {}
    first: dict[tuple[tuple[int, ...], str], Tensor] = {}
    everything = Window(0, 2**50, False)
    for model in known_configs():
        dims = dims_of(model, None)
        for tensor in weight_tensors(dims, Facts(), everything) if model != "tiny-llama" else ():
            if " in one" not in tensor.name and len(tensor.shape) > 1:
                key = (tuple(sorted(tensor.shape)), tensor.dtype)
                owners.setdefault(key, {})[model] = None
                first.setdefault(key, tensor)
    found: dict[int, list[Tensor]] = {}
    for key, tensor in first.items():
        models = list(owners[key])
        of = ", ".join(models[:4]) + (f" and {len(models) - 4} more" if len(models) > 4 else "")
        named = Tensor("weights", f"{tensor.name}, as in {of}", tensor.formula, key[0], tensor.dtype)
        found.setdefault(named.bytes, []).append(named)
    return found


def fingerprints(window: Window) -> list[Tensor]:
    """Weights of public models with exactly this many bytes, for a text that names no model: 86 MiB is a llama-7b's."""
    return [] if window.coarse else _public().get(window.high, [])
