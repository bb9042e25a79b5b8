"""The recorder and the steps, with a clock and counters made for the test; no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.runfolder.jsonio import read_json_lines
from core.worker.clock import clock_pair
from core.worker.phases import MemoryCounters, PhaseRecorder
from core.worker.steps import ForwardSteps


class Ticks:
    """Every reading is one later."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


class Hooked:
    """As much of a module as the steps use."""

    def __init__(self) -> None:
        self.hooks: list[Callable[..., Any]] = []

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Hooked:
        self.hooks.append(hook)
        return self

    def remove(self) -> None:
        self.hooks.clear()

    def forward(self) -> None:
        for hook in self.hooks:
            hook(self, ())


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for row in read_json_lines(path) if row["t_end"] is not None]


def test_each_edge_is_a_row_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "phases.jsonl"
    recorder = PhaseRecorder(path, Ticks())
    recorder.begin("load")
    assert [(row["name"], row["t_start"], row["t_end"]) for row in read_json_lines(path)] == [("load", 1, None)]
    recorder.end()
    assert [(row["t_start"], row["t_end"]) for row in read_json_lines(path)] == [(1, None), (1, 2)]
    recorder.end()  # nothing is open: nothing is written
    assert len(read_json_lines(path)) == 2


def test_counters_are_those_of_the_edges(tmp_path: Path) -> None:
    recorder = PhaseRecorder(tmp_path / "phases.jsonl", Ticks())
    readings = iter([MemoryCounters(10, 20, 11, 21), MemoryCounters(30, 40, 50, 60)])
    with recorder.phase("imports"):
        pass
    recorder.counters = lambda: next(readings)
    with recorder.phase("load"):
        pass
    imports, load = rows(tmp_path / "phases.jsonl")
    names = ("allocated_start", "reserved_start", "allocated_end", "reserved_end", "peak_allocated", "peak_reserved")
    assert [imports[name] for name in names] == [None] * 6
    assert [load[name] for name in names] == [10, 20, 30, 40, 50, 60]


def test_a_phase_that_an_error_leaves_is_closed_and_is_the_last(tmp_path: Path) -> None:
    recorder = PhaseRecorder(tmp_path / "phases.jsonl", Ticks())
    with pytest.raises(ValueError, match="no"), recorder.phase("wrap"):
        raise ValueError("no")
    assert recorder.last == "wrap"
    assert rows(tmp_path / "phases.jsonl")[0]["t_end"] == 2
    with pytest.raises(AssertionError, match="inside another"), recorder.phase("load"):
        recorder.begin("inputs")


def test_steps_share_their_edges_and_end_with_the_job(tmp_path: Path) -> None:
    recorder = PhaseRecorder(tmp_path / "phases.jsonl", Ticks())
    steps, module = ForwardSteps(recorder), Hooked()
    steps.attach(module)
    for passes in (3, 1, 2):
        with steps.repeat():
            for _ in range(passes):
                module.forward()
    steps.detach()
    assert module.hooks == []
    assert [
        (r["name"], r["index"], r["t_start"], r["t_end"], r["step_end"]) for r in rows(tmp_path / "phases.jsonl")
    ] == [
        ("prefill", 0, 1, 2, 1),
        ("decode", 0, 2, 3, 2),
        ("decode", 1, 3, 4, 3),
        ("prefill", 1, 5, 6, 4),
        ("prefill", 2, 7, 8, 5),
        ("decode", 2, 8, 9, 6),
    ]
    assert recorder.step == 6
    assert recorder.last == "decode 2"


def test_a_job_that_fails_names_its_step(tmp_path: Path) -> None:
    recorder = PhaseRecorder(tmp_path / "phases.jsonl", Ticks())
    steps, module = ForwardSteps(recorder), Hooked()
    steps.attach(module)
    with pytest.raises(MemoryError), steps.repeat():
        for _ in range(13):
            module.forward()
        raise MemoryError
    assert recorder.last == "decode 11"
    assert [row["name"] for row in rows(tmp_path / "phases.jsonl")] == ["prefill", *["decode"] * 12]


def test_a_clock_pair_is_read_at_one_instant() -> None:
    first, second = clock_pair(), clock_pair()
    assert second[0] > first[0]
    assert abs((second[1] - first[1]) - (second[0] - first[0])) < 5_000_000
