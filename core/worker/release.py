"""Giving memory back, so that the end of a trace shows what the job alone held."""

from __future__ import annotations

import ctypes
import gc
import sys

from core.worker.device import Device


def release_memory(device: Device) -> None:
    """Free what nothing refers to any more: cycles, PyTorch's cached blocks, and what the C library kept for reuse."""
    gc.collect()
    device.empty_cache()
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).malloc_trim(0)
        except (OSError, AttributeError):
            pass  # another C library than glibc
