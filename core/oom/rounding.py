"""Which sizes of a tensor a printed request can stand for.

CUDA, HIP and XPU print what is asked of the driver (c10/cuda/CUDACachingAllocator.cpp, get_allocation_size): 2 MiB for
a tensor up to 1 MiB, 20 MiB for one below 10 MiB, else the next multiple of 2 MiB. Others print the tensor itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.oom.error import OomError

MIB = 2**20
ROUNDED = {"cuda", "hip", "xpu", None}
NO_TENSOR = {"vllm_cache", "vllm_startup", "ollama_host", "xla", "onnxruntime_arena", "torch_th", "tensorrt_tactic"}
"""Kinds whose figure is a budget, or the sum of a whole program, or printed too coarsely."""

PAGE = 16 * 1024
"""Metal rounds buffers up to pages of 16 KiB."""


@dataclass(frozen=True)
class Window:
    """Tensors of more than `low` and at most `high` bytes; `asked` was printed. `coarse`: too wide to tell much."""

    low: int
    high: int
    coarse: bool
    asked: int = 0

    def holds(self, size: float) -> bool:
        return self.low < size <= self.high

    @property
    def to_the_byte(self) -> bool:
        return self.high - self.low <= 1

    @property
    def share(self) -> float:
        """Its width as a part of the request: how likely a size is in it by chance."""
        return (self.high - self.low) / self.high

    @property
    def exact(self) -> bool:
        return self.high - self.low <= PAGE


def rounded(size: int) -> int:
    """What the allocator asks of the driver for a tensor of `size` bytes."""
    if size <= MIB:
        return 2 * MIB
    if size < 10 * MIB:
        return 20 * MIB
    return -(-size // (2 * MIB)) * 2 * MIB


def window_of(error: OomError) -> Window | None:
    """None where the error names no size, or one that no tensor has."""
    asked, half = error.requested_bytes, error.step_bytes // 2 + (error.step_bytes > 0)
    if not asked or asked >= 2**50 or error.kind in NO_TENSOR:
        return None
    if error.backend in ROUNDED and error.kind == "torch":
        if asked == 2 * MIB:
            return Window(0, MIB, True, asked)
        if asked == 20 * MIB:
            return Window(MIB, 20 * MIB, True, asked)
        # a size in MiB is whole MiB, so printing it lost nothing
        lost = half if error.step_bytes > MIB else 0
        return Window(asked - lost - 2 * MIB, asked + lost, False, asked)
    slack = PAGE if error.backend in ("metal", "mps") else 1
    return Window(asked - half - slack, asked + half, False, asked)
