"""Who holds the card, from the figures of one error; and whether fragmentation can be the reason."""

from __future__ import annotations

from dataclasses import dataclass

from core.oom.error import OomError
from core.oom.facts import Facts
from core.oom.rounding import rounded

GIB = 2**30

CONTEXT = int(1.5 * GIB)
"""A CUDA context with kernels and NCCL takes 0.3 to 1.5 GiB outside PyTorch: less than this needs no explanation."""


@dataclass(frozen=True)
class Holders:
    """Bytes; None is unknown. They sum to `total` as far as they are known.

    `non_torch`: what this process holds beside PyTorch (context, NCCL, cuBLAS, a DeepSpeed workspace). Where the text
    does not tell this process from others, both are in `unaccounted`.
    """

    total: int | None = None
    free: int | None = None
    tensors: int | None = None
    cache: int | None = None
    non_torch: int | None = None
    other_processes: int | None = None
    unaccounted: int | None = None
    own_in_list: bool = False

    @property
    def reserved(self) -> int | None:
        return None if self.tensors is None else self.tensors + (self.cache or 0)

    def share(self, value: int | None) -> float:
        """`value` as a part of the card; 0 where either is unknown."""
        return 0.0 if not self.total or value is None else value / self.total

    def document(self) -> dict[str, int | None]:
        return {
            "total_bytes": self.total,
            "tensors_bytes": self.tensors,
            "cache_bytes": self.cache,
            "non_torch_bytes": self.non_torch,
            "other_processes_bytes": self.other_processes,
            "unaccounted_bytes": self.unaccounted,
            "free_bytes": self.free,
        }


def account(error: OomError, facts: Facts) -> Holders:
    """What the figures say; a figure that two others determine is computed."""
    total = error.total_bytes or (facts.capacity_bytes if error.backend != "cpu" else None)
    tensors, cache = error.allocated_bytes, error.reserved_unallocated_bytes
    if cache is None and error.reserved_bytes is not None and tensors is not None:
        cache = max(0, error.reserved_bytes - tensors)
    named = [other.bytes for other in error.other_processes or () if other.bytes is not None]
    held, own_in_list = sum(named) if named else None, False
    process = error.process_bytes
    torch = None if tensors is None else tensors + (cache or 0)
    if process is None and len(named) == 1 and torch is not None and _is_own(named[0], torch):
        process, held, own_in_list = named[0], None, True  # a container sees itself under its number on the host
    non_torch = max(0, process - torch) if process is not None and torch is not None else None
    unaccounted = None
    if total is not None and error.free_bytes is not None and error.backend not in ("deepspeed", "cpu"):
        known = process if process is not None else torch
        if known is not None:
            unaccounted = max(0, total - error.free_bytes - known - (held or 0))
    return Holders(total, error.free_bytes, tensors, cache, non_torch, held, unaccounted, own_in_list)


def cublas_workspace_bytes(setting: str = ":4096:2:16:8") -> int:
    """What CUBLAS_WORKSPACE_CONFIG asks for: pairs of KiB and count; the default is PyTorch's below Hopper, 8.125 MiB.

    Source: aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize.
    """
    figures = [int(part) for part in setting.split(":") if part]
    return sum(kib * count for kib, count in zip(figures[::2], figures[1::2], strict=True)) * 1024


def context_bytes(device_used: int, tensors: int) -> int:
    """What a process holds beside its tensors of `tensors` bytes in one block: the CUDA context and its kernels."""
    return device_used - rounded(tensors)


def _is_own(listed: int, torch: int) -> bool:
    return torch <= listed <= torch + 2 * CONTEXT


def fragmentation_possible(error: OomError, holders: Holders) -> bool | None:
    """Whether the request would fit if free and cached memory were in one piece; None where the figures are missing."""
    if error.requested_bytes is None or holders.free is None or holders.cache is None:
        return None
    return holders.free < error.requested_bytes <= holders.free + holders.cache


def refused_although_free(error: OomError) -> bool:
    """More was free than was asked for. Free is read after the failure, and printed to a hundredth."""
    asked, free = error.requested_bytes, error.free_bytes
    if asked is None or free is None or error.kind not in ("torch", "cuda_malloc_async"):
        return False
    return free >= asked + max(error.step_bytes, 2**21)


def repeated_bytes(value: int, step: int) -> int | None:
    """The number of one byte, eight times over, that `value` was printed from: flags or text read as a size."""
    for byte in range(1, 256):
        pattern = byte * 0x0101010101010101
        if abs(pattern - value) <= max(step, 1):
            return pattern
    return None
