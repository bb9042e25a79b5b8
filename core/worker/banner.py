"""What DeepSpeed prints when it takes its workspace, read back from the run's stdout.log.

The text is that of `GenWorkSpace` in csrc/transformer/inference/includes/inference_context.h. It is printed by C code
into a buffer of the C library's, so that is flushed first.
"""

from __future__ import annotations

import ctypes
import io
import re
import sys
from pathlib import Path
from typing import Any

GIGABYTE = 2**30
"""What DeepSpeed means by "GigaBytes"; it prints six decimals of a 32-bit float, so bytes are good to about 4 KiB."""

_LINE = re.compile(
    r"^(Free memory ?:|Total memory ?:|Requested memory ?:|Setting maximum total tokens|WorkSpace:|Requested:\t"
    r"|Free:\t|Total:\t|Allocatable workspace available).*$",
    re.MULTILINE,
)
_FREE = re.compile(r"Free memory ?: ([\d.]+) \(GigaBytes\)")
_REQUESTED = re.compile(r"Requested memory ?: ([\d.]+) \(GigaBytes\)")
_TOKENS = re.compile(r"Setting maximum total tokens \(input \+ output\) to (\d+)")
_FREE_BYTES = re.compile(r"^Free:\t(\d+)", re.MULTILINE)
_REQUESTED_BYTES = re.compile(r"^Requested:\t(\d+)", re.MULTILINE)
_TOO_FEW = re.compile(r"Allocatable workspace available \((\d+) tokens\)")


class _Forgiving(io.FileIO):
    """Takes what it is given, whether or not the disk does."""

    def write(self, data: Any) -> int:
        try:
            super().write(data)
        except OSError:
            pass  # the disk is full: a print must not end the job
        return len(data)


def forgive_output() -> None:
    """Let prints to a full disk be lost instead of raising."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        raw = io.BufferedWriter(_Forgiving(number, "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True))


def flush_output() -> None:
    """Flush Python's and the C library's buffers, so that all that was printed is in the files."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        ctypes.CDLL(None).fflush(None)
    except (OSError, AttributeError, TypeError):
        pass  # no C library to ask this way (Windows): its text comes at the end of the process


def read_banner(stdout_log: Path) -> dict[str, Any] | None:
    """free_bytes, requested_bytes, max_tokens (each None where not printed) and the lines; None without a banner."""
    flush_output()
    try:
        return parse_banner(stdout_log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def parse_banner(text: str) -> dict[str, Any] | None:
    """The same from the text. Where several workspaces were taken, the figures are those of the last.

    A workspace that could not be had is printed in bytes, which are taken before the rounded figures.
    """
    lines = [match.group(0).rstrip() for match in _LINE.finditer(text)]
    if not lines:
        return None
    tokens = _last(_TOKENS, text) or _last(_TOO_FEW, text)
    return {
        "free_bytes": _bytes(_FREE_BYTES, _FREE, text),
        "requested_bytes": _bytes(_REQUESTED_BYTES, _REQUESTED, text),
        "max_tokens": int(tokens) if tokens else None,
        "lines": lines,
    }


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return str(found[-1]) if found else None


def _bytes(exact: re.Pattern[str], rounded: re.Pattern[str], text: str) -> int | None:
    whole = _last(exact, text)
    if whole:
        return int(whole)
    gigabytes = _last(rounded, text)
    return round(float(gigabytes) * GIGABYTE) if gigabytes else None
