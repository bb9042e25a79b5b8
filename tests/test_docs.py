"""What the documents say holds: the tests they name are collected, the flags and settings they name are there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from core.runs.room import LEAST_FREE
from core.runs.supervisor.launching import RESERVE_BYTES
from core.runs.supervisor.logs import KEPT_BYTES, MOST_BYTES
from core.runs.supervisor.returning import PATIENCE_NS

ROOT = Path(__file__).resolve().parents[1]
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()
SERVING = (ROOT / "docs" / "serving.md").read_text()
LISTED = re.findall(r"`([\w/]+\.py)::(\w+)`", RELIABILITY)


@pytest.fixture(scope="module")
def collected() -> set[tuple[str, str]]:
    """What pytest finds in the files that the table names, and in all of those that it has to name."""
    files = sorted({f"tests/{name}" for name, _ in LISTED} | {"tests/faults", "tests/hostile"})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "-o", "addopts=", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return set(re.findall(r"^tests/([\w/]+\.py)::(\w+)", done.stdout, re.MULTILINE))


def test_the_table_of_faults_is_complete(collected: set[tuple[str, str]]) -> None:
    assert len(set(LISTED)) >= 40
    assert sorted(set(LISTED) - collected) == [], "it names tests that there are not"
    ours = {one for one in collected if one[0].startswith(("faults/", "hostile/"))}
    assert sorted(ours - set(LISTED)) == [], "it lacks tests that there are"
    assert len(LISTED) == len(set(LISTED)), "it names one twice"


def test_every_row_has_a_fault_a_behaviour_and_a_test() -> None:
    tables = [line for line in RELIABILITY.splitlines() if line.startswith("| ") and "::" in line]
    assert len(tables) >= 80
    for row in tables:
        fault, behaviour, tests = (cell.strip() for cell in row.strip("|").split(" | "))
        assert fault and behaviour and tests.startswith("`")


def test_no_listed_test_is_expected_to_fail() -> None:
    for name, test in set(LISTED):
        text = (ROOT / "tests" / name).read_text()
        before = text[: text.index(f"def {test}(")].rpartition("\n\n\n")[2]
        assert "xfail" not in before and "mark.skip(" not in before, test


def test_the_figures_of_the_table_are_those_of_the_code() -> None:
    assert (KEPT_BYTES >> 20, MOST_BYTES >> 20) == (4, 16)
    assert PATIENCE_NS == 15 * 10**9
    assert RESERVE_BYTES == 2**20
    assert LEAST_FREE == 64 * 2**20


def test_the_flags_and_settings_that_serving_names_are_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "core", "serve", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120, env={"COLUMNS": "200", "PATH": "/usr/bin"},
    )  # fmt: skip
    for flag in set(re.findall(r"--[a-z][a-z-]+", SERVING)) - {"--server"}:
        assert flag in done.stdout, flag
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert config["server"]["enableXsrfProtection"] and config["server"]["enableCORS"]
    assert config["server"]["address"] == "127.0.0.1"
    assert config["server"]["allowedHosts"] == ["localhost", "127.0.0.1", "::1"]
    assert config["server"]["maxUploadSize"] == 64
    assert config["client"]["showErrorDetails"] == "none"
    assert config["client"]["allowedOrigins"] == []
    for path in re.findall(r"`(tests/[\w/.]+)`", SERVING + RELIABILITY):
        assert (ROOT / path).exists(), path
