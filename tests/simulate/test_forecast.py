"""What a matrix would come to, before it is started: answered in the background, once, and kept."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from core.runs.forecast import card_of, forecasts, question_of
from core.runs.home import open_home
from core.runs.submit import PreparedRun
from core.simulate.verdict import verdict_of
from core.spec.cards import find_card
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec

pytestmark = pytest.mark.xdist_group("simulate-queue")
MIB = 2**20


def run_of(**fields: Any) -> PreparedRun:
    spec = parse_spec({"model": "gpt2", "device": "sim:t4", "prompt_tokens": 32, "new_tokens": 12, **fields})
    return PreparedRun(spec, resolve(spec))


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [({}, "fits"), ({"batch_size": 4096, "prompt_tokens": 512}, "oom"), ({"capacity_mib": 600}, "oom")],
)
def test_a_verdict_is_that_of_the_run(fields: dict[str, Any], verdict: str, tmp_path: Path) -> None:
    run = run_of(**fields)
    (tmp_path / "config.json").write_text(json.dumps(run.source.config))
    found = verdict_of(run.spec.to_dict(), tmp_path, find_card("t4"))
    assert found["verdict"] == verdict
    assert (found["peak_device_used"] or 0) > 500 * MIB
    assert bool(found["message"]) is (verdict != "fits")


def test_answers_come_in_the_background_and_are_kept(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    runs = [run_of(batch_size=1), run_of(batch_size=2), run_of(device="cpu")]
    names = ["NVIDIA T4", "NVIDIA T4", None]
    first = forecasts(home, runs, names)
    assert first[:2] == [None, None]
    assert first[2]
    assert first[2]["verdict"] == "not simulated"
    deadline = time.monotonic() + 120
    while any(answer is None for answer in forecasts(home, runs, names)):
        assert time.monotonic() < deadline, (home.root / "forecasts" / "forecasting.log").read_text()
        time.sleep(0.2)
    one, two, _ = forecasts(home, runs, names)
    assert one
    assert two
    assert one["verdict"] == two["verdict"] == "fits"
    assert one["peak_device_used"] < two["peak_device_used"]
    assert not list((home.root / "forecasts").glob("*.todo"))


def test_a_question_leaves_out_what_changes_nothing() -> None:
    one, two = run_of(record_stacks=True, seed=7), run_of(timeout_s=5)
    assert question_of(one, None) == question_of(two, None) != question_of(run_of(batch_size=3), None)
    assert question_of(run_of(device="cpu"), None) is None


def test_a_real_card_is_found_by_its_name() -> None:
    card = card_of("cuda:GPU-1", "NVIDIA H200")
    assert card
    assert card.id == "h200"
    assert card_of("cuda:GPU-1", "NVIDIA Something") is None
