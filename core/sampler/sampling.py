"""One look at a run's memory, and the loop that repeats it until the worker has gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import psutil

from core.devices.device import Meter, Reading
from core.runfolder.tables import SAMPLES, TableWriter
from core.sampler.tree import ProcessTree

DISK_REFUSED = 74
"""Exit code of a sampler that could not write (EX_IOERR of sysexits.h)."""

FLUSH_NS = 250_000_000
"""Rows reach the file at least this often, so a killed sampler loses a quarter of a second at most."""

RETURN_NS = 2_000_000_000
"""How long the driver may take to return the memory of a process that has ended before the last sample is taken."""


class Sample(NamedTuple):
    """One row of samples.arrow: nanoseconds and bytes, None where not available."""

    t_ns: int
    device_used: int | None
    process_used: int | None
    other_processes_used: int | None
    host_rss: int | None


class Holder(NamedTuple):
    """The process that makes a card look smaller: its pid, and the bytes by which the card's use grew with it."""

    pid: int
    held_bytes: int | None


def without_holder(reading: Reading, holder: Holder | None) -> Reading:
    """The card as it would be without `holder`.

    What the card's use grew by comes first: the driver's figure for a process leaves out some 9 MiB (H200) that go and
    come with it. device_used is None where neither is known.
    """
    if holder is None or reading.device_used is None:
        return reading
    processes = dict(reading.processes) if reading.processes is not None else None
    held = processes.pop(holder.pid, None) if processes is not None else None
    held = held if holder.held_bytes is None else holder.held_bytes
    used = None if held is None else max(0, reading.device_used - held)
    return Reading(used, processes, reading.missing)


def split_by_owner(reading: Reading, ours: set[int]) -> tuple[int | None, int | None]:
    """Bytes on the card held by `ours` and by other processes.

    (None, None) where the driver gives no list, or lists PIDs of another namespace (a container that NVML reports with
    the host's PIDs): then nobody can say which of them is ours.
    """
    if reading.processes is None:
        return None, None
    if any(not psutil.pid_exists(pid) for pid in reading.processes if pid not in ours):
        return None, None
    mine = [size for pid, size in reading.processes.items() if pid in ours]
    others = [size for pid, size in reading.processes.items() if pid not in ours]
    return _sum(mine), _sum(others)


def _sum(sizes: list[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


@dataclass
class Sampling:
    """Samples one run. `missing` counts the figures the driver refused, by reason.

    `foreign`: of each process on the card that is not the run's, its bytes when it was first seen and at most.
    """

    meter: Meter
    writer: TableWriter
    holder: Holder | None = None
    missing: Counter[str] = field(default_factory=Counter)
    foreign: dict[int, tuple[int, int]] = field(default_factory=dict)
    count: int = 0
    longest_gap_ns: int = 0
    _rows: list[Sample] = field(default_factory=list)
    _flushed_ns: int = 0
    _last_ns: int = 0

    def look(self, t_ns: int, tree: ProcessTree | None) -> Sample:
        """Take one sample; `tree` is None while the worker has not started."""
        reading = without_holder(self.meter.read(), self.holder)
        for what, reason in reading.missing.items():
            self.missing[f"{what}: {reason}"] += 1
        if tree and any(pid not in tree.pids and pid not in self.foreign for pid in reading.processes or ()):
            tree.find_children(t_ns)  # a process that is new on the card may be a child of ours
        rss = tree.resident_bytes(t_ns) if tree else 0
        if self.meter.device.kind == "cpu":
            sample = Sample(t_ns, reading.device_used, rss, None, rss)
        else:
            process, others = split_by_owner(reading, tree.pids if tree else set())
            if process and tree and not tree.alive():
                # the driver's list still names a process that has ended for 100 ms after its memory has come back
                process = max(0, min(process, (reading.device_used or 0) - (others or 0)))
            if others is not None:
                self._note_foreign(reading, tree.pids if tree else set())
            sample = Sample(t_ns, reading.device_used, process, others, rss)
        self._keep(sample)
        return sample

    def _note_foreign(self, reading: Reading, ours: set[int]) -> None:
        for pid, size in (reading.processes or {}).items():
            if pid not in ours and size is not None:
                first, most = self.foreign.get(pid, (0 if self.count else size, 0))
                self.foreign[pid] = first, max(most, size)

    def grown(self) -> dict[str, int]:
        """By how many bytes each process of somebody else grew on the card since the first sample."""
        return {str(pid): most - first for pid, (first, most) in self.foreign.items() if most > first}

    def _keep(self, sample: Sample) -> None:
        if self.count:
            self.longest_gap_ns = max(self.longest_gap_ns, sample.t_ns - self._last_ns)
        self._last_ns = sample.t_ns
        self._rows.append(sample)
        self.count += 1
        if sample.t_ns - self._flushed_ns > FLUSH_NS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            columns = map(list, zip(*self._rows, strict=True))
            self.writer.write(dict(zip(SAMPLES.names, columns, strict=True)))
            self._flushed_ns = self._rows[-1].t_ns
            self._rows.clear()

    def until_gone(
        self, ticks: Iterator[int], find_tree: Callable[[], ProcessTree | None], stop: Callable[[], bool]
    ) -> None:
        """Sample at each tick, from before the worker starts until it has gone and its memory has come back."""
        tree: ProcessTree | None = None
        gone_ns: int | None = None
        for t_ns in ticks:
            tree = tree or find_tree()
            sample = self.look(t_ns, tree)
            if stop():
                break
            if tree is None or tree.alive():
                continue
            gone_ns = gone_ns or t_ns
            if not sample.process_used or t_ns - gone_ns > RETURN_NS:
                break
        self.flush()
