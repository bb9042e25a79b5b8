"""What counts as out of memory, how much was asked for, and what is one in disguise. Texts are as printed; no torch."""

from __future__ import annotations

import errno
from typing import NoReturn

import pytest

from core.worker.errors import MESSAGE_LIMIT, Refused, describe, is_out_of_memory, requested_bytes

CUDA = (
    "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of 139.80 GiB of which 293.56 MiB is free. "
    "Process 1184 has 92.26 GiB memory in use. Including non-PyTorch memory, this process has 47.24 GiB memory in use."
)
HOST = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "256000000000000 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (CUDA.format("642.00 MiB"), 642 * 2**20),
        (CUDA.format("2.00 MiB"), 2 * 2**20),
        (CUDA.format("1024.00 MiB"), 2**30),
        (CUDA.format("2.34 GiB"), round(2.34 * 2**30)),
        (CUDA.format("512 bytes"), 512),
        (CUDA.format("17179869184.00 GiB"), None),  # 2^64: not known
        (CUDA.format("more than 1EB memory"), None),
        (HOST, 256_000_000_000_000),
        ("CUDA error: out of memory", None),
    ],
)
def test_requested_bytes(message: str, size: int | None) -> None:
    assert requested_bytes(message) == size
    assert is_out_of_memory(RuntimeError(message))


@pytest.mark.parametrize(
    ("error", "so"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (OSError(errno.ENOENT, "out of memory.safetensors"), False),
        (ValueError("out of memory"), False),
        (RuntimeError("expected all tensors on one device"), False),
    ],
)
def test_is_out_of_memory(error: Exception, so: bool) -> None:
    assert is_out_of_memory(error) is so


@pytest.mark.parametrize(
    ("message", "library"),
    [
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "cuBLAS"),
        ("Workspace can't be allocated, no enough memory.", "DeepSpeed"),
        ("Workspace is null.", "DeepSpeed"),
    ],
)
def test_out_of_memory_in_disguise(message: str, library: str) -> None:
    error = describe(RuntimeError(message), "decode 3")
    assert (error["kind"], error["phase"], error["disguised_oom"]) == ("exception", "decode 3", True)
    assert library in error["reason"]
    assert error["requested_bytes"] is None


def test_the_out_of_memory_error_behind_another_is_the_one_described() -> None:
    def fail() -> NoReturn:
        raise RuntimeError(CUDA.format("642.00 MiB"))

    try:
        try:
            fail()
        except RuntimeError as cause:
            raise Refused("the weights could not be read") from cause
    except Refused as error:
        document = describe(error, "load")
    assert (document["kind"], document["type"]) == ("oom", "RuntimeError")
    assert document["requested_bytes"] == 642 * 2**20
    assert document["traceback"][-1].startswith("test_errors.py:")
    assert document["traceback"][-1].endswith(":fail")


def test_a_message_is_cut_at_its_limit() -> None:
    assert len(describe(RuntimeError("x" * 20_000), None)["message"]) == MESSAGE_LIMIT
