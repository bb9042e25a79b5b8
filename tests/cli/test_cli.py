"""The command line as a user types it: a real run of the tiny model, and every kind of bad input in one line."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def core(home: Path, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "core", *arguments],
        cwd=ROOT,
        env={**os.environ, "VRAMSCOPE_HOME": str(home), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli") / "home"


@pytest.fixture(scope="module")
def report(home: Path) -> dict[str, Any]:
    """What the issue's own command prints."""
    command = "run --model tiny-llama --device cpu --batch-size 1,4 --prompt-tokens 32 --new-tokens 16 --json"
    done = core(home, *command.split())
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.xdist_group("cli")
class TestRealRun:
    """Two real runs of the tiny model on the CPU, looked at from all sides."""

    def test_two_finished_runs_with_their_phases(self, report: dict[str, Any]) -> None:
        assert [run["state"] for run in report["runs"]] == ["finished", "finished"]
        assert [run["spec"]["batch_size"] for run in report["runs"]] == [1, 4]
        for run in report["runs"]:
            names = [phase["name"] for phase in run["phases"]]
            assert names.count("prefill") == 1
            assert names.count("decode") == 15
            assert names[0] == "imports"
            assert names[-1] == "release"
            assert run["error"] is None
            assert run["peak"]["allocated"] is None, "torch counts nothing on the CPU: unknown, not 0"
            assert run["peak"]["host_rss"] > 100 * 2**20
            assert all(phase["t_end"] >= phase["t_start"] >= 0 for phase in run["phases"])

    def test_csv_has_a_rising_and_falling_resident_memory(self, home: Path, report: dict[str, Any]) -> None:
        run_id = report["runs"][0]["id"]
        done = core(home, "export", run_id, "--format", "csv")
        rows = [row for row in csv.DictReader(done.stdout.splitlines()) if row["metric"] == "host_rss"]
        values = [int(row["value_bytes"]) for row in rows]
        assert values[0] < max(values)
        assert values[-1] == 0
        assert {row["run_id"] for row in rows} == {run_id}
        assert {row["source"] for row in rows} == {"sampled"}
        assert {"imports", "prefill", "decode 14"} <= {row["phase"] for row in rows} | {"prefill", "decode 14"}

    def test_ls_show_and_compare_agree(self, home: Path, report: dict[str, Any]) -> None:
        ids = [run["id"] for run in report["runs"]]
        listed = json.loads(core(home, "ls", "--json").stdout)["runs"]
        assert {row["run_id"] for row in listed} >= set(ids)
        shown = json.loads(core(home, "show", report["experiment"], "--json").stdout)["runs"]
        assert shown == report["runs"]
        compared = json.loads(core(home, "compare", *ids, "--json").stdout)
        assert compared["differing_fields"] == {"batch_size": [1, 4]}
        table = core(home, "compare", *ids).stdout
        assert "batch_size" in table
        assert "peak host_rss" in table

    def test_an_experiment_file_with_an_override(self, home: Path, tmp_path: Path) -> None:
        file = tmp_path / "experiment.yaml"
        file.write_text(
            "title: pair\nbase: {model: tiny-llama, new_tokens: 2}\nruns:\n - {name: a}\n - {name: b, wrap: ddp}\n"
        )
        done = core(home, "run", "--file", str(file), "--device", "cpu", "--prompt-tokens", "8", "--json")
        runs = json.loads(done.stdout)["runs"]
        assert [(run["state"], run["spec"]["wrap"], run["spec"]["prompt_tokens"]) for run in runs] == [
            ("finished", "none", 8),
            ("finished", "ddp", 8),
        ], done.stderr

    def test_a_time_limit_is_exit_code_124(self, home: Path) -> None:
        done = core(home, "run", "--model", "tiny-llama", "--device", "cpu", "--timeout-s", "0.5", "--json")
        assert done.returncode == 124
        (run,) = json.loads(done.stdout)["runs"]
        assert (run["state"], run["error"]["kind"]) == ("timed_out", "timeout")


