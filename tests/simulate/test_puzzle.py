"""The DDP puzzle on a card that is not there: the five verdicts, and the workspaces that a real card recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.runfolder.jsonio import read_json
from core.runs.gallery import gallery_run
from tests.cli.test_cli import core

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
pytestmark = [
    pytest.mark.xdist_group("simulate-queue"),
    pytest.mark.skipif(not (ROOT / ".envs" / "tf435").is_dir(), reason="`make env-tf435` builds what it needs"),
]

DEVICE_PEAKS = (48_480, 48_180, 48_668, 48_486, 48_582)
"""MiB, measured on an H200 with 48,676 MiB free (bench/reference/h200/ddp_puzzle)."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    home = tmp_path_factory.mktemp("puzzle") / "home"
    command = ("run", "--file", str(ROOT / "examples" / "ddp-puzzle.yaml"), "--device", "sim:rtx-a6000", "--json")
    done = core(home, *command, timeout=280)
    assert done.returncode == 1, done.stderr  # one of them failed, as on the card
    found: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
    return found


def test_two_of_the_five_fit(runs: list[dict[str, Any]]) -> None:
    assert [run["state"] for run in runs] == ["oom", "finished", "failed", "finished", "oom"]
    for number in (0, 4):
        assert "Tried to allocate 642.00 MiB" in runs[number]["error"]["message"]
        assert runs[number]["error"]["phase"] == "prefill"
    assert "CUBLAS_STATUS_ALLOC_FAILED" in runs[2]["error"]["message"]
    assert runs[2]["error"]["reason"].startswith("out of memory in disguise")


def test_device_peaks_are_those_of_the_card(runs: list[dict[str, Any]]) -> None:
    for run, measured in zip(runs, DEVICE_PEAKS, strict=True):
        assert run["peak"]["device_used"] / MIB == pytest.approx(measured, rel=0.001)


@pytest.mark.parametrize("number", [0, 1])
def test_the_workspace_is_that_of_the_card_to_the_byte(number: int, runs: list[dict[str, Any]]) -> None:
    simulated = read_json(Path(runs[number]["folder"]) / "result.json") or {}
    folder = gallery_run(f"ddppuzzle-{number + 1}")
    assert folder
    measured = read_json(folder.result) or {}
    assert simulated["deepspeed"]["workspace"]["taken_bytes"] == measured["deepspeed"]["workspace"]["taken_bytes"]
    assert simulated["deepspeed"]["banner"]["max_tokens"] == measured["deepspeed"]["banner"]["max_tokens"]
    assert simulated["deepspeed"]["layers_replaced"] == measured["deepspeed"]["layers_replaced"] == 32
    assert simulated["peak"]["reserved"] == measured["peak"]["reserved"]
