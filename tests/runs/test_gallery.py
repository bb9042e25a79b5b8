"""The recorded experiments that come with the app: small, complete, readable without a card, and not to be changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.runfolder.jsonio import read_json
from core.runfolder.tables import EVENTS, read_table
from core.runs.gallery import GALLERY, Recording, gallery_run, recorded_label, recordings
from core.runs.home import open_home
from core.runs.store import Store
from core.spec.errors import InvalidSpec, NoSuchRun
from core.spec.experiment import load_experiment
from core.trace.read import read_trace

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
RUN_IDS = [run_id for recording in recordings() for run_id in recording.run_ids]


def test_the_gallery_is_there_and_small() -> None:
    assert recordings()
    assert sum(path.stat().st_size for path in GALLERY.rglob("*") if path.is_file()) <= 12 * MIB


@pytest.mark.parametrize("recording", recordings(), ids=lambda recording: recording.experiment_id)
def test_an_experiment_says_what_recorded_it(recording: Recording) -> None:
    experiment = load_experiment(ROOT / recording.example)
    assert (recording.title, recording.note) == (experiment.title, experiment.note)
    specs = experiment.matrix.specs
    for run_id, spec in zip(recording.run_ids, specs, strict=False):
        folder = gallery_run(run_id)
        assert folder
        recorded = (read_json(folder.spec) or {})["spec"]
        differ = {name for name, value in spec.to_dict().items() if recorded[name] != value}
        assert differ <= {"device"}, "the card itself is all that the file leaves open"


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_a_recorded_run_is_whole(run_id: str) -> None:
    folder = gallery_run(run_id)
    assert folder
    trace = read_trace(folder)
    assert trace.state in ("finished", "oom", "failed")
    assert trace.incomplete is None
    assert trace.peaks["allocated"].source == "exact"
    assert read_table(folder.events, EVENTS)["module"].null_count < read_table(folder.events, EVENTS).num_rows
    about = read_json(folder.recorded) or {}
    assert about["card"].startswith("NVIDIA")
    assert about["driver"]
    assert about["versions"]["torch"]
    said = folder.spec.read_text() + folder.status.read_text() + folder.result.read_text()
    assert "/" not in json.dumps(json.loads(said.splitlines()[0])["source"]), "no path of the machine"


def test_a_recording_opens_by_its_ids_and_cannot_be_changed(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    store, first = Store(home), recordings()[0]
    assert store.resolve([first.experiment_id]) == list(first.run_ids)
    assert home.run(first.run_ids[0]).root.parent.parent == GALLERY
    assert recorded_label(first.run_ids[0])
    with pytest.raises(InvalidSpec, match="cannot be changed"):
        store.rename(first.run_ids[0], title="mine")
    with pytest.raises(InvalidSpec, match="cannot be changed"):
        store.delete([first.run_ids[0]])
    with pytest.raises(NoSuchRun):
        home.run("nosuch-1")
