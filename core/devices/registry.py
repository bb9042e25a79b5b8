"""Which devices this machine has, and which one a user means."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from core.devices.device import Device, Meter
from core.devices.host import HostMeter, host_device
from core.devices.nvml import Nvml, NvmlUnavailable
from core.spec.cards import CARDS_VARIABLE, PREFIX, find_card
from core.spec.errors import NoSuchDevice

AUTO = "auto"


@dataclass(frozen=True)
class Devices:
    """The devices found, and why there are no NVIDIA cards among them where there are none."""

    found: tuple[Device, ...]
    no_cuda_reason: str | None = None
    driver: str | None = None
    cuda: tuple[Device, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cuda", tuple(device for device in self.found if device.kind == "cuda"))

    def find(self, name: str) -> Device:
        """The device that `name` means: auto, cpu, cuda, cuda:<index>, cuda:<uuid> or sim:<card>.

        Raises NoSuchDevice, saying what there is.
        """
        if name.startswith(PREFIX):
            return simulated_device(name)
        if name == AUTO:
            return self.cuda[0] if self.cuda else self.found[-1]
        if name == "cpu":
            return self.found[-1]
        wanted = name.removeprefix("cuda").removeprefix(":") or "0"
        if not self.cuda:
            raise NoSuchDevice(f"device {name}: {self.no_cuda_reason}; use --device cpu")
        for device in self.cuda:
            if wanted in (str(device.index), device.uuid):
                return device
        there = ", ".join(f"cuda:{device.index} ({device.name})" for device in self.cuda)
        raise NoSuchDevice(f"device {name} does not exist here; there is {there} and cpu")


def list_devices(nvml: Nvml | None = None) -> Devices:
    """The cards in NVML's order, then the CPU. Takes a few milliseconds; nothing is cached."""
    try:
        session = nvml or Nvml()
    except NvmlUnavailable as error:
        return Devices((host_device(),), str(error))
    try:
        cards = session.devices()
        reason = None if cards else "the NVIDIA driver answers, but shows no card"
        return Devices((*cards, host_device()), reason, session.driver_version())
    finally:
        if nvml is None:
            session.close()


def simulated_device(name: str) -> Device:
    """A card of the catalogue, or one that was calibrated here. Raises NoSuchDevice, offering the nearest."""
    card = find_card(name, calibrated_cards())
    return Device(card.device_id, "simulated", card.name, card.memory_bytes)


def calibrated_cards() -> Path | None:
    """The folder of cards that were measured on this machine, where there is one."""
    folder = os.environ.get(CARDS_VARIABLE)
    return Path(folder) if folder else None


def open_meter(device: Device, nvml: Nvml | None = None) -> Meter:
    """A meter for `device`. Raises NoSuchDevice when the card or the driver has gone."""
    if device.kind == "cpu":
        return HostMeter()
    return (nvml or Nvml()).meter(device)
