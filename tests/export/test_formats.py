"""Every export opens in its own reader, and carries what the run folder says."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.export.archive import MANIFEST, import_archive
from core.export.formats import FORMATS, exported, file_name
from core.runfolder.layout import RunFolder
from core.runs.gallery import gallery_run
from core.runs.home import DataHome, open_home
from core.runs.store import Store
from core.spec.errors import InvalidSpec
from core.trace.read import read_trace
from tests.make_run import make_run


def recorded(run_id: str) -> RunFolder:
    folder = gallery_run(run_id)
    assert folder
    return folder


PUZZLE = [recorded("ddppuzzle-1"), recorded("ddppuzzle-2")]


@pytest.fixture
def home(tmp_path: Path) -> DataHome:
    return open_home(tmp_path / "home")


def test_parquet_has_the_rows_of_the_csv() -> None:
    table = pq.read_table(io.BytesIO(exported("parquet", PUZZLE)))
    lines = exported("csv", PUZZLE).decode().splitlines()
    assert table.num_rows == len(lines) - 1
    assert table.column_names == lines[0].split(",")
    traces = [read_trace(folder) for folder in PUZZLE]
    peak = max(trace.peaks["allocated"].bytes or 0 for trace in traces)
    rows = zip(table["metric"].to_pylist(), table["value_bytes"].to_pylist(), strict=True)
    assert max(value for metric, value in rows if metric == "allocated") == pytest.approx(peak, rel=1e-6)


def test_perfetto_has_counters_and_spans_that_follow_the_format() -> None:
    document = json.loads(exported("perfetto", PUZZLE))
    assert document["displayTimeUnit"] in ("ms", "ns")
    kinds = {"M": {"name", "pid", "args"}, "C": {"name", "pid", "ts", "args"}, "X": {"name", "pid", "ts", "dur"}}
    for event in document["traceEvents"]:
        assert kinds[event["ph"]] <= set(event)
        if event["ph"] == "C":
            assert isinstance(event["args"]["bytes"], int)
        if event["ph"] == "X":
            assert event["dur"] >= 0
    assert {event["pid"] for event in document["traceEvents"]} == {1, 2}
    assert any(event["name"] == "prefill" for event in document["traceEvents"])


@pytest.mark.parametrize("run_id", ["ddppuzzle-1", "ddppuzzle-2", "fragmentation-1", "fragmentation-2"])
def test_a_snapshot_is_read_by_torchs_own_viewer(run_id: str, tmp_path: Path) -> None:
    data = exported("memory_viz", [recorded(run_id)])
    snapshot = pickle.loads(data)
    assert len(snapshot["device_traces"][0]) > 1000
    path, page = tmp_path / "snapshot.pickle", tmp_path / "plot.html"
    path.write_bytes(data)
    command = [sys.executable, "-m", "torch.cuda._memory_viz"]
    subprocess.run([*command, "trace_plot", str(path), "-o", str(page)], check=True, capture_output=True, timeout=120)
    assert page.stat().st_size > 10_000
    reading = "import pickle, sys; from torch.cuda import _memory_viz as v; s = pickle.load(open(sys.argv[1], 'rb')); "
    done = subprocess.run(
        [sys.executable, "-c", reading + "print(v.trace(s)); print(v.segsum(s))", str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "entries" in done.stdout
    assert "TOTAL MEM" in done.stdout


def test_a_snapshot_needs_a_history(home: DataHome) -> None:
    with pytest.raises(InvalidSpec, match="has no allocator history"):
        exported("memory_viz", [make_run(home, "aaaaaa-1", on_card=False)])


def test_markdown_has_the_answer_and_no_markup_of_the_user(home: DataHome) -> None:
    text = exported("markdown", PUZZLE).decode()
    assert "wrap: none → ddp" in text
    assert "Tried to allocate 642.00 MiB" in text
    assert "DeepSpeed took 32.8 GiB" in text
    assert "| DeepSpeed workspace | +2,114.0 MiB |" in text
    folder = make_run(home, "aaaaaa-1")
    folder.label.write_text(json.dumps({"title": "<img src=x onerror=alert(1)> | x", "note": ""}))
    said = exported("markdown", [folder]).decode()
    assert "<img" not in said.replace("\\<", "")


def test_the_html_report_is_one_file_and_shows_names_as_text(home: DataHome) -> None:
    folder = make_run(home, "aaaaaa-1", state="oom")
    folder.label.write_text(json.dumps({"title": "<script>alert(1)</script>", "note": ""}))
    page = exported("html", [folder]).decode()
    assert "<script>alert(1)</script>" not in page
    assert "&lt;script&gt;" in page
    for outside in ("src=", 'href="http', "@import", "url(http"):
        assert outside not in page.split("</script>", 1)[1], "nothing is fetched"


def test_an_archive_opens_in_another_installation(home: DataHome, tmp_path: Path) -> None:
    other = open_home(tmp_path / "other")
    experiment_id, run_ids = import_archive(other, exported("archive", PUZZLE))
    assert run_ids == [f"{experiment_id}-1", f"{experiment_id}-2"]
    for source, run_id in zip(PUZZLE, run_ids, strict=True):
        before, after = read_trace(source), read_trace(other.run(run_id))
        assert (after.peaks, after.phases, after.error) == (before.peaks, before.phases, before.error)
    assert [row.run_id for row in Store(other).list_runs()] == run_ids
    assert exported("archive", [other.run(run_id) for run_id in run_ids])


def archive_with(**members: bytes) -> bytes:
    """A good archive with other or further members; dots and slashes are written as words."""
    source = zipfile.ZipFile(io.BytesIO(exported("archive", PUZZLE[:1])))
    stream = io.BytesIO()
    named = {name.replace("SLASH", "/").replace("DOT", "."): data for name, data in members.items()}
    with zipfile.ZipFile(stream, "w") as target:
        for name in source.namelist():
            if name not in named:
                target.writestr(name, source.read(name))
        for name, data in named.items():
            target.writestr(name, data)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no archive"),
        (b"PK\x03\x04 garbage", "no archive"),
        (exported("archive", PUZZLE)[:-200], "no archive"),
        (archive_with(DOTDOTSLASHevil=b"x"), "which no run has"),
        (archive_with(runsSLASH1SLASHDOTDOTSLASHDOTDOTSLASHevil=b"x"), "which no run has"),
        (archive_with(SLASHetcSLASHpasswd=b"x"), "which no run has"),
        (archive_with(runsSLASH1SLASHsnapshotDOTpickle=pickle.dumps({})), "which no run has"),
        (archive_with(experimentDOTjson=b'{"format": "another"}'), "not of format"),
        (archive_with(experimentDOTjson=b"[" * 100_000), "no archive"),
        (archive_with(runsSLASH1SLASHspecDOTjson=b"{}"), "no readable spec"),
        (archive_with(runsSLASH1SLASHspecDOTjson=b'{"spec": {"model": "gpt2", "batch_size": -1}}'), "batch_size"),
        (archive_with(runsSLASH1SLASHstatusDOTjson=b'{"state": "running"}'), "final status"),
    ],
)
def test_an_archive_that_is_damaged_or_hostile_takes_nothing(home: DataHome, data: bytes, said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        import_archive(home, data)
    assert not list(home.runs.iterdir())
    assert not list(home.experiments.iterdir())
    assert not [path for path in home.root.iterdir() if path.name.startswith(".import")]
    assert not (home.root.parent / "evil").exists()


def test_an_archive_that_unpacks_to_too_much_is_refused(home: DataHome) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, "{}")
        with archive.open("runs/1/samples.arrow", "w", force_zip64=True) as member:
            for _ in range(1100):
                member.write(b"\0" * 2**20)
    with pytest.raises(InvalidSpec, match="larger than 1 GiB"):
        import_archive(home, stream.getvalue())


def test_formats_that_hold_one_run_say_so() -> None:
    with pytest.raises(InvalidSpec, match="format script holds one run, and 2 were named"):
        exported("script", PUZZLE)
    assert file_name("archive", ["a-1", "a-2"]) == "vramscope-a-1-a-2.vramscope.zip"
    assert set(FORMATS) == {"csv", "parquet", "html", "markdown", "perfetto", "archive", "script", "memory_viz"}
