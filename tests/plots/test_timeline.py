"""Figures: what a line shows can be read off its hover to the byte, and a user's text stays text."""

from __future__ import annotations

from pathlib import Path

from core.plots.tables import differences_table, peaks_table, title_of
from core.plots.text import plain
from core.plots.timeline import timeline
from core.plots.units import axis_unit, exact, size
from core.runs.home import open_home
from core.trace.read import read_trace
from core.trace.trace import Trace
from tests.make_run import OUTSIDE, ROUNDING, STEP, WEIGHTS, make_run, reserved

TOP = WEIGHTS + 4 * STEP + ROUNDING


def two(tmp_path: Path) -> list[Trace]:
    home = open_home(tmp_path)
    return [read_trace(make_run(home, "aaaaaa-1")), read_trace(make_run(home, "aaaaaa-2", wrap="ddp", batch_size=8))]


def test_sizes_have_their_unit_and_unknown_is_said() -> None:
    assert size(642 * 2**20) == "642.0 MiB"
    assert size(48 * 2**30) == "48.00 GiB"
    assert size(None) == "unknown"
    assert exact(1536) == "1,536 bytes (0.0 MiB)"
    assert axis_unit(2**30) == ("MiB", 2**20)
    assert axis_unit(50 * 2**30) == ("GiB", 2**30)


def test_one_row_for_each_metric_and_one_line_for_each_run(tmp_path: Path) -> None:
    figure = timeline(two(tmp_path), ["device_used", "allocated"])
    lines = [trace for trace in figure.data if trace.type == "scattergl"]
    assert [(line.yaxis, line.line.color) for line in lines] == [
        ("y", "#0072B2"), ("y", "#D55E00"), ("y2", "#0072B2"), ("y2", "#D55E00"),
    ]  # fmt: skip
    assert {line.line.dash for line in lines} == {"solid"}, "measured lines are solid"
    texts = {cell[1] for cell in lines[2].customdata}
    assert exact(TOP) in texts
    assert "unknown" in {cell[1] for cell in lines[0].customdata}, "a refused sample is unknown in the hover"


def test_peaks_are_marked_with_how_they_are_known(tmp_path: Path) -> None:
    marks = [trace for trace in timeline(two(tmp_path), ["allocated"], "step").data if trace.type == "scatter"]
    assert [round(mark.y[0] * 2**20) for mark in marks] == [TOP, TOP]
    assert f"{exact(TOP)}, exact" in marks[0].hovertemplate


def test_capacity_is_drawn_when_it_is_near(tmp_path: Path) -> None:
    (near, _) = two(tmp_path)
    far = timeline([near], ["device_used"])
    assert not far.layout.shapes, "48 GiB would flatten 2 GiB"
    figure = timeline([Trace(**{**near.__dict__, "capacity_bytes": 2 * 2**30})], ["device_used"])
    assert [annotation.text for annotation in figure.layout.annotations] == ["capacity 2,048.0 MiB"]


def test_markup_of_a_user_stays_text(tmp_path: Path) -> None:
    (trace, _) = two(tmp_path)
    evil = Trace(**{**trace.__dict__, "label": "<b>x</b><script>alert(1)</script>"})
    text = timeline([evil, trace], ["allocated"]).to_json()
    assert "<script>" not in text
    assert plain("<a href='x'>") == "&lt;a href='x'&gt;"
    assert len(plain("x" * 500)) == 80


def test_tables_say_the_same_as_the_plots(tmp_path: Path) -> None:
    traces = two(tmp_path)
    assert title_of(traces) == "wrap: none → ddp, batch_size: 1 → 8"
    assert differences_table(traces) == [
        {"field": "wrap", "aaaaaa-1": "none", "aaaaaa-2": "ddp"},
        {"field": "batch_size", "aaaaaa-1": "1", "aaaaaa-2": "8"},
    ]
    (row, _) = peaks_table(traces)
    assert row["peak allocated"] == f"{size(TOP)} (exact)"
    assert row["peak device used"] == f"{size(reserved(TOP) + OUTSIDE)} (sampled)"


def test_a_million_points_make_a_small_figure(tmp_path: Path) -> None:
    import numpy as np

    from core.trace.trace import Series

    (trace, _) = two(tmp_path)
    t_ns = np.arange(1_000_000, dtype=np.int64) * 1000 + trace.t0_ns
    values = np.random.default_rng(1).random(1_000_000) * 2**30
    series = {"reserved": Series("reserved", "exact", t_ns, values, stepwise=True)}
    figure = timeline([Trace(**{**trace.__dict__, "series": series})], ["reserved"])
    assert len(figure.to_json()) < 2 * 2**20
