"""Which device takes how many runs at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping


class Leases:
    """A GPU takes one run, the CPU `cpu_slots`, simulated cards together as many as the machine has cores."""

    def __init__(self, cpu_slots: int = 1) -> None:
        self._taken: Counter[str] = Counter()
        self._slots: Mapping[str, int] = {"cpu": max(1, cpu_slots), "sim": os.cpu_count() or 1}

    @staticmethod
    def _place(device_id: str) -> str:
        return "sim" if device_id.startswith("sim:") else device_id

    def has_room(self, device_id: str) -> bool:
        place = self._place(device_id)
        return self._taken[place] < self._slots.get(place, 1)

    def take(self, device_id: str) -> bool:
        """Whether there was a free slot; it is taken then."""
        if not self.has_room(device_id):
            return False
        self._taken[self._place(device_id)] += 1
        return True

    def hold(self, device_id: str) -> None:
        """Take a slot that a run adopted after a restart has already."""
        self._taken[self._place(device_id)] += 1

    def free(self, device_id: str) -> None:
        self._taken[self._place(device_id)] -= 1
