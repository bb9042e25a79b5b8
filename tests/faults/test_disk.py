"""A full disk, wherever it is met: what was written is readable, it is said, no job ends for it, no verdict is lost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.runfolder.jsonio import JsonLines, read_json, read_json_lines, write_json
from core.runfolder.tables import EVENTS, SAMPLES, TableWriter, read_table
from core.runs.home import open_home
from core.runs.room import LEAST_FREE, no_room
from core.runs.store import Store
from core.sampler.sampling import DISK_REFUSED
from core.spec.errors import DataFolderError
from core.trace.read import read_trace
from tests.fake_nvml import FakeNvml
from tests.faults.inside import Inside

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 96 MiB of its own."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk can be made only by root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def inside(small: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    one = Inside(small, FakeNvml(), monkeypatch)
    yield one
    one.close()


@contextmanager
def full(place: Path, leave: int = 0) -> Iterator[None]:
    """The disk of `place` with at most `leave` bytes free."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while True:
                free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize - leave
                if free <= 0 or not stream.write(b"\0" * min(free, MIB)):
                    break
        except OSError:
            pass  # full
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes; the kernel's signal for it is ignored, as Python does."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def samples(*times: int) -> dict[str, list[int | None]]:
    return {name: list(times) for name in SAMPLES.names}


def test_a_stream_that_the_disk_refuses_keeps_its_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "samples.arrow"
    with pytest.raises(OSError, match="File too large"), files_of_at_most(4000), TableWriter(path, SAMPLES) as writer:
        for batch in range(100):
            writer.write(samples(*range(batch * 10, batch * 10 + 10)))
    kept = read_table(path, SAMPLES)["t_ns"].to_pylist()
    assert 10 <= len(kept) < 1000
    assert kept == list(range(len(kept)))


def test_a_worker_goes_on_without_the_rows_that_the_disk_refuses(tmp_path: Path) -> None:
    path = tmp_path / "phases.jsonl"
    lines = JsonLines(path)
    with files_of_at_most(100):
        for number in range(20):
            lines.append({"name": "decode", "index": number})
    lines.append({"name": "release", "index": 0})
    assert lines.lost > 0
    rows = read_json_lines(path)
    assert rows[0] == {"name": "decode", "index": 0}
    assert rows[-1] == {"name": "release", "index": 0}, "a line begins anew after the half one"
    assert len(rows) == 21 - lines.lost


def test_a_print_that_the_disk_refuses_does_not_end_a_worker(tmp_path: Path) -> None:
    code = (
        "import signal, resource, sys\nfrom core.worker.banner import flush_output, forgive_output\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "forgive_output()\nfor _ in range(100): print('x' * 100); print('y' * 100, file=sys.stderr)\n"
        "flush_output()\nopen(sys.argv[1], 'w').write('done')\n"
    )
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        subprocess.run([sys.executable, "-c", code, tmp_path / "told"], cwd=ROOT, stdout=out, stderr=err, check=True)
    assert (tmp_path / "told").read_text() == "done"
    assert (tmp_path / "out").stat().st_size == 1000


def test_the_reserve_is_given_up_for_the_result(small: Path) -> None:
    reserve = small / "reserve"
    with reserve.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, MIB)
    with full(small):
        with pytest.raises(OSError, match="No space left"):
            write_json(small / "result.json", {"outcome": "x" * 10_000})
        write_json(small / "result.json", {"outcome": "finished"}, reserve)
    assert (read_json(small / "result.json") or {})["outcome"] == "finished"
    assert not reserve.exists()


