"""Archives from elsewhere: what is imported is data that every page can read, or nothing is."""

from __future__ import annotations

import csv
import io
import json
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from core.export.archive import LARGEST_ARCHIVE, MANIFEST, import_archive
from core.export.csv import neutral, write_csv
from core.export.formats import FORMATS, exported
from core.runfolder.tables import EVENTS, read_table
from core.runs.home import DataHome, open_home
from core.runs.store import Store
from core.spec.errors import InvalidSpec
from core.trace.read import read_trace
from tests.fake_worker import TOKEN
from tests.make_run import make_run


def _good() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        return exported("archive", [make_run(open_home(place), "aaaaaa-1")])


GOOD = _good()


@pytest.fixture
def home(tmp_path: Path) -> DataHome:
    return open_home(tmp_path / "home")


def changed(**members: Callable[[bytes], bytes] | bytes) -> bytes:
    """The good archive with some members of its run replaced or changed; a name's dot is two underscores."""
    source, stream = zipfile.ZipFile(io.BytesIO(GOOD)), io.BytesIO()
    wanted = {f"runs/1/{name.replace('__', '.')}": change for name, change in members.items()}
    with zipfile.ZipFile(stream, "w") as target:
        for name in source.namelist():
            change = wanted.pop(name, None)
            data = source.read(name)
            target.writestr(name, data if change is None else change(data) if callable(change) else change)
        for name, change in wanted.items():
            target.writestr(name, change if isinstance(change, bytes) else change(b""))
    return stream.getvalue()


def with_value(path: tuple[str, ...], value: Any) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        document = json.loads(data)
        inside = document
        for key in path[:-1]:
            inside = inside.setdefault(key, {})
        inside[path[-1]] = value
        return json.dumps(document).encode()

    return change


def took_nothing(home: DataHome) -> bool:
    return not any(home.runs.iterdir()) and not any(home.experiments.iterdir())


HOSTILE: tuple[Any, ...] = (None, -1, 10**30, 1.5, "x", "<script>", [], [1], {}, {"a": 1}, True)
STATUS = ("submitted_at", "started_at", "ended_at", "t0_ns", "seconds", "error", "peak", "device", "run_id", "state")


@pytest.mark.parametrize("field", STATUS)
def test_a_status_of_other_kinds_is_refused_or_readable(home: DataHome, field: str) -> None:
    """Whatever was let in, every list and export of it works: one bad archive must not take a page from everybody."""
    for value in HOSTILE:
        try:
            _, run_ids = import_archive(home, changed(status__json=with_value((field,), value)))
        except InvalidSpec as error:
            assert "\n" not in str(error)
            continue
        store = Store(home)
        assert set(run_ids) <= {row.run_id for row in store.list_runs()}
        store.list_experiments()
        read_trace(home.run(run_ids[0]))


@pytest.mark.parametrize("member", ["result__json", "sampler__json", "tensors__json", "label__json", "recorded__json"])
def test_other_documents_of_other_kinds_are_refused_or_readable(home: DataHome, member: str) -> None:
    for value in HOSTILE:
        try:
            _, run_ids = import_archive(home, changed(**{member: json.dumps(value).encode()}))
        except InvalidSpec:
            continue
        folder = home.run(run_ids[0])
        for form in ("csv", "html", "markdown", "archive"):
            assert exported(form, [folder])


def test_phases_that_are_not_phases(home: DataHome) -> None:
    for line in ('{"name": 5}', '{"name": "load"}', '{"name": "load", "t_start": "x"}', '{"t_start": 1}', "[]", "5"):
        try:
            import_archive(home, changed(phases__jsonl=(line + "\n").encode()))
        except InvalidSpec as error:
            assert "cannot be read" in str(error)
    for row in Store(home).list_runs():
        read_trace(home.run(row.run_id))


@pytest.mark.parametrize("index", [1, 100, -1, 127])
def test_a_table_whose_indices_lead_out_of_its_dictionary_is_refused(home: DataHome, index: int) -> None:
    """Arrow believes what a stream says of itself; whoever follows such an index reads foreign memory."""
    names = pa.DictionaryArray.from_arrays(pa.array([index], pa.int8()), pa.array(["alloc"]), safe=False)
    columns = [names if field.name == "action" else pa.array([None], field.type) for field in EVENTS]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, EVENTS) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=EVENTS))
    with pytest.raises(InvalidSpec, match="cannot be read"):
        import_archive(home, changed(events__arrow=sink.getvalue()))
    assert took_nothing(home)


