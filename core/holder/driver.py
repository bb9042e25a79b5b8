"""The few calls of the CUDA driver that holding memory takes, through ctypes: importing torch would take seconds.

Source of names and types: cuda.h, CUDA Driver API. The `_v2` names are those that the header maps the plain ones to.
"""

from __future__ import annotations

import ctypes
from typing import Any

LIBRARY = "libcuda.so.1"


class DriverError(Exception):
    """A call that the driver refused, with its own name for the reason."""


class Driver:
    """The first visible card, with a context of this process on it."""

    def __init__(self, library: Any = None) -> None:
        """Raises DriverError when there is no driver or no card. `library` stands in for libcuda in tests."""
        try:
            self._library = library or ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise DriverError(f"no CUDA driver here ({error})") from error
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes, as `cudaMemGetInfo` shows them to every process."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> None:
        """Take `size` bytes until this process ends; they cannot be given back before. Raises DriverError."""
        self._call("cuMemAlloc_v2", ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size))

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'').decode() or f'error {code}'}")
