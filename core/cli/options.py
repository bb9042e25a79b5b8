"""The flags of `run`: one for each field of a RunSpec, made from the fields' own descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from core.spec.fields import FIELDS


def flag_of(name: str) -> str:
    """`batch_size` is `--batch-size` on the command line."""
    return "--" + name.replace("_", "-")


def with_spec_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command(choices, …)` with a flag for each field instead of its first parameter.

    A flag takes one value or a list with commas; `choices` maps the fields that were given to their lists of values.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    flags = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    flag_of(field.name),
                    help=field.help,
                    metavar="|".join(field.choices) if field.choices else "VALUE[,…]",
                    rich_help_panel=field.group,
                    show_default=False,
                ),
            ],
        )
        for field in FIELDS.values()
    ]

    def wrapped(**given: Any) -> Any:
        choices = {
            name: [part.strip() for part in text.split(",")] if FIELDS[name].splits else [text]
            for name in FIELDS
            if (text := given.pop(name, None)) is not None
        }
        return command(choices, **given)

    wrapped.__doc__ = command.__doc__
    wrapped.__name__ = command.__name__
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    wrapped.__signature__ = inspect.Signature([*flags, *parameters])  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {p.name: p.annotation for p in (*flags, *parameters)}
    return wrapped
