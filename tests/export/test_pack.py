"""Packing a run: everything a trace needs is there, and nothing that tells of the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.export.pack import pack_run
from core.runfolder.jsonio import write_json
from core.runfolder.layout import RunFolder
from core.runs.home import open_home
from core.runs.status import RunStatus, write_status
from core.spec.errors import NoSuchRun
from core.trace.read import read_trace
from tests.make_run import make_run


def test_a_packed_run_is_the_same_trace(tmp_path: Path) -> None:
    source = make_run(open_home(tmp_path / "home"), "aaaaaa-1", wrap="ddp")
    source.stderr.write_text("/home/somebody/venv/torch")
    target = RunFolder(tmp_path / "packed" / "puzzle-3")
    pack_run(source, target, "puzzle", 3)
    before, after = read_trace(source), read_trace(target)
    assert (after.run_id, after.spec, after.peaks, after.phases) == (
        "puzzle-3",
        before.spec,
        before.peaks,
        before.phases,
    )
    for metric, series in before.series.items():
        assert after.series[metric].values.tolist() == pytest.approx(series.values.tolist(), nan_ok=True)
    assert not target.stderr.exists()
    assert json.loads(target.status.read_text())["experiment_id"] == "puzzle"
    assert set(json.loads(target.recorded.read_text())) == {"card", "driver", "versions", "date"}


def test_a_run_under_way_is_not_packed(tmp_path: Path) -> None:
    source = RunFolder(tmp_path / "bbbbbb-1")
    source.root.mkdir()
    write_json(source.spec, {"spec": {}})
    write_status(source, RunStatus("bbbbbb-1", "bbbbbb", "running", 1.0))
    with pytest.raises(NoSuchRun, match="no run that has ended"):
        pack_run(source, RunFolder(tmp_path / "x-1"), "x", 1)