def test_a_sampler_on_a_full_disk_leaves_and_what_it_took_is_readable(small: Path, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as worker:
        write_json(small / "worker.json", {"pid": worker.pid})
        command = [sys.executable, "-m", "core.sampler", str(small), "cpu", "1"]
        with (small / "sampler.log").open("ab") as log:
            sampler = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        while read_table(small / "samples.arrow", SAMPLES).num_rows < 10:
            assert sampler.poll() is None
        with full(small):
            assert sampler.wait(120) == DISK_REFUSED
            assert worker.poll() is None
        worker.kill()
    assert read_table(small / "samples.arrow", SAMPLES)["host_rss"].null_count == 0


def test_full_while_a_run_goes_on(inside: Inside, small: Path) -> None:
    """The worker is not killed, its result finds room, its verdict is written as soon as there is some."""
    (run_id,) = inside.submit("until:go")
    inside.until(lambda: inside.status(run_id).state == "running", "it has not started")
    folder = inside.home.run(run_id)
    (folder.root / "go").touch()
    with full(small):
        inside.until(lambda: not inside.supervisor.jobs and not inside.supervisor.finishing, "it has not ended")
        waits = bool(inside.supervisor.records.refused)
        assert inside.status(run_id).ended != waits, "it is written, or kept to be written"
        assert any(inside.home.queue.iterdir()) == waits
    (status,) = inside.until_ended(run_id)
    assert status.state == "finished"
    assert status.trace_incomplete is None or "phases" in status.trace_incomplete
    assert not any(inside.home.queue.iterdir())
    assert not folder.reserve.exists()


def test_a_verdict_that_the_disk_refuses_is_written_later(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.runs.supervisor.records.RETRY_NS", 0)
    (run_id,) = inside.submit("until:go")
    inside.until(lambda: inside.status(run_id).state == "running", "it has not started")
    (inside.home.run(run_id).root / "go").touch()

    def refuse(folder: object, status: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("core.runs.supervisor.records.write_status", refuse)
        inside.until(lambda: run_id in inside.supervisor.records.refused, "nothing was refused")
        inside.until(lambda: inside.supervisor.records.refused[run_id][1].ended, "it has not ended")
        assert inside.status(run_id).state == "running", "what the disk says"
        assert any(inside.home.queue.iterdir()), "the ticket stays: a next supervisor would look at it"
    assert inside.until_ended(run_id)[0].state == "finished"


def test_full_while_finishing_keeps_the_samples(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.runs.supervisor.finish.write_events", refuse)
    (run_id,) = inside.submit("until:go")
    inside.until(lambda: inside.status(run_id).state == "running", "it has not started")
    folder = inside.home.run(run_id)
    with TableWriter(folder.samples, SAMPLES) as writer:
        writer.write(samples(1, 2, 3))
    folder.snapshot.write_bytes(b"a history")
    (folder.root / "go").touch()
    (status,) = inside.until_ended(run_id)
    assert status.state == "finished"
    assert status.trace_incomplete and "No space left on device" in status.trace_incomplete
    assert read_table(folder.events, EVENTS).num_rows == 0
    assert len(read_trace(folder).series["host_rss"].values) >= 3


def test_full_in_the_index_costs_the_list_and_not_the_run(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.exc import OperationalError

    def refuse(run_ids: object) -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    with monkeypatch.context() as patched:
        patched.setattr(inside.supervisor.records.store, "put_runs", refuse)
        (run_id,) = inside.submit("finish")
        assert inside.until_ended(run_id)[0].state == "finished"
    assert Store(inside.home).list_runs()[0].state == "queued"
    Store(inside.home).reindex()
    assert Store(inside.home).list_runs()[0].state == "finished"


def test_the_next_run_is_refused_with_the_reason(inside: Inside, small: Path) -> None:
    (waiting,) = inside.submit("finish")
    with full(small, leave=MIB):
        assert "MiB free and a run needs 64 MiB" in (no_room(inside.home) or "")
        with pytest.raises(DataFolderError, match="delete runs or move the folder"):
            inside.submit("finish")
        inside.ticks(20)
        assert inside.status(waiting).state == "queued", "what was taken waits, and is not failed"
    assert no_room(inside.home) is None
    assert inside.until_ended(waiting)[0].state == "finished"
    assert len(list(inside.home.runs.iterdir())) == 1
    assert LEAST_FREE == 64 * MIB


def test_a_read_only_disk_is_said(small: Path) -> None:
    open_home(small / "home")
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    with pytest.raises(DataFolderError, match=r"cannot be written \(Read-only file system\); set VRAMSCOPE_HOME"):
        open_home(small / "home")
