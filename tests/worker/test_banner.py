"""DeepSpeed's banner, as it printed it on an H200 and as its source prints the failures."""

from __future__ import annotations

from pathlib import Path

from core.worker.banner import parse_banner, read_banner

TAKEN = """\
[2026-12-01 03:01:26,686] [WARNING] [config_utils.py:70:_process_deprecated_field] Config parameter is deprecated.
------------------------------------------------------
Free memory : 33.415588 (GigaBytes)\x20\x20
Total memory: 139.800720 (GigaBytes)\x20\x20
Requested memory: 32.844543 (GigaBytes)\x20
Setting maximum total tokens (input + output) to 350\x20
WorkSpace: 0x7f04f6000000\x20
------------------------------------------------------
generated
"""


def test_a_workspace_that_was_taken() -> None:
    banner = parse_banner(TAKEN)
    assert banner is not None
    assert banner["free_bytes"] == round(33.415588 * 2**30)
    assert banner["requested_bytes"] == round(32.844543 * 2**30)
    assert banner["max_tokens"] == 350
    assert banner["lines"][0] == "Free memory : 33.415588 (GigaBytes)"
    assert len(banner["lines"]) == 5


def test_the_last_of_several_workspaces_counts() -> None:
    banner = parse_banner(TAKEN + TAKEN.replace("350", "512").replace("32.844543", "40.000000"))
    assert banner is not None
    assert (banner["max_tokens"], banner["requested_bytes"]) == (512, 40 * 2**30)


def test_a_workspace_that_could_not_be_had() -> None:
    banner = parse_banner("Requested:\t524812288\nFree:\t307822592\nTotal:\t150110011392\n")
    assert banner is not None
    assert (banner["free_bytes"], banner["requested_bytes"], banner["max_tokens"]) == (307822592, 524812288, None)


def test_too_few_tokens() -> None:
    line = "Allocatable workspace available (12 tokens) is less than minimum requested workspace (72 tokens)"
    assert parse_banner(f"{line}\n") == {"free_bytes": None, "requested_bytes": None, "max_tokens": 12, "lines": [line]}


def test_no_banner(tmp_path: Path) -> None:
    assert parse_banner("Free lunch\n") is None
    assert read_banner(tmp_path / "stdout.log") is None
    (tmp_path / "stdout.log").write_text(TAKEN)
    banner = read_banner(tmp_path / "stdout.log")
    assert banner is not None
    assert banner["max_tokens"] == 350
