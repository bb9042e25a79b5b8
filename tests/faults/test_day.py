"""A day of runs in one supervisor: nothing grows with their number. `bench/load.py` does it with 10,000."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.day import Day, children


def test_nothing_grows_with_the_number_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = Day(tmp_path, 400, monkeypatch)
    day.pass_(60)
    before, processes = day.footprint(), children()
    day.pass_(140)
    after = day.footprint()
    assert after.files <= before.files
    assert after.threads <= before.threads
    assert after.entries <= before.entries
    assert after.bytes <= 1.05 * before.bytes
    assert children() <= processes
    assert len(list(day.inside.home.runs.iterdir())) == 200
