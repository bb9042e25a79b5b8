"""What the recorded runs must agree on: torch's counters, the allocator's events, and the driver's figures."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from core.runfolder.tables import EVENTS, read_table
from core.runs.gallery import gallery_run, recordings
from core.trace.read import read_trace
from core.trace.trace import Trace

MIB = 2**20
RUN_IDS = [run_id for recording in recordings() for run_id in recording.run_ids]
LISTED_AFTER_NS = 100_000_000
"""The driver has a new process in its list some 40 ms after the first memory of its context (H200)."""


@cache
def recorded(run_id: str) -> Trace:
    folder = gallery_run(run_id)
    assert folder
    return read_trace(folder)


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_peaks_are_torchs_counters_to_the_byte(run_id: str) -> None:
    trace = recorded(run_id)
    job = [phase.row for phase in trace.phases if phase.name != "release"]
    for metric in ("allocated", "reserved"):
        assert (
            trace.peaks[metric].bytes == trace.result["peak"][metric] == max(row[f"peak_{metric}"] or 0 for row in job)
        )
        assert trace.peaks[metric].source == "exact"


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_segments_add_up_to_the_peak_of_reserved(run_id: str) -> None:
    """The events know nothing of the counter: what segments take and give back comes to the same byte."""
    folder = gallery_run(run_id)
    assert folder
    events = read_table(folder.events, EVENTS)
    signs = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    moved = [
        signs[action] * size
        for action, size in zip(events["action"].to_pylist(), events["size"].to_pylist(), strict=True)
        if action in signs
    ]
    assert max(np.cumsum(moved)) == recorded(run_id).result["peak"]["reserved"]


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_the_drivers_figures_explain_the_card_at_every_sample(run_id: str) -> None:
    """Device used = this process + the others + what the driver keeps for itself while a process is there (a constant
    of this run), within 8 MiB at every sample from the moment the driver lists the process."""
    trace = recorded(run_id)
    names = ("device_used", "process_used", "other_processes_used")
    known = ~np.isnan(trace.series["device_used"].values)
    assert known.sum() >= 0.99 * len(known), "a gap is one row that knows nothing"
    device, process, others = (trace.series[name].values[known] for name in names)
    unowned = device - process - others
    there = process > 0
    reserve = np.median(unowned[there])
    assert 0 <= reserve < 16 * MIB
    assert np.abs(unowned[there] - reserve).max() <= 8 * MIB
    # before that its first memory belongs to nobody, and after it all of it has come back
    times = trace.series["device_used"].t_ns[known]
    first = times[there][0]
    before = (times < first) & (np.abs(unowned) > 8 * MIB)
    assert not before.any() or first - times[before][0] < LISTED_AFTER_NS
    assert np.abs(unowned[times > times[there][-1]]).max(initial=0) <= 8 * MIB


def test_the_card_the_driver_and_the_versions_stand_beside_each_run() -> None:
    for run_id in RUN_IDS:
        folder = gallery_run(run_id)
        assert folder
        said = json.loads((folder.root / "recorded.json").read_text())
        assert said["card"] == "NVIDIA H200"
        assert said["driver"]
        assert said["date"]
        assert {"python", "torch", "transformers", "cuda"} <= {
            name for name, found in said["versions"].items() if found
        }
