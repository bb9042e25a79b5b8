"""The accuracy that the docs claim is what the bench found, and what a simulation gives now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.accuracy import BEGIN, DOCUMENT, END, RESULTS, Row, row_of, simulated, table
from bench.configurations import configurations

ROWS = [Row(**row) for row in json.loads(RESULTS.read_text(encoding="utf-8"))]
QUICK = ("qwen05_b64", "gpt2_b32_fp32", "gpt2_b32_fp16_sample", "capped/qwen05_b64-2600", "more/qwen05_b16_ddp")
FOUND = {configuration.name: configuration for configuration in configurations()}


def test_the_document_carries_the_results() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table(ROWS)


def test_the_results_are_as_exact_as_they_have_to_be() -> None:
    assert len(ROWS) >= 19 + 2 + 5 + 4
    assert {row.name for row in ROWS} == set(FOUND)
    fits = [row for row in ROWS if row.verdict_measured == "fits"]
    assert all(abs(row.allocated - row.allocated_measured) <= 1024 for row in fits)
    whole = [row for row in fits if not row.name.startswith("capped/")]
    assert sum(row.reserved != row.reserved_measured for row in whole) <= 1
    for row in ROWS:
        assert (row.verdict, row.retries) == (row.verdict_measured, row.retries_measured)


@pytest.mark.xdist_group("simulate-job")
@pytest.mark.parametrize("name", QUICK)
def test_simulating_again_gives_the_same(name: str, tmp_path: Path) -> None:
    done, _ = simulated(FOUND[name], tmp_path)
    now, then = row_of(FOUND[name], done, 0.0), next(row for row in ROWS if row.name == name)
    assert (now.allocated, now.reserved, now.device) == (then.allocated, then.reserved, then.device)
    assert (now.verdict, now.retries) == (then.verdict, then.retries)
