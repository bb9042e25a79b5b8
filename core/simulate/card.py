"""The simulated card as a worker's device: what the worker's own code asks of one (core.worker.device)."""

from __future__ import annotations

from typing import Any

from core.simulate.stream import Stream
from core.spec.cards import Card


class SimulatedCard:
    """`cuda:0` to the job. It has no counters: those are worked out in the replay."""

    type = "cuda"
    name = "cuda:0"
    has_data = False

    def __init__(self, card: Card, stream: Stream) -> None:
        self._card = card
        self._stream = stream

    def start(self) -> None:
        pass  # the context is marked by whoever traces

    def counters(self) -> None:
        return None

    def synchronize(self) -> None:
        pass  # nothing is queued

    def empty_cache(self) -> None:
        self._stream.mark("empty_cache")

    def describe(self) -> dict[str, Any]:
        return {
            "name": self._card.name,
            "uuid": None,
            "total_bytes": self._card.memory_bytes,
            "capability": self._card.capability,
            "sm_count": self._card.sm_count,
        }


class _Host:
    """Where a model is built before it goes to the card: on the host, without data."""

    type = "cpu"
    name = "cpu"
    has_data = False


HOST: Any = _Host()
