"""Simulated runs through the queue, from the command line: the same folders, the same readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.explain.breakdown import breakdown
from core.explain.evidence import read_evidence
from core.explain.findings import Case, find
from core.runs.home import open_home
from core.trace.read import read_trace
from tests.cli.test_cli import core

pytestmark = pytest.mark.xdist_group("simulate-queue")
MIB = 2**20


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("simulated") / "home"


@pytest.fixture(scope="module")
def report(home: Path) -> dict[str, Any]:
    command = "run --model gpt2 --device sim:rtx-a6000 --batch-size 8 --prompt-tokens 64 --new-tokens 24"
    done = core(home, *command.split(), "--capacity-mib", "40000,1030", "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_one_fits_and_one_runs_out_of_memory(report: dict[str, Any]) -> None:
    fits, oom = report["runs"]
    assert (fits["state"], oom["state"]) == ("finished", "oom")
    assert oom["error"]["message"].startswith("CUDA out of memory. Tried to allocate ")
    assert oom["error"]["requested_bytes"] % (2 * MIB) == 0
    assert [phase["name"] for phase in fits["phases"]].count("decode") == 23
    assert fits["peak"]["host_rss"] is None, "unknown, not 0"


def test_the_result_says_which_tensor_at_which_token(report: dict[str, Any]) -> None:
    error = json.loads((Path(report["runs"][1]["folder"]) / "result.json").read_text())["error"]
    assert error["tensor"]["shape"]
    assert error["tensor"]["op"]
    assert isinstance(error["token"], int)


def test_its_trace_is_read_and_explained_as_a_measured_one(home: Path, report: dict[str, Any]) -> None:
    for run in report["runs"]:
        folder = open_home(home).run(run["id"])
        trace = read_trace(folder)
        assert trace.simulated
        assert {series.source for series in trace.series.values()} == {"simulated"}
        evidence = read_evidence(folder)
        found = breakdown(evidence)
        assert sum(found.terms.values()) == found.total
        assert found.terms.get("unattributed", 0) == 0
        assert abs(found.terms.get("rounding", 0)) <= 0.03 * (run["peak"]["reserved"] or 0)
        assert found.terms["weights"] == pytest.approx(trace.result["model"]["parameter_bytes"], rel=0.01)
        assert found.terms["cuda_context"]
        find(Case(evidence, found))
    assert breakdown(read_evidence(open_home(home).run(report["runs"][1]["id"]))).request


def test_what_is_not_simulated_is_refused_by_name(home: Path) -> None:
    done = core(home, "run", "--model", "gpt2", "--device", "sim:nothing")
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    done = core(home, "run", "--model", "gpt2", "--device", "sim:t4", "--capacity-mib", "100")
    assert done.returncode == 2
    assert "the CUDA context alone" in done.stderr
