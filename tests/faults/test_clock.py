"""The wall clock may jump and the machine may sleep: nothing that is measured or decided depends on it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from core.devices.process import identity, same_process
from core.runfolder.history import events_table
from core.runs.home import open_home
from core.runs.store import Store
from core.runs.submit import PreparedRun, submit
from core.runs.supervisor.job import Job
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
from tests.fake_nvml import FakeNvml
from tests.faults.inside import Inside

S = 10**9


def test_runs_keep_their_order_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.runs.submit.ensure_supervisor", lambda home: None)
    home = open_home(tmp_path)
    spec = parse_spec({"model": "gpt2", "device": "cpu"})
    now = time.time_ns()
    ids: list[str] = []
    for jump in (0, -3600 * S, 7200 * S, -(10**6) * S):
        monkeypatch.setattr("core.runs.submit.time.time_ns", lambda jump=jump: now + jump)
        ids += submit(home, [PreparedRun(spec, resolve(spec))] * 2).run_ids
    assert [path.name.rpartition(".")[2] for path in sorted(home.queue.iterdir())] == ids
    assert [row.run_id for row in Store(home).queue()] == ids
    for ticket in home.queue.iterdir():
        ticket.unlink()
    Store(home).reindex()
    assert [path.name.rpartition(".")[2] for path in sorted(home.queue.iterdir())] == ids, "also when built again"


@pytest.mark.parametrize("jump_s", [-86_400, 86_400])
def test_durations_and_limits_are_monotonic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: int) -> None:
    inside = Inside(tmp_path, FakeNvml(), monkeypatch)
    try:
        (run_id,) = inside.submit("until:go", timeout_s=120)
        inside.until(lambda: inside.status(run_id).state == "running", "it has not started")
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + jump_s)
        inside.ticks(5)
        assert inside.status(run_id).state == "running", "no time limit passed"
        (inside.home.run(run_id).root / "go").touch()
        (status,) = inside.until_ended(run_id)
        assert status.state == "finished"
        assert status.seconds and 0 < status.seconds < 120
    finally:
        inside.close()


def test_a_process_is_known_again_after_the_clock_jumped(monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil adds the time of boot, which the kernel derives from the wall clock, to when a process was started."""
    me = psutil.Process().pid
    known, by_psutil = identity(me), psutil.Process(me).create_time()
    boot = psutil._pslinux.boot_time
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot() - 3600)
    assert abs(psutil.Process(me).create_time() - by_psutil) > 1800
    assert identity(me) == known
    assert same_process(me, known)


def test_a_time_limit_does_not_count_what_a_laptop_slept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLOCK_MONOTONIC stands still while the machine is suspended, the wall clock does not."""
    inside = Inside(tmp_path, FakeNvml(), monkeypatch)
    try:
        (run_id,) = inside.submit("until:go", timeout_s=60)
        inside.until(lambda: inside.supervisor.jobs, "it has not started")
        job: Job = inside.supervisor.jobs[run_id]
        started = job.status.t0_ns or 0
        assert job._reason_to_end(started + 59 * S) is None
        ended = job._reason_to_end(started + 61 * S)
        assert ended and ended[0] == "timed_out"
        (inside.home.run(run_id).root / "go").touch()
        inside.until_ended(run_id)
    finally:
        inside.close()


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0, 5.0, -5.0])
@pytest.mark.parametrize("at", [0, 1, 7, 19, 20])
def test_events_stay_where_they_were_when_the_clock_jumps_in_mid_run(jump_s: float, at: int) -> None:
    """torch stamps events by the wall clock; the first `at` of 20 come before it jumps."""
    mono = np.arange(1, 21) * S // 2 + 1000 * S
    wall_0 = 1_700_000_000 * S
    wall = mono - 1000 * S + wall_0 + (np.arange(20) >= at) * round(jump_s * S)
    trace = [{"action": "alloc", "addr": 1, "size": 1, "stream": 0, "time_us": int(t // 1000)} for t in wall]
    end = 1011 * S
    clock = {"start": [1000 * S, wall_0], "end": [end, wall_0 + 11 * S + round(jump_s * S)]}
    t_ns = np.asarray(events_table(trace, clock, [])["t_ns"])
    assert np.abs(t_ns - mono).max() < 10_000
