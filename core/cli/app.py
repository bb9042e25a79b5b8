"""The commands, and how an error of theirs is shown."""

from __future__ import annotations

import sys

import typer

from core.cli import calibrate, devices, diagnose, explain, export, inspect, manage, run, serve
from core.spec.errors import VramscopeError

BAD_INPUT = 2

app = typer.Typer(
    name="vramscope",
    help="Where GPU memory goes when a language model runs generate().",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command("run", context_settings={"max_content_width": 110})(run.command())
app.command("devices")(devices.devices)
app.command("doctor")(devices.doctor)
app.command("ls")(inspect.ls)
app.command("show")(inspect.show)
app.command("compare")(inspect.compare)
app.command("explain")(explain.explain)
app.command("diagnose", context_settings={"max_content_width": 110})(diagnose.command())
app.command("export")(export.export)
app.command("import")(export.import_)
app.command("cancel")(manage.cancel_runs)
app.command("reindex")(manage.reindex)
app.command("calibrate")(calibrate.calibrate)
app.command("serve")(serve.serve)


def main() -> None:
    """Exit code 2 and one line on stderr for what the user can mend; a traceback only for our own mistakes."""
    try:
        app()
    except VramscopeError as error:
        print(f"vramscope: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
