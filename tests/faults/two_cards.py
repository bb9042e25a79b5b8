"""`python -m tests.faults.two_cards DATA_FOLDER`: a supervisor whose two cards are scripted, for scripted workers."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from core.runs.home import open_home
from tests.fake_nvml import FakeCard, FakeNvml
from tests.faults.inside import Inside


def main(root: str) -> None:
    home = open_home(root)
    with FileLock(home.supervisor_lock, timeout=0):
        inside = Inside(Path(root).parent, FakeNvml(FakeCard("GPU-aaaa"), FakeCard("GPU-bbbb")), pytest.MonkeyPatch())
        while True:
            inside.supervisor.tick()
            time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
