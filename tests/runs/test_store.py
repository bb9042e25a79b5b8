"""The store: the index only repeats the folders, so it can be lost, and nothing in a link reaches a path unchecked."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from core.runs.home import DataHome, is_run_id, open_home
from core.runs.status import Peak, RunStatus, write_status
from core.runs.store import Store
from core.runs.submit import PreparedRun, Submitted, submit
from core.spec.errors import DataFolderError, InvalidSpec, NoSuchRun
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataHome:
    monkeypatch.setattr("core.runs.submit.ensure_supervisor", lambda home: None)  # nobody works on this queue
    return open_home(tmp_path / "home")


def queue(home: DataHome, *batch_sizes: int, title: str = "") -> Submitted:
    specs = [parse_spec({"model": "gpt2", "device": "cpu", "batch_size": size}) for size in batch_sizes]
    runs = [PreparedRun(spec, resolve(spec), (), f"batch_size={spec.batch_size}") for spec in specs]
    return submit(home, runs, title)


def end(home: DataHome, run_id: str, state: str = "finished", peak: Peak | None = None) -> None:
    experiment = run_id.partition("-")[0]
    write_status(home.run(run_id), RunStatus(run_id, experiment, state, 1.0, peak=peak or Peak()))  # type: ignore[arg-type]  # parametrised
    Store(home).put_runs([run_id])


def test_what_was_submitted_is_listed_and_queued_in_order(home: DataHome) -> None:
    first, second = queue(home, 1, 2, title="a"), queue(home, 4, title="b")
    store = Store(home)
    assert [row.run_id for row in store.queue()] == [*first.run_ids, *second.run_ids]
    assert [row.batch_size for row in store.list_runs()] == [4, 1, 2]
    assert [(e.title, e.run_ids) for e in store.list_experiments()] == [("b", second.run_ids), ("a", first.run_ids)]
    assert [path.name.rpartition(".")[2] for path in sorted(home.queue.iterdir())] == [*first.run_ids, *second.run_ids]


def test_the_filters_look_where_a_person_would(home: DataHome) -> None:
    ids = queue(home, 1, 2).run_ids
    store = Store(home)
    store.rename(ids[1], title="Tuesday's 100% run", note="the odd one")
    assert [row.run_id for row in store.list_runs(text="Tuesday")] == [ids[1]]
    assert [row.run_id for row in store.list_runs(text="100%")] == [ids[1]]
    assert [row.run_id for row in store.list_runs(text="batch_size=1")] == [ids[0]]
    assert store.list_runs(text="%") == store.list_runs(text="100%"), "a percent sign is text, not a pattern"
    assert store.list_runs(state="oom") == []
    assert len(store.list_runs(model="gpt2", device="cpu", limit=1)) == 1


@pytest.mark.parametrize("damage", ["delete", "garbage", "flip", "empty", "older"])
def test_a_lost_index_is_built_again_from_the_folders(home: DataHome, damage: str) -> None:
    ids = queue(home, 1, 2, title="kept").run_ids
    end(home, ids[0], "oom", Peak(allocated=5))
    Store(home).rename(ids[0], note="a note")
    before = Store(home).list_runs()
    for leftover in home.root.glob("index.sqlite-*"):
        leftover.unlink()
    if damage == "delete":
        home.index.unlink()
    elif damage == "older":
        import sqlite3

        with sqlite3.connect(home.index) as connection:
            connection.execute("PRAGMA user_version=0")
    else:
        content = bytearray(home.index.read_bytes())
        content[:64] = b"\xff" * 64
        home.index.write_bytes({"garbage": b"no database" * 99, "flip": bytes(content), "empty": b""}[damage])
    store = Store(home)
    assert store.list_runs() == before
    assert store.list_experiments()[0].title == "kept"


def test_reindex_queues_what_was_forgotten_and_only_that(home: DataHome) -> None:
    ids = queue(home, 1, 2).run_ids
    end(home, ids[0])
    for ticket in home.queue.iterdir():
        ticket.unlink()
    assert Store(home).reindex() == 2
    assert [path.name.rpartition(".")[2] for path in home.queue.iterdir()] == [ids[1]]


def test_delete_waits_for_the_end_and_can_be_undone(home: DataHome) -> None:
    (run_id,) = queue(home, 1).run_ids
    store = Store(home)
    with pytest.raises(InvalidSpec, match="is queued; cancel it before deleting it"):
        store.delete([run_id])
    end(home, run_id)
    store.delete([run_id])
    assert (store.list_runs(), store.list_experiments()) == ([], [])
    with pytest.raises(NoSuchRun):
        home.run(run_id)
    store.restore([run_id])
    assert [row.run_id for row in store.list_runs()] == [run_id]


@pytest.mark.parametrize("forged", ["../../etc", "a-1/../..", "", "-", "k3f9qz-", "k3f9qz-1\0", "k3f9qz-१", "x" * 9999])
def test_forged_ids_never_become_paths(home: DataHome, forged: str) -> None:
    assert not is_run_id(forged)
    store = Store(home)
    with pytest.raises(NoSuchRun):
        home.run(forged)
    with pytest.raises(NoSuchRun):
        store.restore([forged])
    with pytest.raises(NoSuchRun):
        store.resolve([forged])


def test_an_experiment_id_means_all_its_runs(home: DataHome) -> None:
    submitted = queue(home, 1, 2, 4)
    assert Store(home).resolve([submitted.experiment_id, submitted.run_ids[1]]) == list(submitted.run_ids)


def test_a_data_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match=r"cannot be written .*; set VRAMSCOPE_HOME to one that can"):
        open_home(tmp_path / "file" / "home")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root can")
def test_a_read_only_data_folder_is_said(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    for path in (home.root, home.runs):
        path.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(0o755)
    code = "import os, sys\nfrom core.runs.home import open_home\nos.setuid(65534)\nopen_home(sys.argv[1])"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, home.root], cwd=root, capture_output=True, text=True, check=False
    )
    assert "cannot be written (Permission denied); set VRAMSCOPE_HOME" in done.stderr
