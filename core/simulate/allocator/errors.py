"""Running out of memory, in torch's words."""

from __future__ import annotations

from core.simulate.allocator.sizes import MIB

_ADVICE = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid"
    " fragmentation.  See documentation for Memory Management "
    " (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


class OutOfMemory(Exception):
    """The pool could not grow. `requested` is what the tensor needs, `segment` what the driver was asked for."""

    def __init__(self, requested: int, segment: int, message: str, free: int) -> None:
        super().__init__(message)
        self.requested = requested
        self.segment = segment
        self.free = free


def format_size(size: int) -> str:
    """As `format_size` in c10/util prints it: the unit changes above 1,024 of the one below, with two decimals."""
    if size <= 1024:
        return f"{size} bytes"
    if size <= MIB:
        return f"{size / 2**10:.2f} KiB"
    if size <= 2**30:
        return f"{size / MIB:.2f} MiB"
    return f"{size / 2**30:.2f} GiB"


def out_of_memory_message(
    *, segment: int, total: int, free: int, process: int, allocated: int, reserved: int, allowed: int | None
) -> str:
    """The text of torch.OutOfMemoryError (`malloc` in CUDACachingAllocator.cpp of torch 2.11); all figures in bytes.

    `process` is all that this process holds on the card, `allowed` what a memory fraction lets the pool have.
    """
    limit = f"{format_size(allowed)} allowed; " if allowed is not None else ""
    return (
        f"CUDA out of memory. Tried to allocate {format_size(segment)}. GPU 0 has a total capacity of "
        f"{format_size(total)} of which {format_size(free)} is free. Including non-PyTorch memory, this process has "
        f"{format_size(process)} memory in use. {limit}Of the allocated memory {format_size(allocated)} is allocated "
        f"by PyTorch, and {format_size(reserved - allocated)} is reserved by PyTorch but unallocated.{_ADVICE}"
    )
