"""Printing: JSON for programs, tables for people."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

GIB = 2**30
MIB = 2**20


def print_json(document: Any) -> None:
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """A table as wide as the terminal, or as wide as needed where the output is no terminal."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table)


def size(value: int | None) -> str:
    """Bytes as MiB below 10 GiB and as GiB from there; `–` for a figure that is not known."""
    if value is None:
        return "–"
    return f"{value / GIB:,.2f} GiB" if value >= 10 * GIB else f"{value / MIB:,.1f} MiB"
