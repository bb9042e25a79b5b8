"""What torch and transformers ask about a card, answered as if there were one. Undone when the trace is over."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed

_CUDA, _META, _DEVICE_TYPES = 1, 14, 21
"""c10::DeviceType: CPU 0, CUDA 1, …, Meta 14; the registry has a slot for each."""


def lend_device_guard() -> None:
    """Give the CUDA slot of c10's registry of device guards the one of Meta, which touches no device.

    In a build without CUDA the slot is empty, and operations that would switch devices fail. The registry is an
    exported array of pointers (c10/core/impl/DeviceGuardImplInterface.cpp). Does nothing where the slot is filled.

    Raises RuntimeError when this build of torch has no such registry.
    """
    folder = Path(torch.__file__).parent / "lib"
    library = next((folder / n for n in ("libc10.so", "libc10.dylib", "c10.dll") if (folder / n).exists()), None)
    if library is None:
        raise RuntimeError(f"no c10 library in {folder}; this build of torch cannot be simulated on")
    array = ctypes.c_void_p * _DEVICE_TYPES
    slots = array.in_dll(ctypes.CDLL(str(library)), "_ZN3c104impl26device_guard_impl_registryE")
    if not slots[_CUDA]:
        slots[_CUDA] = slots[_META]


class Patches:
    """Attributes that are set for a while."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name`. Does nothing where there is none: versions differ."""
        if hasattr(owner, name):
            self._saved.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)

    def undo(self) -> None:
        while self._saved:
            owner, name, value = self._saved.pop()
            setattr(owner, name, value)


def _fake_process_group(*_: Any, rank: int = 0, world_size: int = 1, **__: Any) -> None:
    """A group of this process alone, whose collectives move no data (torch's own, for tests of distributed code)."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    _real_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)


_real_process_group = torch.distributed.init_process_group


@contextlib.contextmanager
def pretend_card() -> Iterator[Patches]:
    """A process in which tensors on "cuda:0" can be made, if only without data."""
    import torch.cuda.amp.common as amp
    import transformers.utils.import_utils as transformers_utils

    lend_device_guard()
    patches = Patches()
    # tensors on the card are made without CUDA being initialised
    patches.set(torch.cuda, "_lazy_init", lambda: None)
    # transformers takes the branches for tracing, with other operations, for tensors without data
    patches.set(transformers_utils, "is_fake_tensor", lambda _: False)
    # else autocast turns itself off
    patches.set(amp, "amp_definitely_not_available", lambda: False)
    patches.set(torch.cuda, "is_bf16_supported", lambda *_, **__: True)
    patches.set(torch.distributed, "init_process_group", _fake_process_group)
    # torch.tensor(…, device="cuda") is made on the host and copied, so that its values are known
    lift = getattr(torch._C, "_set_only_lift_cpu_tensors", None)
    if lift is not None:
        lift(True)
    try:
        yield patches
    finally:
        if lift is not None:
            lift(False)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        patches.undo()