def folder_with(path: Path, **files: str | bytes) -> Path:
    path.mkdir()
    for name, content in files.items():
        target = path / name.replace("__", ".")
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


CONFIG = json.dumps({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                     "intermediate_size": 128, "vocab_size": 100})  # fmt: skip

BAD_FOLDERS: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no-config": ({"readme__md": "x"}, "config.json"),
    "not-json": ({"config__json": "{oops"}, "JSON"),
    "absurd": ({"config__json": CONFIG.replace("64", "-7")}, "hidden_size"),
    "truncated": ({"config__json": CONFIG, "model__safetensors": b"\x10\0\0\0\0\0\0\0{"}, "safetensors"),
    "pickle": ({"config__json": CONFIG, "pytorch_model__bin": b"\x80\x04N."}, "safetensors"),
    "remote-code": ({"config__json": CONFIG[:-1] + ', "auto_map": {"AutoModelForCausalLM": "x.Y"}}'}, "auto_map"),
}


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_a_bad_model_folder_is_one_line_and_exit_code_2(tmp_path: Path, name: str) -> None:
    files, says = BAD_FOLDERS[name]
    folder = folder_with(tmp_path / name, **files)
    refused(tmp_path, ["run", "--model", str(folder), "--device", "cpu"], says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("run --model lama-7b --device cpu", "llama-7b"),
        ("run --model nobody/nothing --device cpu", "folder"),
        ("run --model /no/such/folder --device cpu", "/no/such/folder"),
        ("run --model gpt2 --device cuda:7", "cuda:7"),
        ("run --model gpt2 --device tpu", "tpu"),
        ("run --model gpt2 --batch-size 0 --device cpu", "batch_size"),
        ("run --model gpt2 --batch-size -3 --device cpu", "batch_size"),
        ("run --model gpt2 --prompt-tokens 1020 --new-tokens 16 --device cpu", "1024"),
        ("run --model llama-3.1-70b --device cpu", "--force"),
        ("run --model gpt2 --device cpu --batch-size " + ",".join(map(str, range(1, 502))), "501"),
        ("run --model gpt2 --device cpu --engine deepspeed --kernel-inject true", "needs a GPU"),
        ("run --model gpt2 --device sim:rtx-a600", "did you mean sim:rtx-a6000"),
        ("run", "--model"),
        ("show aaaaaa-1", "aaaaaa-1"),
        ("export aaaaaa-1 --format xls", "xls"),
        ("cancel", "--all"),
        ("run --file /no/such.yaml", "/no/such.yaml"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, arguments: str, says: str) -> None:
    refused(tmp_path, arguments.split(), says)


def refused(tmp_path: Path, arguments: list[str], says: str) -> None:
    home = tmp_path / "home"
    done = core(home, *arguments)
    assert done.returncode == 2, done.stderr + done.stdout
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not list((home / "queue").glob("*")), "nothing was queued"


def test_a_data_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = core(tmp_path / "file" / "home", "ls")
    assert done.returncode == 2
    assert "set VRAMSCOPE_HOME to one that can" in done.stderr


def test_a_warning_is_no_refusal(tmp_path: Path) -> None:
    long = ("run", "--model", "tiny-llama", "--device", "cpu", "--prompt-tokens", "2040")
    done = core(tmp_path / "home", *long, "--dry-run", "--json")
    assert done.returncode == 0
    assert "positions" in done.stderr
    assert json.loads(done.stdout)["runs"][0]["spec"]["prompt_tokens"] == 2040


def test_doctor_and_devices_answer(tmp_path: Path) -> None:
    doctor = json.loads(core(tmp_path / "home", "doctor", "--json").stdout)
    assert doctor["environments"][0]["torch"]
    devices = json.loads(core(tmp_path / "home", "devices", "--json").stdout)
    assert devices["devices"][-1]["id"] == "cpu"
    assert devices["devices"][-1]["used_bytes"] > 0
    if not devices["driver"]:
        assert devices["no_cuda_reason"]
