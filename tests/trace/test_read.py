"""Reading a run folder: counters are right at the edges, events between them, and what is missing stays missing."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.runfolder.history import load_snapshot, origin_of, write_events
from core.runfolder.jsonio import JsonLines, write_json
from core.runfolder.layout import RunFolder
from core.runfolder.tables import EVENTS, read_table
from core.runs.home import open_home
from core.spec.errors import NoSuchRun
from core.trace.downsample import MOST_POINTS, keep
from core.trace.read import read_trace
from tests.make_run import MS, OUTSIDE, ROUNDING, STEP, WEIGHTS, make_run, reserved

T0 = 5_000_000_000
TOP = WEIGHTS + 4 * STEP + ROUNDING


def test_peaks_are_torchs_counters_and_say_so(tmp_path: Path) -> None:
    trace = read_trace(make_run(open_home(tmp_path), "aaaaaa-1"))
    assert (trace.peaks["allocated"].bytes, trace.peaks["allocated"].source) == (TOP, "exact")
    assert trace.peaks["reserved"].bytes == reserved(TOP)
    assert (trace.peaks["device_used"].bytes, trace.peaks["device_used"].source) == (reserved(TOP) + OUTSIDE, "sampled")
    assert trace.capacity_bytes == 48 * 2**30


def test_events_stand_between_the_edges_moved_by_the_rounding(tmp_path: Path) -> None:
    trace = read_trace(make_run(open_home(tmp_path), "aaaaaa-1"))
    allocated = trace.series["allocated"]
    at = dict(zip(((allocated.t_ns - T0) // MS).tolist(), allocated.values.tolist(), strict=True))
    assert at[150] == WEIGHTS, "before the first edge that torch counted at, the events stand alone"
    assert at[200] == WEIGHTS + ROUNDING
    assert at[250] == WEIGHTS + STEP + ROUNDING
    assert np.all(np.diff(allocated.t_ns) >= 0)


def test_a_figure_the_driver_refused_is_not_a_number(tmp_path: Path) -> None:
    series = read_trace(make_run(open_home(tmp_path), "aaaaaa-1")).series["device_used"]
    assert np.isnan(series.values[5])
    assert np.isnan(series.values).sum() == 1


def test_a_cpu_run_has_no_pool(tmp_path: Path) -> None:
    trace = read_trace(make_run(open_home(tmp_path), "aaaaaa-1", on_card=False))
    assert set(trace.series) == {"device_used", "process_used", "host_rss"}
    assert trace.peaks["allocated"].bytes is None


def test_steps_and_phases_at_times(tmp_path: Path) -> None:
    trace = read_trace(make_run(open_home(tmp_path), "aaaaaa-1"))
    times = np.array([T0 - 1, T0 + 50 * MS, T0 + 250 * MS, T0 + 350 * MS, T0 + 10_000 * MS])
    assert trace.phases_at(times) == ["", "imports", "prefill", "decode 0", ""]
    assert trace.steps(times).tolist() == [0, 0, 0.5, 1.5, 4]


@pytest.mark.parametrize("lost", ["samples.arrow", "events.arrow", "phases.jsonl", "result.json", "label.json"])
def test_a_missing_file_costs_only_what_was_in_it(tmp_path: Path, lost: str) -> None:
    folder = make_run(open_home(tmp_path), "aaaaaa-1")
    (folder.root / lost).unlink(missing_ok=True)
    trace = read_trace(folder)
    assert ("device_used" in trace.series) == (lost != "samples.arrow")
    assert "allocated" in trace.series, "phase edges or events, one of them is left"
    assert bool(trace.phases) == (lost != "phases.jsonl")


def test_a_folder_that_is_no_run_is_said(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(NoSuchRun, match="it is not a run"):
        read_trace(RunFolder(tmp_path / "x"))


def test_downsampling_keeps_every_peak_and_every_gap() -> None:
    values = np.random.default_rng(0).normal(size=1_000_000)
    values[123_456], values[777_777] = 99, -99
    values[500_000:500_100] = np.nan
    chosen = keep(values)
    assert len(chosen) <= MOST_POINTS + 2
    assert {123_456, 777_777} <= set(chosen.tolist())
    assert np.isnan(values[chosen]).any(), "the gap is still drawn as one"
    assert chosen[0] == 0
    assert chosen[-1] == len(values) - 1


# ---- torch's history ------------------------------------------------------------------------------------------------

FRAMES = [
    {"name": "empty", "filename": "/x/torch/nn/functional.py", "line": 3},
    {"name": "forward", "filename": "/x/transformers/models/llama/modeling_llama.py", "line": 312},
]


def snapshot_of(folder: RunFolder, trace: list[dict[str, Any]]) -> None:
    folder.root.mkdir(exist_ok=True)
    folder.snapshot.write_bytes(pickle.dumps({"device_traces": [trace], "segments": []}))
    write_json(folder.result, {"clock": {"start": [1_000, 10**18], "end": [2_001_000, 10**18 + 2_000_000]}})
    lines = JsonLines(folder.phases)
    lines.append({"name": "prefill", "index": 0, "t_start": 1_000, "t_end": 2_001_000, "step_start": 0, "step_end": 1})
    lines.close()


def event(action: str, size: int, us: int, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": 4096, "size": size, "stream": 0, "time_us": 10**15 + us, "frames": FRAMES, **more}


def test_history_becomes_events_on_the_monotonic_clock(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    oom = {key: value for key, value in event("oom", 99, 1500).items() if key != "addr"} | {"device_free": 7}
    block = [event("alloc", 1000, 1000), event("free_requested", 1000, 1200), event("free_completed", 1000, 1250)]
    snapshot_of(folder, [event("segment_alloc", 2048, 0), *block, oom])
    assert write_events(folder) == 4
    table = read_table(folder.events, EVENTS).to_pylist()
    assert [row["action"] for row in table] == ["segment_alloc", "alloc", "free", "oom"]
    assert [row["t_ns"] for row in table] == [1_000, 1_001_000, 1_251_000, 1_501_000]
    assert [row["step"] for row in table] == [0, 0.5, 0.625, 0.75]
    assert table[3]["addr"] is None
    assert table[1]["origin"] == "forward (modeling_llama.py:312)"


def test_a_pickle_that_wants_to_call_something_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (print, ("called",))

    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps({"device_traces": [Evil()]}))
    with pytest.raises(ValueError, match=r"it wants builtins\.print; a history is plain data"):
        load_snapshot(tmp_path / "snapshot.pickle")


@pytest.mark.parametrize("content", [b"", b"garbage", pickle.dumps([1]), pickle.dumps({"device_traces": 3})])
def test_what_is_no_history_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "snapshot.pickle").write_bytes(content)
    with pytest.raises(ValueError, match=r"snapshot\.pickle"):
        load_snapshot(tmp_path / "snapshot.pickle")


def test_origin_is_unknown_without_a_frame_of_the_model() -> None:
    assert origin_of([]) is None
    assert origin_of(FRAMES[:1]) is None
