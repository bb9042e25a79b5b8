"""In which fields specs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def differing_fields(specs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Fields that are not the same in all `specs`, each with its value in every one of them (None where absent)."""
    names = dict.fromkeys(name for spec in specs for name in spec)
    values = {name: [spec.get(name) for spec in specs] for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}
