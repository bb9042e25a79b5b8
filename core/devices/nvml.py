"""NVIDIA cards through NVML (package nvidia-ml-py, module pynvml).

Every call may fail with any of NVML's error codes, so each figure is fetched on its own: one that fails is None and
says why, the others stand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import pynvml

from core.devices.device import Condition, Device, Reading
from core.spec.errors import NoSuchDevice

T = TypeVar("T")

LIST_EVERY_NS = 1_000_000_000
"""The list of processes is asked for when the card's memory in use has changed, and otherwise once a second.

A call for the list takes the driver 32 to 53 microseconds against 5 to 8 for the memory in use (measured on an H200),
and it slows the job down: at 100 Hz it was the larger part of what recording cost.
"""

LISTS_AFTER_CHANGE = 2
"""Looks that ask for the list after a change, should the driver's two figures not change at the same moment."""

TRIES = 8
"""Readings of the memory in use around the list of processes until the two belong to one moment. While a job
allocates, a reading before and a list after differed by up to 95 MiB (H200)."""


class NvmlUnavailable(NoSuchDevice):
    """There is no NVIDIA driver here, or it does not answer."""


class Nvml:
    """One initialised NVML session. `library` is pynvml, or a scripted stand-in for it in tests."""

    def __init__(self, library: Any = pynvml) -> None:
        """Raises NvmlUnavailable with the driver's reason."""
        self.library = library
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            raise NvmlUnavailable(f"no NVIDIA driver answers on this machine ({error})") from error

    def driver_version(self) -> str | None:
        return self._text(self.library.nvmlSystemGetDriverVersion)

    def devices(self) -> list[Device]:
        """The cards in NVML's order; a card that cannot be identified is left out."""
        found: list[Device] = []
        try:
            count = self.library.nvmlDeviceGetCount()
        except self.library.NVMLError:
            return found
        for index in range(count):
            try:
                handle = self.library.nvmlDeviceGetHandleByIndex(index)
                uuid = _decode(self.library.nvmlDeviceGetUUID(handle))
            except self.library.NVMLError:
                continue
            name = self._text(partial(self.library.nvmlDeviceGetName, handle)) or "NVIDIA GPU"
            found.append(Device(f"cuda:{uuid}", "cuda", name, self._total(handle), index))
        return found

    def meter(self, device: Device) -> NvmlMeter:
        """Raises NoSuchDevice when the card has gone since it was listed."""
        try:
            handle = self.library.nvmlDeviceGetHandleByUUID(device.uuid)
        except self.library.NVMLError as error:
            raise NoSuchDevice(f"{device.name} {device.uuid} does not answer any more ({error})") from error
        return NvmlMeter(self, device, handle)

    def close(self) -> None:
        try:
            self.library.nvmlShutdown()
        except self.library.NVMLError:
            pass  # the driver went away first; there is nothing left to close

    def _total(self, handle: Any) -> int | None:
        try:
            return int(self.library.nvmlDeviceGetMemoryInfo(handle).total)
        except self.library.NVMLError:
            return None

    def _text(self, call: Callable[[], Any]) -> str | None:
        try:
            return _decode(call())
        except self.library.NVMLError:
            return None


class NvmlMeter:
    """Reads one card. Memory info version 2 leaves the driver's own reserve out of `used`, version 1 does not."""

    def __init__(self, nvml: Nvml, device: Device, handle: Any, now: Callable[[], int] = time.monotonic_ns) -> None:
        self.device = device
        self._now = now
        self._used: int | None = None
        self._listed: dict[int, int | None] | None = None
        self._listed_ns = 0
        self._unsettled = 0
        self._unowned = 0  # bytes in use that belong to no process, when they were last known for sure
        self._library = nvml.library
        self._handle = handle
        self._driver = nvml.driver_version()
        self._version, self._reserved = self._memory_version()

    def _memory_version(self) -> tuple[int, int | None]:
        version_2 = getattr(self._library, "nvmlMemory_v2", None)
        if version_2 is not None:
            try:
                info = self._library.nvmlDeviceGetMemoryInfo(self._handle, version=version_2)
                return 2, int(info.reserved)
            except (self._library.NVMLError, TypeError, AttributeError):
                pass  # an old driver or an old binding: version 1 answers everywhere
        return 1, None

    def _memory(self) -> Any:
        if self._version == 2:
            return self._library.nvmlDeviceGetMemoryInfo(self._handle, version=self._library.nvmlMemory_v2)
        return self._library.nvmlDeviceGetMemoryInfo(self._handle)

    def read(self) -> Reading:
        missing: dict[str, str] = {}
        used = self._try("device_used", lambda: int(self._memory().used), missing)
        now = self._now()
        if used is None or used != self._used or self._listed is None or now - self._listed_ns > LIST_EVERY_NS:
            self._unsettled = LISTS_AFTER_CHANGE
        if self._unsettled:
            self._unsettled -= 1
            used = self._with_list(used, missing)
            self._used, self._listed_ns = used, now
        return Reading(used, self._listed, missing)

    def _with_list(self, used: int | None, missing: dict[str, str]) -> int | None:
        """Ask for the list of processes, and say what was in use at the same moment.

        Where the memory in use keeps changing, the list's moment lies between two readings of it, and so does what was
        in use then: as far as they allow, it is what the processes held and what belongs to none of them.
        """
        before = used
        for _ in range(TRIES):
            self._listed = self._try("processes", self._processes, missing)
            before, used = used, self._try("device_used", lambda: int(self._memory().used), missing)
            if used == before:
                break
        sizes = list((self._listed or {}).values())
        if used is None or before is None or not sizes or None in sizes:
            return used
        held = sum(size for size in sizes if size is not None)
        if used == before:
            self._unowned = used - held
        return min(max(held + self._unowned, min(before, used)), max(before, used))

    def condition(self) -> Condition:
        missing: dict[str, str] = {}
        sensor = getattr(self._library, "NVML_TEMPERATURE_GPU", 0)
        return Condition(
            self._try(
                "temperature_c", lambda: int(self._library.nvmlDeviceGetTemperature(self._handle, sensor)), missing
            ),
            self._try(
                "utilisation_percent",
                lambda: int(self._library.nvmlDeviceGetUtilizationRates(self._handle).gpu),
                missing,
            ),
        )

    def describe(self) -> Mapping[str, object]:
        return {
            "source": "NVML",
            "driver": self._driver,
            "memory_info_version": self._version,
            "driver_reserved_bytes": self._reserved,
        }

    def _processes(self) -> dict[int, int | None]:
        return {
            int(process.pid): None if process.usedGpuMemory is None else int(process.usedGpuMemory)
            for process in self._library.nvmlDeviceGetComputeRunningProcesses(self._handle)
        }

    def _try(self, what: str, call: Callable[[], T], missing: dict[str, str]) -> T | None:
        try:
            return call()
        except self._library.NVMLError as error:
            missing[what] = str(error)
            return None


def _decode(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text
