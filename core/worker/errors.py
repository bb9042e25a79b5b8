"""How a job failed: an out-of-memory error is a result of its own; everything else says what it was.

Imported before torch, so torch's error types are looked up where torch has been imported already.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback
from pathlib import Path
from typing import Any

MESSAGE_LIMIT = 8192
FRAME_LIMIT = 100

_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_CUDA_REQUEST = re.compile(r"[Tt]ried to allocate (\d+(?:\.\d+)?) (bytes|KiB|MiB|GiB|TiB)")
_HOST_REQUEST = re.compile(r"you tried to allocate (\d+) bytes")
_UNKNOWN_FROM = 2**63  # torch prints 2^64 bytes, "17179869184.00 GiB", where it does not know a size

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")

DISGUISES = (
    ("CUBLAS_STATUS_ALLOC_FAILED", "cuBLAS could not get memory from the driver for its handle or workspace"),
    ("CUBLAS_STATUS_NOT_INITIALIZED", "cuBLAS could not create its handle, most often for want of memory"),
    ("Failed to create cublas handle", "cuBLAS could not create its handle, most often for want of memory"),
    ("CUDNN_STATUS_ALLOC_FAILED", "cuDNN could not get memory from the driver"),
    ("Workspace can't be allocated", "DeepSpeed found less free memory than its smallest workspace needs"),
    ("Workspace is null", "the driver refused the one allocation that DeepSpeed makes for its workspace"),
)
"""Libraries that take memory beside PyTorch report its lack in their own words, and not as an out-of-memory error."""


class Refused(Exception):
    """The worker cannot execute this description; the message says why and what to change."""


def requested_bytes(message: str) -> int | None:
    """How much the failed allocation asked for, as far as the message says; printed to two decimals by torch."""
    host = _HOST_REQUEST.search(message)
    if host:
        return int(host.group(1))
    cuda = _CUDA_REQUEST.search(message)
    if not cuda:
        return None
    size = round(float(cuda.group(1)) * _UNITS[cuda.group(2)])
    return size if size < _UNKNOWN_FROM else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that the device or the host has no memory left."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    torch = sys.modules.get("torch")
    kinds = [getattr(torch, "OutOfMemoryError", None)]  # torch 2.5 and later
    kinds.append(getattr(getattr(torch, "cuda", None), "OutOfMemoryError", None))
    if any(isinstance(kind, type) and isinstance(error, kind) for kind in kinds):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(text in message for text in _OUT_OF_MEMORY)


def describe(error: BaseException, phase: str | None) -> dict[str, Any]:
    """The `error` of result.json. kind is `oom` or `exception`.

    An out-of-memory error that another error was raised from is the one described. `disguised_oom` and `reason` are
    there where a library ran out of memory and said something else.
    """
    shown: BaseException | None = error
    while shown is not None and not is_out_of_memory(shown):
        shown = shown.__cause__
    kind, shown = ("oom", shown) if shown is not None else ("exception", error)
    message = str(shown)
    document: dict[str, Any] = {
        "kind": kind,
        "type": type(shown).__name__,
        "message": message[:MESSAGE_LIMIT],
        "requested_bytes": requested_bytes(message) if kind == "oom" else None,
        "phase": phase,
        "traceback": frames(shown),
    }
    if kind == "exception":
        reason = next((reason for text, reason in DISGUISES if text in message), None)
        if reason:
            document.update(disguised_oom=True, reason=reason)
    return document


def frames(error: BaseException) -> list[str]:
    """The call stack, outermost first, as `file:line:function` with the file's name only."""
    stack = traceback.extract_tb(error.__traceback__)[-FRAME_LIMIT:]
    return [f"{Path(frame.filename).name}:{frame.lineno}:{frame.name}" for frame in stack]
