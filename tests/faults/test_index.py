"""The index may be lost, damaged, old, new or on a network disk: the run folders have it all."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine

from core.runfolder.jsonio import read_json, write_json
from core.runs.home import DataHome, open_home
from core.runs.index import INDEX_VERSION, on_network, version_of
from core.runs.rows import RunRow
from core.runs.store import Store
from core.runs.submit import PreparedRun, submit
from core.spec.errors import DataFolderError
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
from tests.make_run import make_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path: Path) -> DataHome:
    home = open_home(tmp_path / "home")
    for number in range(1, 6):
        make_run(home, f"aaaaaa-{number}")
    return home


def rows(home: DataHome) -> list[RunRow]:
    return Store(home).list_runs()


def journal_mode(home: DataHome) -> str:
    with Store(home)._engine.connect() as connection:
        return str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())


def test_deleted_while_it_is_in_use(home: DataHome) -> None:
    store, before = Store(home), rows(home)
    for path in home.root.glob("index.sqlite*"):
        path.unlink()
    assert store.list_runs() == before
    for path in home.root.glob("index.sqlite*"):
        path.unlink()
    store.put_runs(["aaaaaa-1"])
    assert store.list_runs() == before, "the first to come builds all of it again"


def test_every_page_of_it_flipped(home: DataHome) -> None:
    """Bytes of each page are turned, under a store that is open: lists stay whole, or are built again."""
    before = rows(home)
    whole = home.index.read_bytes()
    size = int.from_bytes(whole[16:18], "big")
    choose = random.Random(8)
    for page in range(len(whole) // size):
        store = Store(home)
        for log in home.root.glob("index.sqlite-*"):
            log.unlink()
        damaged = bytearray(whole)
        for at in range(page * size + (100 if page == 0 else 0), page * size + 140):
            damaged[at] ^= choose.randint(1, 255)
        home.index.write_bytes(damaged)
        assert store.list_runs() == before, f"page {page}"
        assert [one.experiment_id for one in store.list_experiments()] == ["aaaaaa"], f"page {page}"
        assert store.queue() == []


@pytest.mark.parametrize("content", [b"", b"no database at all" * 99, b"SQLite format 3\0", b"\0" * 8192])
def test_a_file_that_is_no_database(home: DataHome, content: bytes) -> None:
    before = rows(home)
    for log in home.root.glob("index.sqlite-*"):
        log.unlink()
    home.index.write_bytes(content)
    assert rows(home) == before
    assert not content or (home.root / "index.sqlite.broken").read_bytes() == content, "kept, should it be asked for"


def test_an_older_version_is_built_again_and_kept_beside(home: DataHome) -> None:
    before = rows(home)
    home.index.unlink()
    with closing(sqlite3.connect(home.index)) as old:
        old.execute("CREATE TABLE runs (run_id TEXT, state TEXT)")
        old.execute("CREATE TABLE experiments (experiment_id TEXT)")
        old.execute("INSERT INTO runs VALUES ('old-1', 'finished')")
        old.commit()
    assert rows(home) == before
    with closing(sqlite3.connect(home.root / "index.sqlite.v0")) as kept:
        assert kept.execute("SELECT run_id FROM runs").fetchall() == [("old-1",)]


def test_a_newer_version_is_refused_and_not_touched(home: DataHome) -> None:
    with closing(sqlite3.connect(home.index)) as newer:
        newer.execute("PRAGMA journal_mode=DELETE")
        newer.execute(f"PRAGMA user_version={INDEX_VERSION + 6}")
        newer.commit()
    before = home.index.read_bytes()
    with pytest.raises(DataFolderError, match=r"written by a newer VRAMscope \(version 7; this one knows 1\)"):
        Store(home)
    spec = parse_spec({"model": "gpt2", "device": "cpu"})
    with pytest.raises(DataFolderError, match="newer"):
        submit(home, [PreparedRun(spec, resolve(spec))])
    assert not any(home.queue.iterdir()), "nothing is queued there"
    assert home.index.read_bytes() == before


def test_on_a_network_disk_there_is_no_write_ahead_log(home: DataHome, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(home)
    assert journal_mode(home) == "wal"

    def mounts(all: bool) -> list[object]:  # psutil's own name
        kind = psutil._ntuples.sdiskpart
        return [kind("/dev/sda", "/", "ext4", ""), kind("server:/data", str(home.root.parent), "nfs4", "")]

    monkeypatch.setattr(psutil, "disk_partitions", mounts)
    assert on_network(home.root)
    assert not on_network(Path("/etc"))
    assert journal_mode(home) == "delete"
    assert rows(home) == before


def test_where_wal_is_refused_the_index_works_without(home: DataHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite answers with the mode that it has, as it does on a file system without shared memory."""
    before = rows(home)
    home.index.unlink()
    monkeypatch.setattr(
        "core.runs.index.create_engine",
        lambda _url, **how: create_engine(f"sqlite:///file:{home.index}?vfs=unix-dotfile&uri=true", **how),
    )
    assert journal_mode(home) == "delete"
    assert rows(home) == before


def test_many_who_find_it_missing_build_it_once(home: DataHome) -> None:
    before = rows(home)
    for path in home.root.glob("index.sqlite*"):
        path.unlink()
    code = (
        "import sys\nfrom core.runs.home import open_home\nfrom core.runs.store import Store\n"
        "store = Store(open_home(sys.argv[1]))\nstore.put_runs(['aaaaaa-1'])\nprint(len(store.list_runs()))"
    )
    several = [
        subprocess.Popen([sys.executable, "-c", code, home.root], cwd=ROOT, stdout=subprocess.PIPE) for _ in range(4)
    ]
    assert [process.communicate(timeout=120)[0] for process in several] == [b"5\n"] * 4
    assert rows(home) == before
    assert version_of(home.index) == INDEX_VERSION
    assert not list(home.root.glob("index.sqlite.broken")), "none took another's half-made one for a damaged one"


@pytest.mark.parametrize(
    "damage",
    [{"submitted_at": "no time"}, {"submitted_at": 1e300}, {"peak": {"allocated": 2**70}}, {"peak": {"allocated": "x"}},
     {"device": {"name": 5}}, {"run_id": "aaaaaa-x"}, {"error": {"kind": 1, "message": 2}}],
)  # fmt: skip
def test_one_folder_that_was_tampered_with_keeps_no_other_out(home: DataHome, damage: dict[str, object]) -> None:
    folder = home.run("aaaaaa-3")
    write_json(folder.status, {**(read_json(folder.status) or {}), **damage})
    home.index.unlink()
    ids = [row.run_id for row in rows(home)]
    assert ids in (["aaaaaa-1", "aaaaaa-2", "aaaaaa-4", "aaaaaa-5"], [f"aaaaaa-{n}" for n in range(1, 6)])
    Store(home).put_runs(["aaaaaa-3", "aaaaaa-4"])
