"""The process model: runs outlive whoever submitted them, end whole, and are never forgotten or run twice."""

from __future__ import annotations

import json
import os
import shutil
import signal

import psutil
import pytest

from core.runfolder.tables import SAMPLES, read_table
from core.runs.cancel import cancel
from core.runs.home import DataHome
from core.runs.start import look_after
from core.runs.status import read_status
from core.runs.store import Store
from tests.runs.conftest import Acts, alive, eventually, starts, supervisors, wait_ended, wait_for


def test_a_run_finishes_with_its_result_samples_and_row(home: DataHome, act: Acts) -> None:
    (run_id,) = act("sampled").run_ids
    status = wait_ended(home, run_id, 90)
    assert (status.state, status.error) == ("finished", None)
    assert (status.peak.allocated, status.peak.reserved) == (7, 9), "torch's counters come from the result"
    assert status.peak.host_rss
    assert status.peak.process_used
    samples = read_table(home.run(run_id).samples, SAMPLES)
    assert samples["host_rss"].to_pylist()[-1] == 0
    assert status.seconds
    eventually(lambda: not list(home.queue.iterdir()), "the ticket goes last, after the status and the index")
    (row,) = Store(home).list_runs()
    assert (row.run_id, row.state, row.peak.allocated) == (run_id, "finished", 7)


@pytest.mark.parametrize(
    ("word", "state", "kind", "message"),
    [
        ("signal:SEGV", "failed", "signal", "the worker was ended by SIGSEGV in load"),
        ("exit:3", "failed", "exit", "the worker left with exit code 3 in load: cannot allocate a thing"),
    ],
)
def test_a_worker_that_dies_says_how_and_where(
    home: DataHome, act: Acts, word: str, state: str, kind: str, message: str
) -> None:
    (run_id,) = act(word).run_ids
    status = wait_ended(home, run_id)
    assert status.state == state
    assert status.error
    assert (status.error.kind, status.error.message, status.error.phase) == (kind, message, "load")


def test_two_slots_and_first_come_first_served(home: DataHome, act: Acts) -> None:
    ids = act("sleep:0.6", "sleep:0.6", "finish", "finish").run_ids
    ended = [wait_ended(home, run_id) for run_id in ids]
    started = [status.started_at or 0 for status in ended]
    assert started == sorted(started)
    assert started[2] >= min(status.ended_at or 0 for status in ended[:2]) - 0.5
    assert all(len(starts(home, run_id)) == 1 for run_id in ids)


@pytest.mark.parametrize("word", ["hang", "deaf"])
def test_cancel_ends_the_whole_tree_and_can_be_asked_twice(home: DataHome, act: Acts, word: str) -> None:
    (run_id,) = act(word).run_ids
    wait_for(home, run_id, lambda _status: bool(starts(home, run_id)))
    assert cancel(home, [run_id]) == [run_id]
    cancel(home, [run_id])
    status = wait_ended(home, run_id)
    assert status.state == "cancelled"
    assert not psutil.pid_exists(starts(home, run_id)[0])
    assert cancel(home, [run_id]) == [], "what has ended is left alone"


def test_a_queued_run_is_cancelled_without_having_started(home: DataHome, act: Acts) -> None:
    first, second, third = act("hang", "hang", "finish").run_ids
    wait_for(home, second, lambda status: status.state == "running")
    cancel(home, [third])
    assert wait_ended(home, third).state == "cancelled"
    assert starts(home, third) == []
    cancel(home, [first, second])
    assert wait_ended(home, first).state == wait_ended(home, second).state == "cancelled"


def test_time_limit(home: DataHome, act: Acts) -> None:
    (run_id,) = act("deaf", timeout_s=0.5).run_ids
    status = wait_ended(home, run_id, 60)
    assert (status.state, status.error and status.error.message) == (
        "timed_out",
        "not done after timeout_s=0.5 seconds in load",
    )


def test_a_grandchild_in_its_own_session_is_ended_too(home: DataHome, act: Acts) -> None:
    (run_id,) = act("orphan").run_ids
    assert wait_ended(home, run_id).state == "finished"
    orphan = int((home.runs / run_id / "orphan").read_text())
    assert not alive(orphan), "the run has not ended before its last process"


def test_a_killed_supervisor_is_replaced_and_its_worker_kept(home: DataHome, act: Acts) -> None:
    first, second, third = act("sleep:2", "hang", "finish").run_ids
    wait_for(home, second, lambda _status: bool(starts(home, first) and starts(home, second)))
    for process in supervisors(home):
        process.send_signal(signal.SIGKILL)
        process.wait(10)  # a signal is not a death: until then it holds the lock
    os.kill(starts(home, second)[0], signal.SIGKILL)  # one worker dies while nobody watches
    late = act("finish").run_ids[0]  # whoever comes next starts a supervisor again
    assert wait_ended(home, first).state == "finished", "adopted while it ran"
    assert wait_ended(home, second).state == "lost"
    assert wait_ended(home, third).state == "finished"
    assert wait_ended(home, late).state == "finished"
    assert [len(starts(home, i)) for i in (first, second, third, late)] == [1, 1, 1, 1]
    assert read_table(home.run(second).samples, SAMPLES).num_rows > 0, "what was flushed is kept"


def test_whoever_watches_replaces_a_supervisor_that_died_unseen(home: DataHome, act: Acts) -> None:
    (run_id,) = act("sleep:2").run_ids
    wait_for(home, run_id, lambda _status: bool(starts(home, run_id)))
    for process in supervisors(home):
        process.kill()
        process.wait(10)
    look_after(home)
    assert wait_ended(home, run_id).state == "finished"
    assert len(starts(home, run_id)) == 1


def test_a_supervisor_ends_when_its_data_folder_has_gone(home: DataHome, act: Acts) -> None:
    (run_id,) = act("hang").run_ids
    wait_for(home, run_id, lambda _status: bool(starts(home, run_id)))
    (pid,) = starts(home, run_id)
    (supervisor,) = supervisors(home)
    shutil.rmtree(home.root)
    supervisor.wait(timeout=60)
    eventually(lambda: not alive(pid), "a worker without a data folder still runs")


def test_an_unknown_environment_never_starts(home: DataHome, act: Acts) -> None:
    home.settings.write_text(json.dumps({"environments": {}}))
    (run_id,) = act("finish").run_ids
    status = wait_ended(home, run_id)
    assert (status.state, status.error and status.error.kind) == ("failed", "start")


def test_statuses_read_back_as_written(home: DataHome, act: Acts) -> None:
    (run_id,) = act("finish").run_ids
    status = wait_ended(home, run_id)
    assert read_status(home.run(run_id)) == status
