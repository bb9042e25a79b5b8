"""Which devices this machine has, and which one a user means."""

from __future__ import annotations

import os
from collections.abc import Sequence
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
        there = session.devices()
        cards = visible(there, os.environ.get("CUDA_VISIBLE_DEVICES"))
        reason = None
        if not cards:
            reason = "the NVIDIA driver answers, but shows no card"
        if there and not cards:
            reason = (
                f"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES'][:80]!r} leaves none of {len(there)} cards"
            )
        return Devices((*cards, host_device()), reason, session.driver_version())
    finally:
        if nvml is None:
            session.close()


def visible(cards: Sequence[Device], wanted: str | None) -> list[Device]:
    """The cards that CUDA_VISIBLE_DEVICES lets this process use, in its order; all where it is not set.

    As CUDA reads it (CUDA C++ Programming Guide, "CUDA Environment Variables"): indices, or UUIDs that may be cut
    short; what comes after the first that is none, or is named twice, is left out. Indices are taken as NVML's, which
    are CUDA's with CUDA_DEVICE_ORDER=PCI_BUS_ID; each card keeps its own.
    """
    if wanted is None:
        return list(cards)
    chosen: list[Device] = []
    for name in map(str.strip, wanted.split(",")):
        is_uuid = name.startswith(("GPU-", "MIG-"))
        found = [card for card in cards if ((card.uuid or "").startswith(name) if is_uuid else str(card.index) == name)]
        if len(found) != 1 or found[0] in chosen:
            break
        chosen.append(found[0])
    return chosen


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
