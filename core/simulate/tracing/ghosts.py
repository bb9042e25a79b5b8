"""Tensors without data: made quickly, told apart by their metadata, and watched until their storage dies.

They are torch's FakeTensors: a tensor on the meta device that says it is on another one. FakeTensor's own constructor
takes 25 µs; copying the attributes of one that it made takes 5.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

Ident = tuple[str, int]
"""Two tensors with the same ident have the same shape, strides, dtype, device and offset."""

# An attribute that every FakeTensor has is read in a third of the time that getattr with a default takes.
FakeTensor._ident = None
FakeTensor._shadow = None


class Ghosts:
    """Makes FakeTensors of one mode, and numbers their metadata."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._idents: dict[Any, Ident] = {}
        self._attributes: dict[torch.device, dict[str, Any]] = {}

    def new(self, shape: Any, stride: Any, dtype: torch.dtype, device: torch.device, ident: Ident | None) -> FakeTensor:
        """A tensor with a storage of its own."""
        return self._dress(torch.empty_strided(shape, stride, dtype=dtype, device="meta"), device, ident)

    def view(
        self, of: FakeTensor, shape: Any, stride: Any, dtype: torch.dtype, offset: int, ident: Ident
    ) -> FakeTensor:
        """A tensor that shares the storage of `of`."""
        if torch.is_inference_mode_enabled() and not of.is_inference():
            # a view of a tensor from outside inference_mode is none of its own either
            with torch.inference_mode(False):
                return self._view(of, shape, stride, dtype, offset, ident)
        return self._view(of, shape, stride, dtype, offset, ident)

    def _view(
        self, of: FakeTensor, shape: Any, stride: Any, dtype: torch.dtype, offset: int, ident: Ident
    ) -> FakeTensor:
        storage = of.untyped_storage()
        # set_ of a storage that belongs to a FakeTensor would be dispatched to its mode
        with torch._C._DisableTorchDispatch():
            bare = torch.empty(0, dtype=dtype, device="meta")
            bare.set_(storage, offset, shape, stride)
        return self._dress(bare, of.fake_device, ident)

    def of_real(self, tensor: torch.Tensor, device: torch.device | None = None) -> FakeTensor:
        """A CPU tensor as a FakeTensor that carries it as its values, on `device` or where it is."""
        bare = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")
        fake = self._dress(bare, device or tensor.device, None)
        fake._shadow = tensor
        return fake

    def ident(self, tensor: FakeTensor) -> Ident:
        key = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.fake_device, tensor.storage_offset())
        found = self._idents.get(key)
        if found is None:
            found = self._idents[key] = ("tensor", len(self._idents))
        tensor._ident = found
        return found

    def _dress(self, bare: torch.Tensor, device: torch.device, ident: Ident | None) -> FakeTensor:
        made = torch.Tensor._make_subclass(
            FakeTensor, bare, False, dispatch_device=True, device_for_backend_keys=device
        )
        attributes = made.__dict__
        attributes.update(self._attributes.get(device) or self._learn(device))
        attributes["_ident"] = ident
        return made

    def _learn(self, device: torch.device) -> dict[str, Any]:
        """What FakeTensor's constructor sets, which differs between versions of torch."""
        sample = FakeTensor(self._mode, torch.empty(0, device="meta"), device)
        self._attributes[device] = dict(sample.__dict__)
        return self._attributes[device]


class _Watch(weakref.ref[torch.UntypedStorage]):
    """A reference that knows which allocation it stands for."""

    __slots__ = ("key", "number")
    key: int
    number: int


class Storages:
    """Storages on the card that are alive, and the number of the allocation of each.

    `freed` is called with ~number when a storage dies: what a stream's events hold for the free.
    """

    def __init__(self, freed: Callable[[int], None]) -> None:
        self._freed = freed
        self._watches: dict[int, _Watch] = {}  # by the address of torch's StorageImpl

    def watch(self, storage: torch.UntypedStorage, number: int) -> None:
        watch = _Watch(storage, self._died)
        watch.key = storage._cdata
        watch.number = number
        self._watches[watch.key] = watch

    def number_of(self, storage: torch.UntypedStorage) -> int | None:
        """The allocation that a storage belongs to; None when it is not on the card."""
        watch = self._watches.get(storage._cdata)
        return None if watch is None else watch.number

    def _died(self, watch: _Watch) -> None:
        del self._watches[watch.key]
        self._freed(~watch.number)
