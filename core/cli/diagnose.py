"""`diagnose`: what a pasted out-of-memory error means."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli.options import with_spec_flags
from core.cli.output import JsonFlag, print_json
from core.oom import diagnose, facts_from
from core.oom.diagnosis import NOTHING_FOUND
from core.oom.markdown import plain_text
from core.spec.errors import InvalidSpec

LARGEST = 64 * 2**20


def command() -> Callable[..., Any]:
    """The command with the flags of `run`, as hints."""
    return with_spec_flags(explain)


def explain(
    choices: dict[str, list[str]],
    file: Annotated[str, typer.Argument(help="A text with the error; - or nothing reads standard input.")] = "-",
    config: Annotated[str | None, typer.Option(help="The model's config.json: a file, or the JSON itself.")] = None,
    max_seq_len: Annotated[str | None, typer.Option(help="Tokens that a cache is made for.")] = None,
    platform: Annotated[str | None, typer.Option(help="windows, wsl or linux.")] = None,
    torch: Annotated[str | None, typer.Option(help="Version of torch, such as 2.3.0.")] = None,
    transformers: Annotated[str | None, typer.Option(help="Version of transformers.")] = None,
    deepspeed: Annotated[str | None, typer.Option(help="Version of DeepSpeed.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Explain an out-of-memory error: which tensor it was, who holds the card, what to change.

    Every flag is a hint, and none is checked: an unknown model or data type only helps less. A text without an error is
    a result too: exit code 0, with empty lists, and a line that says what is looked for.
    """
    hints: dict[str, Any] = {name: values[0] for name, values in choices.items() if values}
    hints |= {"config": config, "max_seq_len": max_seq_len, "platform": platform}
    given = {"torch": torch, "transformers": transformers, "deepspeed": deepspeed}
    hints["versions"] = {name: version for name, version in given.items() if version}
    diagnosis = diagnose(_read(file), facts_from(hints))
    if json_:
        print_json(diagnosis.document())
        if not diagnosis.errors:
            print(NOTHING_FOUND, file=sys.stderr)
    else:
        print(plain_text(diagnosis))


def _read(file: str) -> str:
    """The text as it is, line ends included; PowerShell writes UTF-16. Raises InvalidSpec."""
    if file == "-":
        if sys.stdin.isatty():
            print("Paste the error, then end with Ctrl-D.", file=sys.stderr)
        data = sys.stdin.buffer.read(LARGEST + 1)
    else:
        try:
            with Path(file).open("rb") as stream:
                data = stream.read(LARGEST + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidSpec(f"{file} cannot be read ({reason}); give a text file, or - for standard input") from error
    if len(data) > LARGEST:
        raise InvalidSpec("the text is larger than 64 MiB; give the last lines, with the error in them")
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    return data.decode(encoding, errors="replace")
