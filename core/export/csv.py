"""Traces as tidy CSV: run_id,t_s,step,phase,source,metric,value_bytes."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import TextIO

from core.export.rows import COLUMNS, column_chunks
from core.trace.trace import Trace

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def neutral(text: str) -> str:
    """Text that a spreadsheet takes for text: one that would start a formula gets a leading apostrophe.

    A line break becomes a space: csv before Python 3.13 does not quote a lone carriage return, and what follows it
    would start a row, and so a cell.
    """
    said = text.replace("\r", " ").replace("\n", " ")
    return f"'{said}" if text.startswith(FORMULA_STARTS) else said


def write_csv(traces: Iterable[Trace], stream: TextIO) -> int:
    """Write every point of every series; returns the number of rows. A figure not available is an empty cell."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for columns in column_chunks(traces):
        for name in ("run_id", "phase"):
            columns[name] = [neutral(text) for text in columns[name]]
        writer.writerows(zip(*(columns[name] for name in COLUMNS), strict=True))
        count += len(columns["t_s"])
    return count
