"""The processes of a run, and what they hold in memory."""

from __future__ import annotations

import psutil

from core.devices.process import same_process

CHILDREN_EVERY_NS = 1_000_000_000
"""Looking for children walks every process of the machine (milliseconds), so it is done once a second."""


class ProcessTree:
    """A worker and its descendants, found again once a second."""

    def __init__(self, pid: int, known: str | None = None) -> None:
        """`known`: the worker's identity when it was started (core.devices.process), by which a reused pid is told."""
        root = same_process(pid, known)
        self._members: list[psutil.Process] = [root] if root else []
        self._looked_ns = 0

    @property
    def pids(self) -> set[int]:
        return {process.pid for process in self._members}

    def alive(self) -> bool:
        """Whether the worker itself still runs; a zombie that waits for its parent does not."""
        if not self._members:
            return False
        try:
            return self._members[0].status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def find_children(self, now_ns: int) -> None:
        """Look for descendants now."""
        self._looked_ns = now_ns
        try:
            self._members[1:] = self._members[0].children(recursive=True) if self._members else []
        except psutil.Error:
            pass  # the worker is ending; the members known so far are still summed

    def resident_bytes(self, now_ns: int) -> int:
        """Sum of the resident sets of the tree at `now_ns`; 0 when no process of it is left."""
        if now_ns - self._looked_ns > CHILDREN_EVERY_NS:
            self.find_children(now_ns)
        total = 0
        for process in self._members:
            try:
                total += process.memory_info().rss
            except psutil.Error:
                continue
        return total
