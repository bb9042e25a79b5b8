"""A scripted stand-in for pynvml: cards, processes, and the error of each call are set by the test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class FakeNvmlError(Exception):
    """NVML's error with a code, as pynvml raises it."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML error {code}")
        self.value = code


class FakeCard:
    """One card: figures in bytes; `processes` maps pid to bytes or None."""

    def __init__(self, uuid: str, total: int = 48 * 2**30, used: int = 0, reserved: int = 600 * 2**20) -> None:
        self.uuid = uuid
        self.total = total
        self.used = used
        self.reserved = reserved
        self.processes: dict[int, int | None] = {}


class FakeNvml:
    """The part of pynvml that the product calls. `fail` maps a function's name to the error code it raises."""

    NVMLError = FakeNvmlError
    nvmlMemory_v2 = 0x02000028  # noqa: N815  # pynvml's own name
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *cards: FakeCard) -> None:
        self.cards = list(cards)
        self.fail: dict[str, int] = {}
        self.lost: set[str] = set()  # UUIDs of cards that have fallen off the bus: every call about them is refused
        self.has_v2 = True

    def _called(self, name: str, card: FakeCard | None = None) -> None:
        if name in self.fail:
            raise FakeNvmlError(self.fail[name])
        if card is not None and card.uuid in self.lost:
            raise FakeNvmlError(15)  # NVML_ERROR_GPU_IS_LOST

    def nvmlInit(self) -> None:  # noqa: N802
        self._called("nvmlInit")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self._called("nvmlShutdown")

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        self._called("nvmlSystemGetDriverVersion")
        return "580.159"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._called("nvmlDeviceGetCount")
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:  # noqa: N802
        self._called("nvmlDeviceGetHandleByIndex")
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeCard:  # noqa: N802
        self._called("nvmlDeviceGetHandleByUUID")
        for card in self.cards:
            if card.uuid == uuid:
                return card
        raise FakeNvmlError(6)

    def nvmlDeviceGetUUID(self, card: FakeCard) -> str:  # noqa: N802
        self._called("nvmlDeviceGetUUID", card)
        return card.uuid

    def nvmlDeviceGetName(self, card: FakeCard) -> bytes:  # noqa: N802
        self._called("nvmlDeviceGetName", card)
        return b"NVIDIA RTX A6000"

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard, version: int | None = None) -> Any:  # noqa: N802
        self._called("nvmlDeviceGetMemoryInfo", card)
        if version is None:
            return SimpleNamespace(total=card.total, used=card.used + card.reserved)
        if not self.has_v2:
            raise FakeNvmlError(25)
        return SimpleNamespace(total=card.total, used=card.used, reserved=card.reserved)

    def nvmlDeviceGetComputeRunningProcesses(self, card: FakeCard) -> list[Any]:  # noqa: N802
        self._called("nvmlDeviceGetComputeRunningProcesses", card)
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in card.processes.items()]

    def nvmlDeviceGetTemperature(self, card: FakeCard, sensor: int) -> int:  # noqa: N802
        self._called("nvmlDeviceGetTemperature", card)
        return 36

    def nvmlDeviceGetUtilizationRates(self, card: FakeCard) -> Any:  # noqa: N802
        self._called("nvmlDeviceGetUtilizationRates", card)
        return SimpleNamespace(gpu=7, memory=3)
