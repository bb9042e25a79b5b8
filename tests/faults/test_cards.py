"""A card goes to the next run only when it is as it was; what others do on it is said, and they are left alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from core.devices.device import Reading
from core.devices.nvml import Nvml
from core.devices.registry import list_devices, open_meter
from core.runfolder.intervals import contended
from core.runfolder.layout import RUN_TAG
from core.runfolder.tables import SAMPLES, TableWriter
from core.runs.quarantine import quarantines
from core.runs.supervisor.cards import LOOK_NS
from core.runs.supervisor.returning import PATIENCE_NS, SLACK, baseline_of, stayed
from core.trace.read import read_trace
from tests.fake_nvml import FakeCard, FakeNvml
from tests.faults.inside import Inside
from tests.make_run import make_run

MIB = 2**20
A, B = "cuda:GPU-aaaa", "cuda:GPU-bbbb"


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    one = Inside(tmp_path, FakeNvml(FakeCard("GPU-aaaa", used=500 * MIB), FakeCard("GPU-bbbb")), monkeypatch)
    yield one
    one.close()


@pytest.fixture
def foreign() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.runs.supervisor.cards.PATIENCE_NS", 0)
    monkeypatch.setattr("core.runs.supervisor.cards.LOOK_NS", 0)
    assert PATIENCE_NS > 0 < LOOK_NS


def test_memory_that_stays_is_waited_for(inside: Inside) -> None:
    card = inside.fake.cards[0]
    first, second = inside.submit("until:go", "finish", device=A)
    inside.until(lambda: inside.supervisor.jobs, "the first has not started")
    card.used += 3000 * MIB  # what the run holds, and the driver takes its time to give back
    (inside.home.run(first).root / "go").touch()
    job = inside.supervisor.jobs[first]
    inside.until(lambda: job.gone_ns and job._swept, "the worker has not gone")
    inside.ticks(50)
    assert inside.status(second).state == "queued", "the card is not free yet"
    assert not quarantines(inside.home)
    card.used -= 3000 * MIB
    ended = inside.until_ended(first, second)
    assert [status.state for status in ended] == ["finished", "finished"]
    assert (ended[1].started_at or 0) >= (ended[0].started_at or 0)


def test_memory_that_does_not_come_back_quarantines_the_card_and_no_other(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    card = inside.fake.cards[0]
    first, second = inside.submit("until:go", "finish", device=A)
    inside.until(lambda: inside.supervisor.jobs, "the first has not started")
    card.used += 3000 * MIB
    (inside.home.run(first).root / "go").touch()
    assert inside.until_ended(first)[0].state == "finished"
    one = quarantines(inside.home)[A]
    assert (one.run_id, one.message) == (first, "3,000.0 MiB of it stayed")
    (elsewhere,) = inside.submit("finish", device=B)
    assert inside.until_ended(elsewhere)[0].state == "finished", "runs on other cards go on"
    assert inside.status(second).state == "queued"
    card.used -= 3000 * MIB
    assert inside.until_ended(second)[0].state == "finished", "released when its memory is back"
    assert not quarantines(inside.home)


def test_a_quarantine_survives_the_supervisor(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    (first,) = inside.submit("until:go", device=A)
    inside.until(lambda: inside.supervisor.jobs, "the first has not started")
    inside.fake.cards[0].used += 100 * MIB
    (inside.home.run(first).root / "go").touch()
    inside.until_ended(first)
    assert type(inside.supervisor.cards)(inside.home).closed(A)


def test_a_card_that_is_lost_in_mid_run_ends_nothing_else(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    (on_a,) = inside.submit("until:go", device=A)
    (on_b,) = inside.submit("until:go", device=B)
    inside.until(lambda: len(inside.supervisor.jobs) == 2, "both have not started")
    inside.fake.lost.add("GPU-aaaa")
    for run_id in (on_a, on_b):
        (inside.home.run(run_id).root / "go").touch()
    assert [status.state for status in inside.until_ended(on_a, on_b)] == ["finished", "finished"]
    assert "does not say what is in use" in quarantines(inside.home)[A].message
    later_a, later_b = inside.submit("finish", device=A)[0], inside.submit("finish", device=B)[0]
    assert inside.until_ended(later_b)[0].state == "finished"
    inside.ticks(20)
    assert inside.status(later_a).state == "queued"
    inside.fake.lost.clear()  # the driver was reset
    assert inside.until_ended(later_a)[0].state == "finished"


def test_what_a_process_of_others_takes_is_theirs(foreign: subprocess.Popen[bytes]) -> None:
    before = baseline_of(Reading(500, {}))
    assert stayed("a-1", before, Reading(500 + 3000 * MIB, {foreign.pid: 3000 * MIB})) is None
    assert stayed("a-1", before, Reading(500 + SLACK, {})) is None
    left = stayed("a-1", before, Reading(501 + SLACK, {}))
    assert left and left.pids == ()
    assert psutil.pid_exists(foreign.pid), "a foreign process is never killed"


def test_what_still_carries_the_tag_of_the_run_is_named(tmp_path: Path) -> None:
    code = "import time; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], env={RUN_TAG: "tagged-1"}) as ours:
        before = baseline_of(Reading(500, {}))
        left = stayed("tagged-1", before, Reading(500 + 3000 * MIB, {ours.pid: 3000 * MIB}))
        assert left and left.pids == (ours.pid,)
        ours.kill()


def test_pids_of_another_namespace_that_were_not_there_before_count_as_the_runs() -> None:
    nobody = 2**22 + 1  # above the kernel's largest pid
    assert stayed("a-1", baseline_of(Reading(500, {nobody: 400})), Reading(500, {nobody: 400})) is None
    left = stayed("a-1", baseline_of(Reading(500, {})), Reading(500 + 99 * MIB, {nobody: 99 * MIB}))
    assert left and left.pids == (nobody,)


def test_without_a_list_of_processes_the_card_as_a_whole_has_to_be_back() -> None:
    before = baseline_of(Reading(500, None))
    assert stayed("a-1", before, Reading(500 + SLACK, None)) is None
    left = stayed("a-1", before, Reading(501 + SLACK, None))
    assert left and "nobody says by whom" in left.message
    assert stayed("a-1", baseline_of(Reading(None, None)), Reading(10**9, None)) is None, "nothing to compare with"


def test_a_foreign_process_marks_the_run_contended_and_is_not_killed(
    inside: Inside, foreign: subprocess.Popen[bytes]
) -> None:
    (run_id,) = inside.submit("until:go", device=A)
    inside.until(lambda: inside.supervisor.jobs, "it has not started")
    folder, card = inside.home.run(run_id), inside.fake.cards[0]
    with TableWriter(folder.samples, SAMPLES) as writer:
        others = [0, 0, 3000 * MIB, 3000 * MIB, 0]
        rows = {name: [1] * 5 for name in SAMPLES.names} | {"t_ns": list(range(1, 6)), "other_processes_used": others}
        writer.write(rows)
    card.processes = {foreign.pid: 3000 * MIB}
    card.used += 3000 * MIB
    (folder.root / "go").touch()
    (status,) = inside.until_ended(run_id)
    assert status.contended == "other processes took up to 3,000.0 MiB more of the card while the run went on"
    assert foreign.poll() is None
    assert not quarantines(inside.home)
    assert read_trace(folder).contended == ((3, 5),)


def test_contention_is_growth_that_can_be_seen() -> None:
    t_ns = np.arange(6)
    nan = float("nan")
    assert contended(t_ns, np.array([100.0, 100, 100, 50, 100, 100]) * MIB) == (), "others were there before"
    assert contended(t_ns, np.array([0.0, 15, 0, 15, 0, 0]) * MIB) == (), "a window on the desktop"
    assert contended(t_ns, np.array([nan] * 6)) == (), "what nobody can tell is not called contended"
    assert contended(t_ns[:0], np.array([])) == ()
    two = contended(t_ns, np.array([nan, 0, 20, 0, 30, 40]) * MIB)
    assert two == (((2, 3), 20 * MIB), ((4, 5), 40 * MIB))


def test_contended_stretches_and_gaps_are_shaded(inside: Inside) -> None:
    from dataclasses import replace

    from core.plots.timeline import timeline

    trace = read_trace(make_run(inside.home, "aaaaaa-1"))
    plain = timeline([trace], ["device_used"])
    assert not [shape for shape in plain.layout.shapes if shape.type == "rect"]
    doubt = replace(trace, gaps=((trace.t0_ns, trace.t0_ns + 10**8),), contended=((trace.t0_ns, trace.t0_ns + 10**7),))
    figure = timeline([doubt], ["device_used"])
    assert len([shape for shape in figure.layout.shapes if shape.type == "rect"]) == 2
    assert {note.text for note in figure.layout.annotations} >= {"no samples", "contended"}


def test_a_quarantine_is_said_where_devices_are_listed(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from streamlit.testing.v1 import AppTest

    from core.cli.devices import devices
    from core.runs.quarantine import put_into_quarantine

    put_into_quarantine(inside.home, A, "k3f9qz-1", "3,000.0 MiB of it stayed", (123,), {"used": 500})
    nvml = Nvml(inside.fake)
    monkeypatch.setenv("VRAMSCOPE_HOME", str(inside.home.root))
    for module in ("core.cli.devices", "core.ui.devices"):
        monkeypatch.setattr(f"{module}.list_devices", lambda: list_devices(nvml))
        monkeypatch.setattr(f"{module}.open_meter", lambda device: open_meter(device, nvml))
    said = "no runs until its memory is back: 3,000.0 MiB of it stayed after k3f9qz-1, PID 123"
    devices()
    assert said in capsys.readouterr().out
    app = AppTest.from_file(str(Path(__file__).resolve().parents[2] / "streamlit_app.py"), default_timeout=60).run()
    assert any(said in warning.value.replace("\\", "") for warning in app.warning)
