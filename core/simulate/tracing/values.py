"""Values of small tensors. Code that generates text asks for some: is there padding, is every row finished.

A tensor whose values are known carries them as a real CPU tensor, its shadow. An operation whose inputs all have a
shadow is executed on the shadows too, with the same code, so views of shadows share memory as their tensors do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._device import DeviceContext

MOST_INTEGERS = 1 << 23
"""Integers and booleans up to this many elements are followed: masks and token ids of 2,048 rows of 4,096 tokens. They
are real, 64 MiB each."""

LARGE = 1 << 20
"""Elements from which on a tensor that is made on the host is taken for weights, and is given no data."""

MOST_FLOATS = 4096
"""Floats up to this many elements: inverse frequencies, scores of beams. Hidden states are not followed."""

_aten = torch.ops.aten
CPU = torch.device("cpu")
_RANDOM = torch.Tag.nondeterministic_seeded
_NOT_ON_CPU = ("pin_memory", "non_blocking")


def shadow_of(tensor: Any) -> torch.Tensor | None:
    """The values of a tensor, None when they are not known. A real tensor is its own shadow."""
    if not isinstance(tensor, FakeTensor):
        return tensor if isinstance(tensor, torch.Tensor) and tensor.numel() <= MOST_INTEGERS else None
    shadow: torch.Tensor | None = tensor._shadow
    if shadow is not None and getattr(shadow.untyped_storage(), "unknown", False):
        return None
    return shadow


def small(tensor: torch.Tensor) -> bool:
    floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return tensor.numel() <= (MOST_FLOATS if floating else MOST_INTEGERS)


def follow(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any, inputs: Sequence[Any]) -> None:
    """Give the outputs of an operation their shadows, when the inputs have them; else forget what it wrote into."""
    known = _RANDOM not in func.tags and all(shadow_of(tensor) is not None for tensor in inputs)
    outputs = out if isinstance(out, tuple | list) else (out,)
    if known and all(small(one) for one in outputs if isinstance(one, torch.Tensor)):
        try:
            real = func(*map(_real, args), **{k: _real(v) for k, v in kwargs.items() if k not in _NOT_ON_CPU})
        except (RuntimeError, NotImplementedError, IndexError, TypeError):
            pass  # no CPU kernel for it: the values are not known, which is found out when they are asked for
        else:
            _attach(out, real)
            return
    _forget(func, args)


def _real(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return shadow_of(value)
    if isinstance(value, torch.device):
        return CPU
    if isinstance(value, list | tuple):
        return type(value)(_real(one) for one in value)
    return value


def _attach(out: Any, real: Any) -> None:
    if isinstance(out, FakeTensor) and isinstance(real, torch.Tensor):
        if real.shape == out.shape:
            out._shadow = real
    elif isinstance(out, tuple | list) and isinstance(real, tuple | list):
        for one, value in zip(out, real, strict=False):
            _attach(one, value)


def _forget(func: Any, args: Sequence[Any]) -> None:
    """What is not known was written into a tensor: all views of its storage become unknown with it."""
    if not func._schema.is_mutable:
        return
    for value, argument in zip(args, func._schema.arguments, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, FakeTensor):
            shadow = value._shadow
            if shadow is not None:
                shadow.untyped_storage().unknown = True  # a mark of ours


TOKEN = 5
"""Any id but the padding token: which one does not change what is allocated."""


def made_up(func: Any, out: Any) -> None:
    """Values for what generation picks from logits nobody has: a token for each row, or ranks with falling scores.

    Every run generates up to its number of new tokens (there is no end token), so which ones they are changes nothing.
    """
    outputs = out if isinstance(out, tuple | list) else (out,)
    for one in outputs:
        if not isinstance(one, FakeTensor) or one.numel() > MOST_INTEGERS:
            continue
        shape = tuple(one.shape)
        with DeviceContext(CPU):
            if func is not _aten.topk.default:
                one._shadow = torch.full(shape, TOKEN, dtype=one.dtype)
                continue
            rank = torch.arange(shape[-1] if shape else 1)
            values = -1.0 - rank if one.dtype.is_floating_point else rank
            one._shadow = values.to(one.dtype).expand(shape).clone()


PICKS = frozenset({_aten.argmax.default, _aten.multinomial.default, _aten.topk.default})
"""How generation picks tokens."""
