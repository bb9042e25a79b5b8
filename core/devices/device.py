"""What a device is, and what one look at it says. Plain data, no library behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

DeviceKind = Literal["cuda", "cpu", "simulated"]


@dataclass(frozen=True)
class Device:
    """A place where a run can execute.

    `id` is what a stored RunSpec carries: `cpu`, `cuda:<uuid>` (NVML's order of cards is not CUDA's), or `sim:<card>`.
    """

    id: str
    kind: DeviceKind
    name: str
    total_bytes: int | None
    index: int | None = None

    @property
    def uuid(self) -> str | None:
        return self.id.removeprefix("cuda:") if self.kind == "cuda" else None


@dataclass(frozen=True)
class Reading:
    """Memory of a device at one moment, in bytes; None where the driver did not say, with the reason in `missing`.

    `processes` maps each process on the card to its bytes (None: on the card, size not reported).
    """

    device_used: int | None = None
    processes: Mapping[int, int | None] | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Condition:
    """What Home shows beside the memory; None where the driver did not say."""

    temperature_c: int | None = None
    utilisation_percent: int | None = None


class Meter(Protocol):
    """Reads one device. Implementations: `NvmlMeter`, `HostMeter`."""

    device: Device

    def read(self) -> Reading:
        """The memory in use now. Never raises for a driver's refusal: that is a None with its reason."""
        ...

    def condition(self) -> Condition:
        """Temperature and utilisation now."""
        ...

    def describe(self) -> Mapping[str, object]:
        """How the figures are got, for sampler.json."""
        ...
