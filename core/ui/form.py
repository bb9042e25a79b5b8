"""The form of Explore: one input for each field of a RunSpec, with several values where a matrix makes sense."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.devices.registry import calibrated_cards, list_devices
from core.runs.settings import Settings
from core.spec.cards import all_cards
from core.spec.fields import FIELDS, SpecField
from core.spec.presets import preset_names

GROUPS = ("Model", "Where", "How", "Work", "Record")

START: dict[str, tuple[str, ...]] = {"model": ("tiny-llama",)}
"""What the form shows on the first visit: something that runs in seconds anywhere."""


def spec_form(settings: Settings) -> dict[str, list[str]]:
    """Draw the form; returns the chosen values of each field that was given any."""
    choices: dict[str, list[str]] = {}
    for group in GROUPS:
        fields = [field for field in FIELDS.values() if field.group == group]
        common = [field for field in fields if field.common]
        rest = [field for field in fields if not field.common]
        st.subheader(group, divider="gray")
        _inputs(common, choices, settings)
        if rest:
            with st.expander("More" if common else "Recording and limits"):
                _inputs(rest, choices, settings)
    return choices


def _inputs(fields: list[SpecField], choices: dict[str, list[str]], settings: Settings) -> None:
    """Two inputs a line, the model alone on its own: its names are long."""
    wide = [field for field in fields if field.name == "model"]
    for field in wide:
        _take(choices, field, _input(field, settings))
    narrow = [field for field in fields if field not in wide]
    for start in range(0, len(narrow), 2):
        for column, field in zip(st.columns(2), narrow[start : start + 2], strict=False):
            with column:
                _take(choices, field, _input(field, settings))


def _take(choices: dict[str, list[str]], field: SpecField, values: list[str]) -> None:
    if values:
        choices[field.name] = values


def _label(field: SpecField) -> str:
    name = field.name.replace("_", " ")
    return f"{name} ({field.unit})" if field.unit and field.unit not in name else name


def _default(field: SpecField) -> list[str]:
    given = st.query_params.get(field.name)
    if given:
        return given[:500].split(",") if field.splits else [given[:500]]
    return list(START.get(field.name, ()))


def _input(field: SpecField, settings: Settings) -> list[str]:
    options = _options(field, settings)
    default = _default(field)
    placeholder = "default" if field.default is None else _shown(field.default)
    if field.name == "allocator":
        text = st.text_input(_label(field), "".join(default), help=field.help, placeholder="torch's default")
        return [text] if text else []
    return st.multiselect(
        _label(field),
        list(dict.fromkeys([*options, *default])),
        default=default,
        help=field.help,
        placeholder=f"{placeholder} – add values" if not field.choices else placeholder,
        accept_new_options=not field.choices,
        key=f"field-{field.name}",
    )


def _options(field: SpecField, settings: Settings) -> list[str]:
    if field.choices:
        return list(field.choices)
    if field.name == "model":
        return list(preset_names())
    if field.name == "device":
        real = [*(f"cuda:{device.index}" for device in list_devices().cuda), "cpu"]
        return [*real, *(card.device_id for card in all_cards(calibrated_cards()))]
    if field.name == "environment":
        return ["default", *settings.environments]
    return [] if field.default in (None, "") else [_shown(field.default)]


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
