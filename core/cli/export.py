"""`export`: traces as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from core.cli.inspect import RunIds
from core.cli.output import JsonFlag, print_json
from core.export.csv import write_csv
from core.runs.home import open_home
from core.runs.store import Store
from core.spec.errors import InvalidSpec
from core.trace.read import read_trace

FORMATS = ("csv",)


def export(
    run: RunIds,
    format_: Annotated[str, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}.")] = "csv",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; standard output if not given.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Write the traces of runs as tidy rows: run_id,t_s,step,phase,source,metric,value_bytes."""
    if format_ not in FORMATS:
        raise InvalidSpec(f"format {format_!r} is not known; there is {', '.join(FORMATS)}")
    if json_ and output is None:
        raise InvalidSpec("--json says what was written, so it needs --output FILE")
    home = open_home()
    traces = (read_trace(home.run(run_id)) for run_id in Store(home).resolve(run))
    if output is None:
        write_csv(traces, sys.stdout)
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as stream:
            count = write_csv(traces, stream)
    except OSError as error:
        raise InvalidSpec(f"{output} cannot be written ({error.strerror}); give another file") from error
    if json_:
        print_json({"output": str(output), "format": format_, "rows": count})
    else:
        print(f"{count:,} rows in {output}", file=sys.stderr)
