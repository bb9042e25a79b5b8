"""What the form and the command line say of each field, read off RunSpec itself."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from core.spec.presets import preset_names
from core.spec.run_spec import Group, RunSpec


@dataclass(frozen=True)
class SpecField:
    """One field: `kind` is the Python type of a value, `choices` its values where they are a closed list."""

    name: str
    group: Group
    help: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    optional: bool
    common: bool
    unit: str | None

    @property
    def splits(self) -> bool:
        """Whether a comma in the text of this field separates values: the allocator's setting has commas itself."""
        return self.name != "allocator"


def _field(name: str) -> SpecField:
    info = RunSpec.model_fields[name]
    annotation, optional = info.annotation, False
    if get_origin(annotation) in (Union, types.UnionType):
        arms = [arm for arm in get_args(annotation) if arm is not type(None)]
        annotation, optional = arms[0], True
    if get_origin(annotation) is not None and hasattr(annotation, "__metadata__"):
        annotation = get_args(annotation)[0]
    choices = tuple(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ()
    if annotation is bool:
        choices = ("false", "true")
    kind = annotation if isinstance(annotation, type) else str
    about = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    default = None if info.is_required() else info.default
    text = str(info.description)
    if name == "model":
        text += f" Presets: {', '.join(preset_names())}."
    return SpecField(
        name,
        about["group"],  # type: ignore[arg-type]  # written by _about, which is typed
        text,
        kind,
        choices,
        default,
        optional,
        bool(about["common"]),
        about["unit"],  # type: ignore[arg-type]  # written by _about, which is typed
    )


FIELDS: dict[str, SpecField] = {name: _field(name) for name in RunSpec.model_fields}
"""Every field of a RunSpec by name, in the order of the form."""
