"""The supervisor killed at any moment, and many who submit at once: nothing is lost, forgotten or run twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from core.devices.process import identity, same_process
from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import SAMPLER_TAG
from core.runfolder.tables import SAMPLES, read_table
from core.runs.home import DataHome
from core.runs.start import look_after
from core.runs.status import read_status
from core.runs.store import Store
from core.runs.supervisor.processes import tagged
from tests.faults.storm import Storm, crowd, judged
from tests.runs.conftest import Acts, alive, eventually, kill_supervisors, starts, supervisors, wait_ended, wait_for


def test_killed_at_random_moments_it_loses_nothing(home: DataHome, act: Acts) -> None:
    seed = random.randrange(2**32)
    ids = act("until:go", *(["sleep:0.1", "finish", "sleep:0.4", "signal:KILL"] * 2)).run_ids
    counts = Storm(home, random.Random(seed)).kill(10, ids)
    assert counts.lost == 0, f"seed {seed}: {counts}"
    assert (counts.injected, counts.survived) == (10, 10)
    verdict = judged(home, ids)
    assert verdict.forgotten == verdict.twice == 0, f"seed {seed}: {verdict}"


def test_many_processes_submit_to_two_cards(tmp_path: Path) -> None:
    verdict = crowd(tmp_path, processes=3, runs_each=40)
    assert verdict.submitted == verdict.ended == 120
    assert (verdict.twice, verdict.forgotten, verdict.shared, verdict.out_of_order) == (0, 0, 0, 0)


def test_a_reused_pid_is_not_taken_for_the_worker(home: DataHome, act: Acts) -> None:
    (run_id,) = act("until:go").run_ids
    folder = home.run(run_id)
    wait_for(home, run_id, lambda status: status.state == "running" and bool(starts(home, run_id)))
    kill_supervisors(home)
    (pid,) = starts(home, run_id)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid), "the worker was killed")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as stranger:
        known = read_json(folder.worker) or {}
        write_json(folder.worker, {**known, "pid": stranger.pid})  # as if the kernel had given the pid away
        look_after(home)
        assert wait_ended(home, run_id).state == "lost"
        assert stranger.poll() is None, "and it is left alone"
        stranger.kill()


def test_an_identity_is_that_of_one_process_only() -> None:
    me = identity(os.getpid())
    assert me and me == identity(os.getpid())
    assert me != identity(os.getppid())
    assert identity(2**22 + 1) is None
    assert same_process(os.getpid(), me)
    assert same_process(os.getpid(), f"{me}1") is None
    assert same_process(None, None) is None
    child = subprocess.Popen([sys.executable, "-c", ""])
    known = identity(child.pid)
    eventually(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, "it has not ended")
    assert same_process(child.pid, known) is None, "a zombie is not alive"
    child.wait()


def test_killed_between_the_worker_and_its_pid_the_worker_is_found_by_its_tag(home: DataHome, act: Acts) -> None:
    (run_id,) = act("until:go").run_ids
    folder = home.run(run_id)
    wait_for(home, run_id, lambda status: status.state == "running" and bool(starts(home, run_id)))
    kill_supervisors(home)
    folder.worker.unlink()
    look_after(home)
    eventually(lambda: bool(supervisors(home)), "no supervisor came back")
    (folder.root / "go").touch()
    assert wait_ended(home, run_id).state == "finished"
    assert len(starts(home, run_id)) == 1


def test_killed_before_the_worker_its_sampler_is_ended_and_the_run_starts_anew(home: DataHome, act: Acts) -> None:
    (run_id,) = act("until:go").run_ids
    folder = home.run(run_id)
    wait_for(home, run_id, lambda status: status.state == "running" and bool(starts(home, run_id)))
    eventually(lambda: read_table(folder.samples, SAMPLES).num_rows > 0, "nothing was sampled")
    kill_supervisors(home)
    (pid,) = starts(home, run_id)
    os.kill(pid, signal.SIGKILL)
    for path in (folder.worker, folder.phases, folder.root / "starts"):
        path.unlink()  # as it is when the supervisor dies just before it starts the worker
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={SAMPLER_TAG: run_id})
    look_after(home)
    eventually(lambda: bool(starts(home, run_id)), "the run was not started again")
    assert orphan.wait(60) == -signal.SIGKILL
    assert len(list(tagged(run_id, SAMPLER_TAG))) <= 1
    (folder.root / "go").touch()
    assert wait_ended(home, run_id).state == "finished"


def test_two_supervisors_at_once_are_one(home: DataHome, act: Acts) -> None:
    (run_id,) = act("until:go").run_ids
    command = [sys.executable, "-m", "core.runs.supervisor", str(home.root)]
    root = Path(__file__).resolve().parents[2]
    wait_for(home, run_id, lambda status: status.state == "running")
    assert subprocess.run(command, cwd=root, timeout=60, check=False).returncode == 0, "it leaves at once"
    (home.run(run_id).root / "go").touch()
    assert wait_ended(home, run_id).state == "finished"
    assert len(starts(home, run_id)) == 1


def test_runs_outlive_who_submitted_them(home: DataHome, act: Acts, tmp_path: Path) -> None:
    """The server, or a command line, is killed with its whole process group while its run goes on."""
    root = Path(__file__).resolve().parents[2]
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom core.runs.home import open_home\n"
        "from core.runs.submit import PreparedRun, submit\nfrom core.spec.model_source import resolve\n"
        "from core.spec.run_spec import parse_spec\n"
        "spec = parse_spec({'model': 'tiny-llama', 'device': 'cpu', 'environment': 'fake'})\n"
        "ids = submit(open_home(sys.argv[1]), [PreparedRun(spec, resolve(spec), (), 'until:go')]).run_ids\n"
        "Path(sys.argv[2]).write_text(ids[0])\ntime.sleep(600)\n"
    )
    told = tmp_path / "told"
    client = subprocess.Popen([sys.executable, "-c", code, home.root, told], cwd=root, start_new_session=True)
    eventually(lambda: told.exists() and bool(told.read_text()), "it was not submitted")
    run_id = told.read_text()
    wait_for(home, run_id, lambda status: status.state == "running")
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    (home.run(run_id).root / "go").touch()
    assert wait_ended(home, run_id).state == "finished"


def test_a_supervisor_stays_up_when_the_index_does_not(home: DataHome, act: Acts) -> None:
    first, second = act("until:go", "until:go").run_ids
    wait_for(home, first, lambda status: status.state == "running")
    home.index.write_bytes(b"no database" * 1000)
    for run_id in (first, second):
        (home.run(run_id).root / "go").touch()
    assert wait_ended(home, first).state == wait_ended(home, second).state == "finished"
    assert {row.state for row in Store(home).list_runs()} == {"finished"}


@pytest.mark.parametrize("damage", ["", "{", '{"state": "nonsense"}', '{"state": "running", "run_id": 5}'])
def test_a_damaged_status_stops_no_other_run(home: DataHome, act: Acts, damage: str) -> None:
    kill = home.run(act("finish").run_ids[0])
    wait_ended(home, kill.run_id)
    kill_supervisors(home)
    kill.status.write_text(damage)
    (home.queue / f"{time.time_ns():020d}.0001.{kill.run_id}").touch()
    (later,) = act("finish").run_ids
    assert wait_ended(home, later).state == "finished"
    assert read_status(home.run(later))
