"""Making a card look smaller, with a scripted driver; the real one is in tests/worker/test_gpu.py."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from core.devices.device import Reading
from core.devices.process import identity
from core.holder.__main__ import main, wait_for_the_end
from core.holder.driver import Driver, DriverError
from core.holder.holding import GRANULE, MIB, hold
from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder
from core.runs.supervisor.holding import end_holder, holder_ready
from core.sampler.sampling import Holder, without_holder
from core.spec.errors import JobFailed


class Card:
    """Memory in pieces of 2 MiB. `moves` are bytes that somebody else takes (or frees) after each allocation."""

    def __init__(self, free: int, *moves: int) -> None:
        self.free, self.moves = free, list(moves)

    def memory(self) -> tuple[int, int]:
        return self.free, 143_771 * MIB

    def allocate(self, size: int) -> None:
        self.free -= -(-size // GRANULE) * GRANULE
        if self.moves:
            self.free -= self.moves.pop(0)


@pytest.mark.parametrize("free", [48_676 * MIB, 48_677 * MIB + 5, 140_000 * MIB, 140_000 * MIB + 12_345])
def test_what_was_asked_for_stays_free(free: int) -> None:
    card = Card(free)
    left = hold(card, 48_676 * MIB)
    assert left == card.free
    assert 48_674 * MIB < left <= 48_676 * MIB


def test_memory_that_somebody_gives_back_meanwhile_is_held_too() -> None:
    assert 48_674 * MIB < hold(Card(100_000 * MIB, -512 * MIB), 48_676 * MIB) <= 48_676 * MIB


def test_a_card_that_is_fuller_than_that_is_said() -> None:
    with pytest.raises(DriverError, match=r"capacity_mib=48676 cannot be had: .* only 30000 MiB are free .* another"):
        hold(Card(30_000 * MIB), 48_676 * MIB)


class Library:
    """libcuda with one card; `fails` names the call that does not succeed."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.taken: list[int] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == self.fails:
                return 2
            if name == "cuMemAlloc_v2":
                self.taken.append(arguments[1].value)
            if name == "cuMemGetInfo_v2":
                for pointer, size in zip(arguments, (5 * MIB, 7 * MIB), strict=True):
                    pointer._obj.value = size
            if name == "cuGetErrorName":
                arguments[1]._obj.value = b"CUDA_ERROR_OUT_OF_MEMORY"
            return 0

        return call


def test_the_driver_is_asked_in_its_own_types() -> None:
    library = Library()
    driver = Driver(library)
    driver.allocate(3 * MIB)
    assert (driver.memory(), library.taken) == ((5 * MIB, 7 * MIB), [3 * MIB])
    with pytest.raises(DriverError, match="cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"):
        Driver(Library("cuMemAlloc_v2")).allocate(1)
    with pytest.raises(DriverError, match="cuInit"):
        Driver(Library("cuInit"))


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="there is a card")
def test_without_a_driver_the_reason_is_left_in_the_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert main(str(tmp_path), "cuda:GPU-1", "48676") == 1
    with pytest.raises(JobFailed, match="no NVIDIA driver"):
        holder_ready(folder, None, None)


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_it_ends_with_the_worker_and_with_whoever_started_it(tmp_path: Path) -> None:
    folder, worker = RunFolder(tmp_path), sleeper()
    write_json(folder.worker, {"pid": worker.pid, "identity": identity(worker.pid)})
    worker.kill()
    wait_for_the_end(folder, os.getppid())
    folder.worker.unlink()
    wait_for_the_end(folder, started_by=1 if os.getppid() != 1 else 2)
    wait_for_the_end(RunFolder(tmp_path / "gone"), os.getppid())


def test_ready_waits_for_the_file_and_not_for_ever(tmp_path: Path) -> None:
    folder, holder = RunFolder(tmp_path), sleeper()
    assert not holder_ready(folder, holder, time.monotonic_ns())
    with pytest.raises(JobFailed, match="could not be held within 60 s"):
        holder_ready(folder, holder, 0)
    holder.kill()
    holder.wait()
    with pytest.raises(JobFailed, match="left with code -9"):
        holder_ready(folder, holder, time.monotonic_ns())
    write_json(folder.holder, {"pid": 1, "identity": "", "problem": None})
    assert holder_ready(folder, holder, 0)


def test_the_holder_of_a_former_supervisor_is_ended_and_nobody_else(tmp_path: Path) -> None:
    folder, holder = RunFolder(tmp_path), sleeper()
    assert end_holder(folder, None), "there is none"
    created = identity(holder.pid)
    write_json(folder.holder, {"pid": holder.pid, "identity": f"{created}0"})
    assert end_holder(folder, None), "another process has its pid by now"
    assert holder.poll() is None
    write_json(folder.holder, {"pid": holder.pid, "identity": created})
    end_holder(folder, None)
    assert holder.wait(10) == -9
    assert end_holder(folder, None)
    assert read_json(folder.holder)


def test_the_sampler_leaves_the_holder_out() -> None:
    reading = Reading(100, {1: 60, 2: 30})
    assert without_holder(reading, None) == reading
    assert without_holder(reading, Holder(1, 61)) == Reading(39, {2: 30}), "what the card grew by comes first"
    assert without_holder(reading, Holder(1, None)) == Reading(40, {2: 30})
    assert without_holder(Reading(100, {1: None, 2: 30}), Holder(1, 59)) == Reading(41, {2: 30})
    assert without_holder(Reading(100, None), Holder(1, 59)) == Reading(41, None)
    assert without_holder(Reading(100, None), Holder(1, None)).device_used is None
