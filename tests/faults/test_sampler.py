"""A sampler that dies or is slow costs samples, never the run; what is missing is null, said, and shaded."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from core.runfolder.intervals import gaps
from core.runfolder.jsonio import read_json
from core.runfolder.tables import SAMPLES, TableWriter, read_table
from core.runs.home import DataHome, open_home
from core.sampler.__main__ import stream_of
from core.trace.read import read_trace
from tests.make_run import make_run
from tests.runs.conftest import Acts, alive, eventually, starts, wait_ended, wait_for

MS = 1_000_000


def sampler_of(home: DataHome, run_id: str, other_than: int = 0) -> int:
    """The pid of the run's sampler, once it has begun."""
    found: list[int] = []

    def begun() -> bool:
        pid = int((read_json(home.run(run_id).sampler) or {}).get("pid", 0))
        found[:] = [pid] if pid and pid != other_than else []
        return bool(found)

    eventually(begun, "no sampler has begun")
    return found[0]


def rows(home: DataHome, run_id: str) -> int:
    return int(read_table(home.run(run_id).samples, SAMPLES).num_rows)


def test_a_sampler_that_dies_is_started_again_once(home: DataHome, act: Acts) -> None:
    (run_id,) = act("until:go").run_ids
    first = sampler_of(home, run_id)
    eventually(lambda: rows(home, run_id) > 0, "nothing was sampled")
    kept = rows(home, run_id)
    os.kill(first, signal.SIGKILL)
    second = sampler_of(home, run_id, first)
    eventually(lambda: rows(home, run_id) > kept, "nothing was sampled after it was started again")
    os.kill(second, signal.SIGKILL)
    wait_for(home, run_id, lambda _status: not alive(second))
    until = rows(home, run_id)
    (home.run(run_id).root / "go").touch()
    status = wait_ended(home, run_id)
    assert status.state == "finished", "the run goes on"
    assert (
        status.trace_incomplete
        == "nothing was sampled for a while: the sampler was ended by SIGKILL, and was started again"
    )
    assert rows(home, run_id) == until >= kept
    assert len(starts(home, run_id)) == 1


def test_samples_before_a_restart_stand_and_the_gap_between_is_null(tmp_path: Path) -> None:
    folder = make_run(open_home(tmp_path), "aaaaaa-1")
    before = read_table(folder.samples, SAMPLES)
    last = before["t_ns"][-1].as_py()
    with stream_of(folder) as writer:
        assert read_table(folder.samples, SAMPLES).num_rows == before.num_rows, "nothing is lost while it starts"
        writer.write({name: [last + 3000 * MS] if name == "t_ns" else [7] for name in SAMPLES.names})
    after = read_table(folder.samples, SAMPLES)
    assert after["device_used"].to_pylist() == [*before["device_used"].to_pylist(), 7]
    trace = read_trace(folder)
    assert trace.gaps == ((last, last + 3000 * MS),)
    used = trace.series["device_used"]
    assert np.isnan(used.values[used.t_ns == last + 1]).all()
    assert used.values[-1] == 7


def test_a_slow_sampler_and_one_that_ended_early_leave_gaps() -> None:
    second = 10**9
    t_ns = np.array([0, 1, 2, 5, 6]) * second
    assert gaps(t_ns, 10.0) == ((0, second), (second, 2 * second), (2 * second, 5 * second), (5 * second, 6 * second))
    assert gaps(t_ns, 200.0) == ((2 * second, 5 * second),)
    assert gaps(t_ns, 200.0, 9 * second) == ((2 * second, 5 * second), (6 * second, 9 * second))
    assert gaps(t_ns, 200.0, 3 * second) == ((2 * second, 5 * second),), "it went on after the worker"
    assert gaps(t_ns[:0], 10.0, second) == ()


def test_a_sampler_that_hangs_is_ended_after_its_run(home: DataHome, act: Acts) -> None:
    (run_id,) = act("until:go").run_ids
    pid = sampler_of(home, run_id)
    os.kill(pid, signal.SIGSTOP)
    (home.run(run_id).root / "go").touch()
    assert wait_ended(home, run_id).state == "finished"
    assert not alive(pid)


@pytest.mark.parametrize("order", ["sampler first", "worker first"])
def test_both_die_at_once(home: DataHome, act: Acts, order: str) -> None:
    (run_id,) = act("until:go").run_ids
    pids = [sampler_of(home, run_id), *starts(home, run_id)]
    for pid in pids if order == "sampler first" else reversed(pids):
        os.kill(pid, signal.SIGKILL)
    status = wait_ended(home, run_id)
    assert status.error and status.error.message == "the worker was ended by SIGKILL in load"


def test_a_stream_continues_only_where_there_is_one(tmp_path: Path) -> None:
    folder = make_run(open_home(tmp_path), "aaaaaa-1")
    folder.samples.write_bytes(b"no arrow")
    with stream_of(folder) as writer:
        assert isinstance(writer, TableWriter)
    assert read_table(folder.samples, SAMPLES).num_rows == 0
