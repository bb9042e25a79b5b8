"""Real runs on the CPU: three processes, two at a time, shared by all tests of this file."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.runfolder.layout import RunFolder
from tests.worker.running import PARAMETERS, ROOT, TINY, Ran, environment, make_folder, read, start

pytestmark = pytest.mark.xdist_group("worker")

VARIANTS: dict[str, dict[str, Any]] = {
    "forward": {"job": "forward", "grad_mode": "no_grad"},
    "loop": {"job": "loop", "grad_mode": "grad"},
    "loop-without-cache": {"job": "loop", "grad_mode": "no_grad", "use_cache": False, "new_tokens": 4},
    "beams": {"num_beams": 3},
    "without-cache": {"use_cache": False},
    "static-cache": {"cache_implementation": "static"},
    "autocast": {"dtype": "fp32", "autocast": "bf16", "grad_mode": "no_grad"},
    "padding": {"padding": 5, "attn_implementation": "eager", "placement": "host"},
    "sampling": {"do_sample": True, "temperature": 0.7, "top_k": 50, "top_p": 0.9},
    "repeats": {"repeats": 3, "record_modules": True, "prefill_cache_mib": 100},
    "one-token": {"new_tokens": 1},
    "load": {"weights": "load", "placement": "host"},
    "too-large": {"batch_size": 10**12},
    "weights-of-a-preset": {"weights": "load"},
    "device-map-of-nothing": {"placement": "device_map"},
    "simulated": {"device": "sim:rtx-a6000"},
    "deepspeed-inject": {"engine": "deepspeed", "kernel_inject": True},
    "deepspeed": {"engine": "deepspeed", "dtype": "fp32", "placement": "host", "max_out_tokens": 64},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    root = tmp_path_factory.mktemp("runs")
    saved = {"kind": "folder", "name": "saved", "path": str(root / "saved")}
    folders = {
        name: make_folder(root / name, source=saved if name == "load" else None, **fields)
        for name, fields in VARIANTS.items()
    }
    folders["bad-config"] = make_folder(root / "bad-config", {**TINY, "num_attention_heads": 0})
    folders["unknown-model"] = make_folder(root / "unknown-model", {"model_type": "no-such-model"})
    many = start(
        folders["forward"], environment(), "-m", "tests.worker.many_runs", *[str(f.root) for f in folders.values()]
    )
    for name, wrap in (("plain", "none"), ("ddp", "ddp")):
        folders[name] = make_folder(root / name, wrap=wrap)
        assert start(folders[name], environment()).wait(120) == 0, folders[name].stderr.read_text()
    assert many.wait(200) == 0, folders["forward"].stderr.read_text()
    return {name: read(folder) for name, folder in folders.items()}


def test_a_run_ends_with_a_whole_result(runs: dict[str, Ran]) -> None:
    result = runs["plain"].result
    assert result["outcome"] == "finished"
    assert result["error"] is None
    assert result["output_shape"] == [2, 48]
    assert result["peak"] == {"allocated": None, "reserved": None}  # torch counts no memory on the CPU
    assert result["history"] is None
    assert result["deepspeed"] is None
    assert result["warnings"] == []
    assert result["model"] == {
        "class": "LlamaForCausalLM",
        "parameters": PARAMETERS,
        "parameter_bytes": 2 * PARAMETERS,
        "buffer_bytes": result["model"]["buffer_bytes"],
        "attn_implementation": "sdpa",
    }
    assert result["seconds"]["load"] > 0
    assert result["seconds"]["generate"] == pytest.approx(sum(result["seconds"]["repeats"]))
    assert result["versions"]["python"] == sys.version.split()[0]
    assert result["versions"]["torch"].startswith("2.")
    assert result["device"]["total_bytes"] > 2**30
    assert not [path for path in runs["plain"].folder.root.iterdir() if path.name.endswith(".tmp")]


def test_the_clock_readings_enclose_the_run(runs: dict[str, Ran]) -> None:
    run = runs["plain"]
    (start_mono, start_wall), (end_mono, end_wall) = run.result["clock"]["start"], run.result["clock"]["end"]
    assert start_mono <= run.phases[0]["t_start"] <= run.phases[-1]["t_end"] <= end_mono
    assert end_wall - start_wall == pytest.approx(end_mono - start_mono, rel=0.01)


def test_phases_come_in_their_order(runs: dict[str, Ran]) -> None:
    assert runs["plain"].names == ["imports", "load", "inputs", "prefill", "decode", "release"]
    assert runs["ddp"].names == [
        "imports", "process group", "load", "wrap", "inputs", "prefill", "decode", "release",
    ]  # fmt: skip
    assert runs["deepspeed"].names == [
        "imports", "process group", "load", "engine", "inputs", "prefill", "decode", "release",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["plain", "ddp", "beams", "without-cache", "static-cache", "loop", "autocast", "padding", "sampling", "load"],
)
def test_forward_passes_tile_the_job(runs: dict[str, Ran], name: str) -> None:
    run = runs[name]
    assert run.result["outcome"] == "finished", run.result["error"]
    assert run.result["output_shape"] == [2, 48]
    job = run.named("prefill") + run.named("decode")
    assert [(phase["name"], phase["index"]) for phase in job] == [("prefill", 0), *(("decode", i) for i in range(15))]
    assert [(phase["step_start"], phase["step_end"]) for phase in job] == [(i, i + 1) for i in range(16)]
    for before, after in itertools.pairwise(job):
        assert before["t_end"] == after["t_start"]
    assert all(phase["t_end"] > phase["t_start"] for phase in job)
    assert run.named("load")[0]["step_end"] == 0
    assert (run.named("release")[0]["step_start"], run.named("release")[0]["step_end"]) == (16, 16)


def test_short_jobs(runs: dict[str, Ran]) -> None:
    for name, shape, decodes in (
        ("forward", [2, 32], 0),
        ("one-token", [2, 33], 0),
        ("loop-without-cache", [2, 36], 3),
    ):
        assert runs[name].result["output_shape"] == shape
        assert len(runs[name].named("prefill")) == 1
        assert len(runs[name].named("decode")) == decodes


def test_repeats_go_on_counting(runs: dict[str, Ran]) -> None:
    run = runs["repeats"]
    assert [phase["index"] for phase in run.named("prefill")] == [0, 1, 2]
    assert [phase["step_start"] for phase in run.named("prefill")] == [0, 16, 32]
    assert [phase["index"] for phase in run.named("decode")] == list(range(45))
    assert run.named("release")[0]["step_end"] == 48
    assert len(run.result["seconds"]["repeats"]) == 3
    assert run.result["warnings"] == ["prefill_cache_mib has no effect on the CPU, where PyTorch keeps no cache"]


def test_module_marks_enclose_each_forward_pass(runs: dict[str, Ran]) -> None:
    run = runs["repeats"]
    document = json.loads(run.folder.modules.read_text())
    names, marks = document["names"], document["marks"]
    assert names[0] == ""
    assert "model.layers.1.mlp" in names
    assert [direction for _, index, direction in marks if index == 0] == [1, -1] * 48
    depth = 0
    for _, _, direction in marks:
        depth += direction
        assert depth >= 0
    assert depth == 0
    times = [t for t, _, _ in marks]
    assert times == sorted(times)
    assert run.named("prefill")[0]["t_start"] < times[0] < times[-1] < run.named("decode")[-1]["t_end"]
    assert not runs["plain"].folder.modules.exists()


def test_host_memory_that_cannot_be_had_is_a_result(runs: dict[str, Ran]) -> None:
    run = runs["too-large"]
    assert run.result["outcome"] == "oom"
    error = run.result["error"]
    assert (error["kind"], error["phase"]) == ("oom", "inputs")
    assert error["requested_bytes"] == 10**12 * 32 * 8
    assert "DefaultCPUAllocator: can't allocate memory" in error["message"]
    assert error["traceback"][-1].startswith("inputs.py:")
    assert run.names[-1] == "release"
    assert run.result["output_shape"] is None
    assert run.result["seconds"]["generate"] is None


@pytest.mark.parametrize(
    ("name", "phase", "said"),
    [
        ("bad-config", "load", ""),
        ("unknown-model", "load", "no-such-model"),
        ("weights-of-a-preset", "load", "use weights=random"),
        ("device-map-of-nothing", "load", "placement device or host"),
        ("simulated", "imports", "not on 'sim:rtx-a6000'"),
        ("deepspeed-inject", "imports", "use kernel_inject=false"),
    ],
)
def test_a_job_that_cannot_run_is_a_failed_result(runs: dict[str, Ran], name: str, phase: str, said: str) -> None:
    result = runs[name].result
    assert result["outcome"] == "failed"
    assert (result["error"]["kind"], result["error"]["phase"]) == ("exception", phase)
    assert said in result["error"]["message"]
    assert result["error"]["requested_bytes"] is None
    assert "disguised_oom" not in result["error"]


def test_deepspeed_without_injection(runs: dict[str, Ran]) -> None:
    result = runs["deepspeed"].result
    assert result["outcome"] == "finished", result["error"]
    assert result["output_shape"] == [2, 48]
    assert result["deepspeed"] == {
        "effective_dtype": "fp32",
        "layers_replaced": 0,
        "op": "none",
        "workspace": None,
        "banner": None,
    }


def test_a_terminated_worker_leaves_the_rows_it_wrote(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "killed")
    worker = start(folder, environment())
    deadline = time.monotonic() + 30
    while not (folder.phases.exists() and folder.phases.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "no row before torch was imported"
        time.sleep(0.005)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == -signal.SIGTERM
    rows = [json.loads(line) for line in folder.phases.read_text().splitlines()]
    assert [(row["name"], row["t_end"]) for row in rows] == [("imports", None)]
    assert not folder.result.exists()


TF435 = ROOT / ".envs" / "tf435"
OVERLAYS = [str(TF435), *filter(None, os.environ.get("VRAMSCOPE_TEST_OVERLAYS", "").split(os.pathsep))]


@pytest.fixture(params=OVERLAYS)
def old_stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ran]:
    if not Path(request.param).is_dir():
        pytest.skip(f"{request.param} is not there; `make env-tf435` builds it")
    folder: RunFolder = make_folder(tmp_path / "old", wrap="ddp")
    worker = start(folder, environment(str(request.param)))
    try:
        assert worker.wait(120) == 0
    except subprocess.TimeoutExpired:
        worker.kill()
        raise
    yield read(folder)


def test_an_older_transformers_makes_the_same_trace(old_stack: Ran) -> None:
    assert old_stack.result["outcome"] == "finished", old_stack.result["error"]
    assert old_stack.result["versions"]["transformers"].startswith("4.")
    assert old_stack.result["output_shape"] == [2, 48]
    assert len(old_stack.named("decode")) == 15
