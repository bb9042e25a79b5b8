"""Configurations of public architectures, as published: `<name>/config.json`. No weights."""

from __future__ import annotations

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent


@cache
def preset_names() -> tuple[str, ...]:
    """The names of all presets, in alphabetical order."""
    return tuple(sorted(path.parent.name for path in ROOT.glob("*/config.json")))


def is_preset(name: str) -> bool:
    return name in preset_names()


def preset_folder(name: str) -> Path:
    """The folder with the config.json of the preset `name`."""
    return ROOT / name
