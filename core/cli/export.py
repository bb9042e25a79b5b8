"""`export` and `import`: runs as a file, and an archive of runs taken in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from core.cli.inspect import RunIds
from core.cli.output import JsonFlag, print_json
from core.export.archive import LARGEST_ARCHIVE, import_archive
from core.export.formats import FORMATS, exported
from core.runs.home import open_home
from core.runs.store import Store
from core.spec.errors import InvalidSpec

BINARY = {"parquet", "archive", "memory_viz"}


def export(
    run: RunIds,
    format_: Annotated[str, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}.")] = "csv",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; standard output if not given.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Write runs to a file: their traces as tidy rows, a report, an archive, a script that repeats one."""
    if output is None and (json_ or format_ in BINARY):
        raise InvalidSpec(
            f"{'--json says what was written, so it' if json_ else f'format {format_}'} needs --output FILE"
        )
    if format_ not in FORMATS:
        raise InvalidSpec(f"format {format_!r} is not known; there is {', '.join(FORMATS)}")
    home = open_home()
    run_ids = Store(home).resolve(run)
    data = exported(format_, [home.run(run_id) for run_id in run_ids])
    if output is None:
        sys.stdout.write(data.decode())
        return
    try:
        output.write_bytes(data)
    except OSError as error:
        raise InvalidSpec(f"{output} cannot be written ({error.strerror}); give another file") from error
    if json_:
        print_json({"output": str(output), "format": format_, "bytes": len(data), "runs": run_ids})
    else:
        print(f"{len(run_ids)} runs in {output}, {len(data):,} bytes", file=sys.stderr)


def import_(
    file: Annotated[Path, typer.Argument(help="An archive that `export --format archive` wrote.", show_default=False)],
    json_: JsonFlag = False,
) -> None:
    """Take the runs of an archive into the data folder, as a new experiment."""
    try:
        if file.stat().st_size > LARGEST_ARCHIVE:
            raise InvalidSpec(f"{file} is larger than 1 GiB; it is no archive of an experiment")
        data = file.read_bytes()
    except OSError as error:
        raise InvalidSpec(f"{file} cannot be read ({error.strerror}); give the path of an archive") from error
    experiment_id, run_ids = import_archive(open_home(), data)
    if json_:
        print_json({"experiment": experiment_id, "runs": run_ids})
    else:
        print(f"experiment {experiment_id}: {', '.join(run_ids)}")
