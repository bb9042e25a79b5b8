"""`python -m core diagnose` as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MESSAGE = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 642.00 MiB."
HINTS = [
    "--model",
    "llama-7b",
    "--batch-size",
    "150",
    "--prompt-tokens",
    "35",
    "--new-tokens",
    "37",
    "--dtype",
    "bfloat16",
]


def core(*arguments: str, given: bytes = b"", home: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, **({"VRAMSCOPE_HOME": str(home)} if home else {})}
    return subprocess.run(
        [sys.executable, "-m", "core", "diagnose", *arguments],
        cwd=ROOT,
        env=env,
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_file_with_hints(tmp_path: Path) -> None:
    (tmp_path / "error.txt").write_text(f"a log\r\n{MESSAGE}\r\n", newline="")
    done = core(str(tmp_path / "error.txt"), *HINTS, "--json", home=tmp_path / "home")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["errors"][0]["requested_bytes"] == 673185792
    assert document["errors"][0]["span"] == [7, 7 + len(MESSAGE)]
    first = document["diagnoses"][0]
    assert first["cause"] == "logits_all_positions_fp32"
    assert first["tensors"][0]["shape"] == [150, 35, 32000]
    assert not (tmp_path / "home").exists(), "nothing is stored"


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_standard_input_and_text_for_people(arguments: tuple[str, ...]) -> None:
    done = core(*arguments, *HINTS, given=MESSAGE.encode("utf-16"))
    assert done.returncode == 0, done.stderr
    assert "150 × 35 × 32,000 × 4 B" in done.stdout.decode()


def test_no_error_is_a_result_that_says_what_is_looked_for() -> None:
    assert "CUDA out of memory" in core(given=b"all is well").stdout.decode()
    done = core("--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"errors": [], "diagnoses": []})
    assert "is looked for" in done.stderr.decode()


def test_hints_are_never_refused() -> None:
    done = core("--model", "no/such", "--dtype", "q4_k", "--batch-size", "x", "--json", given=MESSAGE.encode())
    assert done.returncode == 0, done.stderr


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    done = core(str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
