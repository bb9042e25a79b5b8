"""What the worker was doing when: one row at the start of a phase, one at its end, each flushed at once.

Imported before torch, so that importing torch is itself a recorded phase.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.runfolder.jsonio import JsonLines


@dataclass(frozen=True)
class MemoryCounters:
    """torch's own counters at one instant, in bytes. The peaks are those since the process began."""

    allocated: int
    reserved: int
    peak_allocated: int
    peak_reserved: int


def no_counters() -> MemoryCounters | None:
    """Before the device is known, and on the CPU, where torch counts nothing."""
    return None


@dataclass
class _Open:
    name: str
    index: int
    steps: int
    t_start: int
    step_start: int
    at_start: MemoryCounters | None


class PhaseRecorder:
    """Writes phases.jsonl. At most one phase is open at a time.

    counters: reads torch's counters; set it as soon as the device is known.
    step: forward passes that are complete, the position on the progress axis.
    """

    def __init__(self, path: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.counters: Callable[[], MemoryCounters | None] = no_counters
        self.step = 0
        self._lines = JsonLines(path)
        self._clock = clock
        self._opened: Counter[str] = Counter()
        self._open: _Open | None = None
        self._last: str | None = None

    @property
    def last(self) -> str | None:
        """The phase that was opened last, as it is shown: `load`, `decode 12`."""
        return self._last

    @property
    def lost(self) -> int:
        """Rows that the disk refused."""
        return self._lines.lost

    @contextmanager
    def phase(self, name: str, steps: int = 0) -> Iterator[None]:
        """A phase of `steps` forward passes; it is closed whatever happens inside."""
        self.begin(name, steps)
        try:
            yield
        finally:
            self.end()

    def begin(self, name: str, steps: int = 0) -> None:
        self._begin(name, steps, self._clock(), self.counters())

    def end(self) -> None:
        """Close the open phase, if there is one."""
        if self._open is not None:
            self._end(self._clock(), self.counters())

    def advance(self, name: str, steps: int = 0) -> None:
        """Close the open phase and begin the next at the same instant, with the same reading: no gap, one cost."""
        now, counters = self._clock(), self.counters()
        self._end(now, counters)
        self._begin(name, steps, now, counters)

    def close(self) -> None:
        self.end()
        self._lines.close()

    def _begin(self, name: str, steps: int, now: int, counters: MemoryCounters | None) -> None:
        assert self._open is None, f"phase {name} begins inside another"
        index = self._opened[name]
        self._opened[name] += 1
        self._last = f"{name} {index}" if name == "decode" else name
        self._open = _Open(name, index, steps, now, self.step, counters)
        self._lines.append(_row(self._open, None, None, counters))

    def _end(self, now: int, counters: MemoryCounters | None) -> None:
        opened = self._open
        assert opened is not None, "no phase is open"
        self._open = None
        self.step = opened.step_start + opened.steps
        self._lines.append(_row(opened, now, self.step, counters))


def _row(opened: _Open, t_end: int | None, step_end: int | None, now: MemoryCounters | None) -> dict[str, Any]:
    start, end = opened.at_start, (now if t_end is not None else None)
    return {
        "name": opened.name,
        "index": opened.index,
        "t_start": opened.t_start,
        "t_end": t_end,
        "step_start": opened.step_start,
        "step_end": step_end,
        "allocated_start": start.allocated if start else None,
        "reserved_start": start.reserved if start else None,
        "allocated_end": end.allocated if end else None,
        "reserved_end": end.reserved if end else None,
        "peak_allocated": now.peak_allocated if now else None,
        "peak_reserved": now.peak_reserved if now else None,
    }
