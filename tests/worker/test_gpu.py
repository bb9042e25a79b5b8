"""The worker on a real card: counters, history and out-of-memory errors. Skipped where there is none."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.worker.running import Ran, environment, make_folder, read, start

HAS_CARD = Path("/proc/driver/nvidia/version").exists() or Path("/dev/dxg").exists()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.xdist_group("gpu"),
    pytest.mark.skipif(not HAS_CARD, reason="no NVIDIA driver on this machine"),
]

AND_COUNTERS = """
import json, sys
from core.worker.__main__ import main
main(sys.argv[1])
import torch
print("COUNTERS", json.dumps([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]))
"""

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"record_modules": True},
    "ddp": {"wrap": "ddp"},
    "host": {"placement": "host", "record_stacks": True},
    "too-large": {"batch_size": 10**9, "prompt_tokens": 500},
    "prefilled": {"prefill_cache_mib": 600},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    root = tmp_path_factory.mktemp("gpu")
    folders = {name: make_folder(root / name, device="cuda:0", **fields) for name, fields in VARIANTS.items()}
    for folder in folders.values():
        worker = start(folder, environment(card=True), "-c", AND_COUNTERS, str(folder.root))
        assert worker.wait(200) == 0, folder.stderr.read_text()
    return {name: read(folder) for name, folder in folders.items()}


def counters(run: Ran) -> list[int]:
    line = next(line for line in run.folder.stdout.read_text().splitlines() if line.startswith("COUNTERS "))
    values: list[int] = json.loads(line.partition(" ")[2])
    return values


def trace(run: Ran) -> list[dict[str, Any]]:
    with run.folder.snapshot.open("rb") as stream:
        snapshot = pickle.load(stream)
    traces: list[list[dict[str, Any]]] = snapshot["device_traces"]
    return max(traces, key=len)


def highest(events: list[dict[str, Any]], more: str, less: str) -> int:
    """The peak of a running sum; every release is of something that was taken, by its address."""
    held: dict[int, int] = {}
    total = peak = 0
    for event in events:
        if event["action"] == more:
            held[event["addr"]] = event["size"]
            total += event["size"]
            peak = max(peak, total)
        elif event["action"] == less:
            total -= held.pop(event["addr"])
    return peak


@pytest.mark.parametrize("name", ["plain", "ddp", "host", "prefilled"])
def test_peaks_are_torchs_own_counters(runs: dict[str, Ran], name: str) -> None:
    run = runs[name]
    assert run.result["outcome"] == "finished", run.result["error"]
    assert [run.result["peak"]["allocated"], run.result["peak"]["reserved"]] == counters(run)
    assert run.phases[-1]["peak_allocated"] == run.result["peak"]["allocated"]
    assert run.names[:2] == ["imports", "device context"]
    assert len(run.named("decode")) == 15


@pytest.mark.parametrize("name", ["plain", "ddp", "host", "prefilled"])
def test_the_history_replays(runs: dict[str, Ran], name: str) -> None:
    run, events = runs[name], trace(runs[name])
    assert run.result["history"] == {"entries": len(events), "truncated": False}
    assert highest(events, "segment_alloc", "segment_free") == run.result["peak"]["reserved"]
    peak = highest(events, "alloc", "free_completed")
    # events carry requested bytes, the counters whole blocks
    assert 0.9 * run.result["peak"]["allocated"] < peak <= run.result["peak"]["allocated"]


def test_stacks_only_when_asked(runs: dict[str, Ran]) -> None:
    assert any(event.get("frames") for event in trace(runs["host"]))
    assert not any(event.get("frames") for event in trace(runs["plain"]))


def test_parameters_are_found_by_their_address(runs: dict[str, Ran]) -> None:
    tensors = json.loads(runs["plain"].folder.tensors.read_text())["tensors"]
    allocated = {event["addr"]: event["size"] for event in trace(runs["plain"]) if event["action"] == "alloc"}
    for tensor in tensors:
        if tensor["kind"] == "parameter":
            assert tensor["data_ptr"] in allocated, tensor["name"]


def test_the_cache_is_filled_before_the_job(runs: dict[str, Ran]) -> None:
    inputs = runs["prefilled"].named("inputs")[0]
    assert inputs["reserved_end"] - inputs["reserved_start"] >= 600 * 2**20
    assert inputs["allocated_end"] - inputs["allocated_start"] < 2**20


def test_out_of_memory_is_a_result(runs: dict[str, Ran]) -> None:
    run = runs["too-large"]
    assert run.result["outcome"] == "oom"
    error = run.result["error"]
    assert (error["kind"], error["type"], error["phase"]) == ("oom", "OutOfMemoryError", "inputs")
    assert error["requested_bytes"] == pytest.approx(10**9 * 500 * 8, rel=0.001)
    assert "Tried to allocate" in error["message"]
    assert [event["action"] for event in trace(run)].count("oom") == 1
    assert run.names[-1] == "release"
    assert run.result["device"]["uuid"].startswith("GPU-")
    assert run.result["versions"]["driver"]
