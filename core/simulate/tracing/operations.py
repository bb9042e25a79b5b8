"""Operations that need more than the metadata of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from core.simulate.tracing.hidden import multinomial
from core.simulate.tracing.values import LARGE, made_up, shadow_of

if TYPE_CHECKING:
    from core.simulate.tracing.ghosts import Ghosts
    from core.simulate.tracing.mode import CardMode

_aten = torch.ops.aten
_COMPOSITE: dict[int, bool] = {}


def is_composite(func: Any) -> bool:
    """Whether torch executes it as other operations. Autograd takes such a one apart, inference_mode does not."""
    known = _COMPOSITE.get(id(func))
    if known is None:
        known = _COMPOSITE[id(func)] = bool(
            torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), torch._C.DispatchKey.CompositeImplicitAutograd)
        )
    return known


def on_card(kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    return device is not None and device.type == "cuda"


_FACTORIES = frozenset(
    id(func)
    for func in (
        _aten.empty.memory_format,
        _aten.empty_strided.default,
        _aten.zeros.default,
        _aten.ones.default,
        _aten.full.default,
        _aten.rand.default,
        _aten.randn.default,
    )
)


def makes_large(func: Any, args: Sequence[Any]) -> bool:
    """Whether it would make a tensor on the host that is too large to be real: the weights of a model."""
    return id(func) in _FACTORIES and prod(args[0]) > LARGE


def from_values(
    ghosts: Ghosts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], inputs: Sequence[FakeTensor]
) -> Any:
    """The outputs of an operation whose sizes depend on values, where those are known; else None."""
    shadows = [shadow_of(tensor) for tensor in inputs]
    if not shadows or any(shadow is None for shadow in shadows):
        return None
    device = next((tensor.fake_device for tensor in inputs if tensor.fake_device.type == "cuda"), inputs[0].fake_device)

    def real(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(real, value))
        return shadow_of(value) if isinstance(value, torch.Tensor) else value

    out = func(*map(real, args), **kwargs)

    def ghost(value: Any) -> Any:
        return ghosts.of_real(value, device) if isinstance(value, torch.Tensor) else value

    return type(out)(map(ghost, out)) if isinstance(out, list | tuple) else ghost(out)


def _read(mode: CardMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A value that Python code asks for: of `.item()`, `bool(…)`, `if tensor:`."""
    shadow = shadow_of(args[0])
    if shadow is None:
        raise mode.not_simulated(func, "reads a value")
    return shadow.item()


def _equal(mode: CardMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    first, second = shadow_of(args[0]), shadow_of(args[1])
    if first is None or second is None:
        raise mode.not_simulated(func, "compares values")
    return torch.equal(first, second)


def _multinomial(mode: CardMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if args[0].device.type != "cuda":
        return NotImplemented
    with mode:
        tokens = multinomial(*args, **kwargs)
    if tokens is not NotImplemented:
        made_up(func, tokens)
    return tokens


def _index(mode: CardMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """x[mask]: with a mask that is known, an index by the positions that it selects."""
    indices = args[1]
    if not any(isinstance(one, torch.Tensor) and one.dtype in (torch.bool, torch.uint8) for one in indices):
        return NotImplemented
    positions: list[Any] = []
    for one in indices:
        if isinstance(one, torch.Tensor) and one.dtype in (torch.bool, torch.uint8):
            if shadow_of(one) is None:
                raise mode.not_simulated(func, "selects by a mask")
            with mode:
                positions += torch.nonzero(one).unbind(1)
        else:
            positions.append(one)
    with mode:
        return func(args[0], positions, *args[2:], **kwargs)


Special = Callable[["CardMode", Any, Sequence[Any], dict[str, Any]], Any]
SPECIAL: dict[int, Special] = {
    id(_aten._local_scalar_dense.default): _read,
    id(_aten.equal.default): _equal,
    id(_aten.multinomial.default): _multinomial,
    id(_aten.index.Tensor): _index,
    id(_aten.index_put_.default): _index,
}
