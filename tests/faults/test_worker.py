"""Whatever a worker does, its run ends with the right state, its last phase named, and nothing of it left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from core.devices.memory_kills import memory_kills
from core.runfolder.jsonio import JsonLines, read_json
from core.runfolder.layout import RunFolder
from core.runfolder.tables import SAMPLES, read_table
from core.runs.cancel import cancel
from core.runs.home import DataHome
from core.runs.supervisor.finish import outcome
from core.runs.supervisor.logs import MOST_BYTES
from tests.fake_worker import TOKEN
from tests.runs.conftest import Acts, alive, eventually, starts, wait_ended, wait_for

# without INT and PIPE, of which Python makes exceptions
FATAL = ("SEGV", "ABRT", "BUS", "FPE", "ILL", "TRAP", "SYS", "KILL", "TERM", "QUIT", "HUP", "XCPU", "ALRM", "USR1")


def test_every_fatal_signal_is_named_with_the_phase(home: DataHome, act: Acts) -> None:
    ids = act(*(f"signal:{name}" for name in FATAL)).run_ids
    for name, run_id in zip(FATAL, ids, strict=True):
        status = wait_ended(home, run_id, 120)
        assert status.error
        assert (status.state, status.error.kind, status.error.phase) == ("failed", "signal", "load")
        assert f"ended by SIG{name} in load" in status.error.message


def test_an_exit_without_a_result_is_a_failure_whatever_its_code(home: DataHome, act: Acts) -> None:
    codes = (0, 1, 3, 77, 255)
    for code, run_id in zip(codes, act(*(f"exit:{code}" for code in codes)).run_ids, strict=True):
        error = wait_ended(home, run_id, 120).error
        assert error and error.message == f"the worker left with exit code {code} in load: cannot allocate a thing"


def test_a_python_exception_and_a_cuda_oom_are_results(home: DataHome, act: Acts) -> None:
    raised, oom = act("token", "oom").run_ids
    status = wait_ended(home, raised)
    assert (status.state, status.error and status.error.kind) == ("failed", "exception")
    status = wait_ended(home, oom)
    assert (status.state, status.error and status.error.requested_bytes) == ("oom", 642 * 2**20)


def test_a_host_memory_kill_is_claimed_only_when_the_counter_rose(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    JsonLines(folder.phases).append({"name": "decode", "index": 12})
    state, failure = outcome(folder, -signal.SIGKILL, memory_kills=1)
    assert (state, failure and failure.kind, failure and failure.phase) == ("failed", "host_oom", "decode 12")
    _, failure = outcome(folder, -signal.SIGKILL, memory_kills=0)
    assert failure and (failure.kind, failure.message) == ("signal", "the worker was ended by SIGKILL in decode 12")
    _, failure = outcome(folder, -signal.SIGSEGV, memory_kills=1)
    assert failure and failure.kind == "signal", "the counter rose for another process"


@pytest.mark.parametrize(
    ("mine", "files", "count"),
    [
        ("0::/job/7\n", {"job/7/memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 9\n"}, 2),
        ("0::/\n", {"memory.events": "oom_kill 0\n"}, 0),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"}, 5),
        ("4:cpu,memory:/host\n", {"memory/memory.oom_control": "oom_kill 1\n"}, 1),
        ("0::/\n", {}, None),
        ("4:memory:/a\n", {"memory/a/memory.oom_control": "oom_kill_disable 0\n"}, None),
        ("0::/\n", {"memory.events": "oom_kill many\n"}, None),
    ],
)
def test_the_kill_counter_of_both_kinds_of_control_group(
    tmp_path: Path, mine: str, files: dict[str, str], count: int | None
) -> None:
    (tmp_path / "cgroup").write_text(mine)
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory_kills(tmp_path / "cgroup", tmp_path / "fs") == count
    assert memory_kills(tmp_path / "none", tmp_path / "fs") is None


@pytest.mark.parametrize("word", ["import", "hang", "native", "deaf"])
def test_a_hang_ends_at_its_time_limit(home: DataHome, act: Acts, word: str) -> None:
    (run_id,) = act(word, timeout_s=1.5).run_ids
    status = wait_ended(home, run_id, 90)
    assert status.state == "timed_out"
    assert status.error
    assert status.error.phase == (None if word == "import" else "load")
    assert not any(alive(pid) for pid in starts(home, run_id))


@pytest.mark.parametrize("word", ["deaf", "native"])
def test_one_that_ignores_every_polite_signal_is_cancelled_all_the_same(home: DataHome, act: Acts, word: str) -> None:
    (run_id,) = act(word).run_ids
    eventually((home.runs / run_id / "deaf").exists, "the worker has not come so far")
    os.kill(starts(home, run_id)[0], signal.SIGTERM)
    cancel(home, [run_id])
    assert wait_ended(home, run_id).state == "cancelled"
    assert not alive(starts(home, run_id)[0])


def test_a_stopped_worker_is_ended_at_its_time_limit(home: DataHome, act: Acts) -> None:
    (run_id,) = act("hang", timeout_s=2).run_ids
    wait_for(home, run_id, lambda _status: bool(starts(home, run_id)))
    (pid,) = starts(home, run_id)
    os.kill(pid, signal.SIGSTOP)
    assert wait_ended(home, run_id).state == "timed_out"
    assert not alive(pid)


def test_a_flood_of_output_does_not_fill_the_disk(home: DataHome, act: Acts) -> None:
    (run_id,) = act("flood:200").run_ids
    status = wait_ended(home, run_id, 120)
    assert status.state == "finished"
    folder = home.run(run_id)
    for log in (folder.stdout, folder.stderr):
        data = log.read_bytes()
        assert len(data) <= MOST_BYTES
        assert b"what is missing here was cut out" in data
        assert data[:5] in (b'{"act', b"xxxxx"), "the beginning is kept"


def test_a_grandchild_in_a_session_of_its_own_is_gone_before_the_run_is_over(home: DataHome, act: Acts) -> None:
    (run_id,) = act("orphan").run_ids
    assert wait_ended(home, run_id).state == "finished"
    assert not alive(int((home.runs / run_id / "orphan").read_text()))


def test_a_trace_that_was_cut_short_is_read(home: DataHome, act: Acts) -> None:
    (run_id,) = act("hang").run_ids
    folder = home.run(run_id)
    eventually(lambda: any(read_table(folder.samples, SAMPLES)["host_rss"].to_pylist()), "no sample of the worker")
    os.kill(starts(home, run_id)[0], signal.SIGKILL)
    status = wait_ended(home, run_id)
    assert status.error and status.error.message == "the worker was ended by SIGKILL in load"
    assert status.peak.host_rss


def test_a_worker_gets_a_minimal_environment(home: DataHome, act: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("VRAMSCOPE_ANYTHING", "x")
    (run_id,) = act("environment").run_ids
    wait_ended(home, run_id)
    got = read_json(home.runs / run_id / "environment.json") or {}
    assert not [value for value in got.values() if value in (TOKEN, "secret", "x")]
    assert got["VRAMSCOPE_RUN"] == run_id
    assert got["PYTHONSAFEPATH"] == "1"


def test_a_token_reaches_no_log_no_status_and_no_result(home: DataHome, act: Acts) -> None:
    (run_id,) = act("token").run_ids
    status = wait_ended(home, run_id)
    assert status.error and status.error.message == "the hub refused [token removed]"
    for path in home.root.rglob("*"):
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes(), path.name
    assert "[token removed]" in home.run(run_id).stdout.read_text()
