"""The sampler: steady ticks, ownership of the card's memory, and an end after the worker's."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from core.devices.device import Reading
from core.devices.nvml import Nvml
from core.devices.process import identity
from core.devices.registry import list_devices, open_meter
from core.runfolder.tables import SAMPLES, TableWriter, read_table
from core.sampler.pacing import ticks
from core.sampler.sampling import FLUSH_NS, Sampling, split_by_owner
from core.sampler.tree import ProcessTree
from tests.fake_nvml import FakeCard, FakeNvml

MS = 1_000_000


class Clock:
    """Time that only moves when somebody sleeps or works."""

    def __init__(self) -> None:
        self.t = 0

    def now(self) -> int:
        return self.t

    def sleep(self, seconds: float) -> None:
        self.t += round(seconds * 1e9)


def test_ticks_stand_on_a_grid_and_skip_what_was_missed() -> None:
    clock = Clock()
    stream = ticks(10 * MS, clock.now, clock.sleep)
    times = []
    for t in itertools.islice(stream, 6):
        times.append(t // MS)
        clock.t += 35 * MS if t == 20 * MS else 1 * MS  # the third look takes 35 ms
    assert times == [0, 10, 20, 55, 60, 70]


def test_owner_split_sums_ours_and_others() -> None:
    here = os.getpid()
    parent = os.getppid()
    reading = Reading(100, {here: 30, parent: 20})
    assert split_by_owner(reading, {here}) == (30, 20)
    assert split_by_owner(Reading(100, {here: None, parent: 20}), {here}) == (None, 20)
    assert split_by_owner(Reading(100, {}), {here}) == (0, 0)


def test_owner_split_is_unknown_without_a_list_or_with_foreign_pids() -> None:
    assert split_by_owner(Reading(100, None), {1}) == (None, None)
    nobody = 2**22 + 1  # above the kernel's largest pid
    assert split_by_owner(Reading(100, {nobody: 5}), {os.getpid()}) == (None, None)


def test_samples_of_a_real_process_end_after_it(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "x = bytearray(40_000_000); import time; time.sleep(0.6)"])
    tree = ProcessTree(child.pid, identity(child.pid))

    def reaping() -> Iterator[int]:
        for t in ticks(5 * MS):
            child.poll()
            yield t

    device = list_devices().find("cpu")
    with TableWriter(tmp_path / "s.arrow", SAMPLES) as writer:
        Sampling(open_meter(device), writer).until_gone(reaping(), lambda: tree, lambda: False)
    rss = read_table(tmp_path / "s.arrow", SAMPLES)["host_rss"].to_pylist()
    assert max(rss) > 40_000_000
    assert rss[-1] == 0, "the last sample is taken when the process has gone"
    assert len(rss) > 20


def test_gpu_samples_wait_for_the_memory_to_come_back(tmp_path: Path) -> None:
    card = FakeCard("GPU-a", used=900)
    nvml = Nvml(FakeNvml(card))
    child = subprocess.Popen([sys.executable, "-c", ""])
    tree = ProcessTree(child.pid)
    child.wait()
    card.processes = {os.getpid(): 100}
    looks = iter(range(0, 50 * FLUSH_NS, FLUSH_NS))
    with TableWriter(tmp_path / "s.arrow", SAMPLES) as writer:
        sampling = Sampling(open_meter(list_devices(nvml).cuda[0], nvml), writer)
        sampling.until_gone(looks, lambda: tree, lambda: False)
    table = read_table(tmp_path / "s.arrow", SAMPLES).to_pylist()
    assert table[-1]["process_used"] == 0
    assert table[-1]["other_processes_used"] == 100
    assert table[-1]["device_used"] == 900


def test_a_reused_pid_is_not_taken_for_the_worker() -> None:
    assert not ProcessTree(os.getpid(), identity(os.getppid())).alive()
    assert ProcessTree(os.getpid()).alive()
