"""What the processes of a run agree on: whole documents, and tables that may be cut anywhere."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from core.runfolder.jsonio import JsonLines, read_json, read_json_lines, write_json
from core.runfolder.tables import SAMPLES, TableWriter, read_table


def rows(*times: int) -> dict[str, list[int | None]]:
    return {name: list(times) if name == "t_ns" else [None, *times[1:]] for name in SAMPLES.names}


def test_every_cut_of_a_stream_reads_its_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "samples.arrow"
    ends = []
    with TableWriter(path, SAMPLES) as writer:
        for batch in range(3):
            writer.write(rows(*range(batch * 10, batch * 10 + 10)))
            ends.append(path.stat().st_size)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        table = read_table(path, SAMPLES)
        table.validate(full=True)
        assert table["t_ns"].to_pylist() == list(range(10 * sum(cut >= end for end in ends)))


def test_nulls_stay_nulls_and_versions_are_written(tmp_path: Path) -> None:
    with TableWriter(tmp_path / "s.arrow", SAMPLES) as writer:
        writer.write(rows(1, 2))
    table = read_table(tmp_path / "s.arrow", SAMPLES)
    assert table["device_used"].to_pylist() == [None, 2]
    assert table.schema.metadata[b"schema_version"] == b"1"


@pytest.mark.parametrize("content", [b"", b"not an arrow stream at all", b"\xff\xff\xff\xff\xff\xff\xff\x7f" * 4])
def test_a_file_that_is_no_stream_reads_as_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.arrow").write_bytes(content)
    assert read_table(tmp_path / "s.arrow", SAMPLES).num_rows == 0
    assert read_table(tmp_path / "missing.arrow", SAMPLES).num_rows == 0


def test_a_json_document_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    write_json(path, {"state": "queued"})
    code = (
        "import sys, resource, signal; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path; from core.runfolder.jsonio import write_json\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "write_json(Path(sys.argv[1]), {'state': 'x' * 10_000})\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100
    done = subprocess.run([sys.executable, "-c", code, str(path), root], capture_output=True, text=True, check=False)
    assert "File too large" in done.stderr
    assert read_json(path) == {"schema_version": 1, "state": "queued"}
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


def test_damaged_documents_read_as_none(tmp_path: Path) -> None:
    for content in ("", "{", "[1]", "[" * 100_000):
        (tmp_path / "x.json").write_text(content)
        assert read_json(tmp_path / "x.json") is None
    assert read_json(tmp_path / "missing.json") is None


def test_json_lines_survive_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "phases.jsonl"
    lines = JsonLines(path)
    lines.append({"name": "load"})
    lines.append({"name": "prefill"})
    assert len(read_json_lines(path)) == 2, "each row is readable at once"
    lines.close()
    path.write_bytes(path.read_bytes()[:-4])
    assert read_json_lines(path) == [{"name": "load"}]
    assert read_json_lines(tmp_path / "missing.jsonl") == []