def test_flipped_bytes_anywhere(home: DataHome) -> None:
    choose = random.Random(8)
    for _ in range(60):
        bad = bytearray(GOOD)
        for _ in range(choose.randint(1, 4)):
            bad[choose.randrange(len(bad))] ^= 1 << choose.randrange(8)
        try:
            import_archive(home, bytes(bad))
        except InvalidSpec as error:
            assert len(str(error)) <= 600


def test_sizes_that_lie_are_not_believed(home: DataHome) -> None:
    """The directory says one byte; the member unpacks to a thousand times its limit."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, json.dumps({"format": "vramscope-experiment-1"}))
        archive.writestr("runs/1/samples.arrow", b"\0" * (300 * 2**20))
    bad = bytearray(stream.getvalue())
    real = struct.pack("<I", 300 * 2**20)
    assert bad.count(real) >= 2
    bad[:] = bytes(bad).replace(real, struct.pack("<I", 1))
    with pytest.raises(InvalidSpec):
        import_archive(home, bytes(bad))
    assert took_nothing(home)
    assert LARGEST_ARCHIVE == 2**30


@pytest.mark.parametrize(
    "name",
    [
        "../../evil", "/etc/evil", "runs/../../evil", "runs/1/../../../evil", "runs\\1\\..\\evil", "C:\\evil",
        "runs/1/",
        "runs/99999/spec.json", "runs/1/model/../../evil", "runs/1/spec.json/x", "runs/1/snapshot.pickle", "runs/-1/a",
    ],
)  # fmt: skip
def test_names_that_climb_out_take_nothing(home: DataHome, name: str) -> None:
    stream = io.BytesIO(GOOD)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr(name, b"x")
    if name.endswith("/"):
        import_archive(home, stream.getvalue())  # a folder's own entry is nothing
        return
    with pytest.raises(InvalidSpec, match="which no run has"):
        import_archive(home, stream.getvalue())
    assert took_nothing(home)
    assert not list(home.root.parent.rglob("evil"))


def test_a_link_in_an_archive_is_written_as_a_file_or_not_at_all(home: DataHome) -> None:
    stream = io.BytesIO(GOOD)
    with zipfile.ZipFile(stream, "a") as archive:
        member = zipfile.ZipInfo("runs/2/spec.json")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(InvalidSpec):
        import_archive(home, stream.getvalue())
    assert took_nothing(home)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=HYPERLINK(A1)"])
def test_formulas_are_text_in_a_csv(home: DataHome, text: str) -> None:
    folder = make_run(home, "aaaaaa-1")
    folder.phases.write_text(
        json.dumps({"name": text, "index": 0, "t_start": 1, "t_end": 10**12, "step_start": 0, "step_end": 1}) + "\n"
    )
    stream = io.StringIO()
    write_csv([read_trace(folder)], stream)
    phases = {row["phase"] for row in csv.DictReader(io.StringIO(stream.getvalue(), newline=""))}
    said = "'" + text.replace("\r", " ")
    assert phases == {said}
    assert neutral(text) == said


def test_no_export_holds_a_log_or_a_token(home: DataHome) -> None:
    folder = make_run(home, "aaaaaa-1")
    for log in (folder.stdout, folder.stderr, folder.sampler_log):
        log.write_text(f"a line with {TOKEN}\n")
    for form in FORMATS.values():
        if form.name != "memory_viz":
            data = exported(form.name, [folder])
            assert TOKEN.encode() not in data
            if form.name == "archive":
                names = zipfile.ZipFile(io.BytesIO(data)).namelist()
                assert not [name for name in names if name.endswith((".log", ".pickle", "worker.json"))]


def test_arrow_streams_with_other_columns_read_as_empty(home: DataHome) -> None:
    sink = io.BytesIO()
    table = pa.table({"anything": [1, 2, 3]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    _, run_ids = import_archive(home, changed(events__arrow=sink.getvalue()))
    assert read_table(home.run(run_ids[0]).events, EVENTS).num_rows == 0
    assert read_trace(home.run(run_ids[0])).series
