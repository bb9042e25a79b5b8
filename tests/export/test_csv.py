"""The CSV that people take away: tidy, whole, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from core.export.csv import neutral, write_csv
from core.export.rows import COLUMNS
from core.runs.home import open_home
from core.trace.read import read_trace
from tests.make_run import ROUNDING, STEP, WEIGHTS, make_run


def test_tidy_rows_with_every_series_and_unknown_left_empty(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    traces = [read_trace(make_run(home, run_id)) for run_id in ("aaaaaa-1", "aaaaaa-2")]
    stream = io.StringIO()
    count = write_csv(traces, stream)
    stream.seek(0)
    rows = list(csv.DictReader(stream))
    assert len(rows) == count == sum(len(series.t_ns) for trace in traces for series in trace.series.values())
    assert tuple(rows[0]) == COLUMNS
    assert {row["run_id"] for row in rows} == {"aaaaaa-1", "aaaaaa-2"}
    exact = [row for row in rows if row["metric"] == "allocated" and row["run_id"] == "aaaaaa-1"]
    assert max(int(row["value_bytes"]) for row in exact) == WEIGHTS + 4 * STEP + ROUNDING
    assert {row["source"] for row in exact} == {"exact"}
    assert [row["value_bytes"] for row in rows if row["metric"] == "device_used"][5] == "", "refused by the driver"
    assert {row["phase"] for row in exact} >= {"load", "prefill", "decode 2"}


def test_formulas_are_neutralised_and_numbers_stay_numbers() -> None:
    assert [neutral(text) for text in ("=1+1", "+1", "-1", "@x", "\tx", "load")] == [
        "'=1+1", "'+1", "'-1", "'@x", "'\tx", "load",
    ]  # fmt: skip
