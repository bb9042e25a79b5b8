"""The catalogue of cards that can be simulated: cards.json, and files that `core calibrate` writes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from core.spec.errors import InvalidSpec, NoSuchDevice

MIB = 2**20
PREFIX = "sim:"
CARDS_VARIABLE = "VRAMSCOPE_CARDS"
"""Environment variable with the folder of card files that `calibrate` wrote."""

CATALOGUE = Path(__file__).with_name("cards.json")

Known = Literal["measured", "reported", "assumed"]


@dataclass(frozen=True)
class Libraries:
    """Bytes that the driver and CUDA's libraries take on first use, and the context's beside another process."""

    context: int
    context_beside_others: int
    kernels: int
    cublas: int
    cudnn: int
    nccl: int


@dataclass(frozen=True)
class Card:
    """A GPU model. `memory_bytes`: the total that cudaMemGetInfo reports; how each figure is known stands beside it.

    The workspaces that cuBLAS and cuBLASLt take from PyTorch's pool, in bytes: None where they were not measured, and
    the rule of torch's source holds (core.simulate.gpu).
    """

    id: str
    name: str
    memory_bytes: int
    memory_known: Known
    capability: str
    sm_count: int
    libraries: Libraries
    context_known: Known
    cublas_workspace: int | None = None
    cublaslt_workspace: int | None = None

    @property
    def device_id(self) -> str:
        """What a RunSpec calls it: `sim:h200`."""
        return PREFIX + self.id

    @property
    def compute_capability(self) -> tuple[int, int]:
        major, _, minor = self.capability.partition(".")
        return int(major), int(minor)


def all_cards(folder: Path | None = None) -> tuple[Card, ...]:
    """The catalogue, then the cards that were calibrated into `folder`, whose measurements replace an entry of that id.

    Raises InvalidSpec for a file that is no card.
    """
    found = sorted(folder.glob("*.json")) if folder is not None and folder.is_dir() else []
    return _cards(tuple((path, path.stat().st_mtime_ns) for path in found))


@cache
def _cards(files: tuple[tuple[Path, int], ...]) -> tuple[Card, ...]:
    """Read once for each state of the files: a card that is calibrated again is a new one."""
    document = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    common = document["libraries_mib"]
    cards = {entry["id"]: _card(entry, common) for entry in document["cards"]}
    for path, _ in files:
        try:
            card = _card(json.loads(path.read_text(encoding="utf-8")), common)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidSpec(f"{path} does not describe a card ({error}); calibrate again, or remove it") from error
        cards[card.id] = card
    return tuple(cards.values())


def find_card(name: str, folder: Path | None = None) -> Card:
    """The card that `sim:<id>` or `<id>` names. Raises NoSuchDevice, with the nearest ones."""
    wanted = name.removeprefix(PREFIX).lower()
    cards = {card.id: card for card in all_cards(folder)}
    if wanted in cards:
        return cards[wanted]
    near = [one for one in cards if one.startswith(wanted)] or difflib.get_close_matches(wanted, cards, 3, 0.4)
    offered = ", ".join(PREFIX + one for one in near[:3] or list(cards)[:3])
    raise NoSuchDevice(f"there is no card {wanted!r} to simulate; did you mean {offered}?")


def _card(entry: Mapping[str, Any], common: Mapping[str, Any]) -> Card:
    own = {**common, **entry.get("libraries_mib", {})}
    context = float(entry["context_mib"])
    beside = min(context, float(own["context_beside_others"]))
    return Card(
        id=str(entry["id"]),
        name=str(entry["name"]),
        memory_bytes=round(float(entry["memory_mib"]) * MIB),
        memory_known=entry["memory"],
        capability=str(entry["capability"]),
        sm_count=int(entry["sm_count"]),
        libraries=Libraries(
            context=round(context * MIB),
            context_beside_others=round(beside * MIB),
            kernels=round(float(own["kernels"]) * MIB),
            cublas=round(float(own["cublas"]) * MIB),
            cudnn=round(float(own["cudnn"]) * MIB),
            nccl=round(float(own["nccl"]) * MIB),
        ),
        context_known=entry["context"],
        cublas_workspace=_bytes(entry, "cublas"),
        cublaslt_workspace=_bytes(entry, "cublaslt"),
    )


def _bytes(entry: Mapping[str, Any], workspace: str) -> int | None:
    size = entry.get("workspaces_mib", {}).get(workspace)
    return None if size is None else round(float(size) * MIB)
