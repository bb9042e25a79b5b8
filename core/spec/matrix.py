"""A matrix of choices: several values for some fields, expanded to one spec for each combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from core.spec.errors import InvalidSpec
from core.spec.run_spec import RunSpec, parse_spec

MOST_RUNS = 500


@dataclass(frozen=True)
class Matrix:
    """The runs of an experiment, in order. `varying`: the fields that are not the same in all; `labels`: one a run."""

    specs: tuple[RunSpec, ...]
    varying: tuple[str, ...]
    labels: tuple[str, ...]


def shown(value: Any) -> str:
    """A field's value as people write it: true, none, 0.7."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def matrix_of(specs: Sequence[RunSpec], names: Sequence[str] | None = None) -> Matrix:
    """A matrix of given specs; each is labelled by its name where it has one, else by the fields that vary.

    Raises InvalidSpec when there are none or more than 500.
    """
    if not specs:
        raise InvalidSpec("there is no run in it; give at least one")
    _refuse_too_many(len(specs))
    varying = tuple(name for name in RunSpec.model_fields if len({repr(getattr(spec, name)) for spec in specs}) > 1)
    labels = []
    for position, spec in enumerate(specs):
        name = names[position] if names else ""
        labels.append(name or " ".join(f"{field}={shown(getattr(spec, field))}" for field in varying))
    return Matrix(tuple(specs), varying, tuple(labels))


def expand(choices: Mapping[str, Any]) -> Matrix:
    """Every combination of `choices`, a value or a list of values for each field; the first field varies slowest.

    Raises InvalidSpec for a bad value, an empty list, a value given twice, or more than 500 runs (before making them).
    """
    lists = {name: list(value) if isinstance(value, list | tuple) else [value] for name, value in choices.items()}
    specs = []
    for combination in combinations(lists):
        try:
            specs.append(parse_spec(combination))
        except InvalidSpec as error:
            which = " ".join(f"{name}={shown(combination[name])}" for name, values in lists.items() if len(values) > 1)
            raise InvalidSpec(f"with {which}: {error}" if which else str(error)) from error
    refuse_twice(lists, specs)
    return matrix_of(specs)


def combinations(lists: Mapping[str, list[Any]], times: int = 1) -> list[dict[str, Any]]:
    """The product of `lists`, the first field varying slowest; `times` runs are made of each combination.

    Raises InvalidSpec for an empty list, or for more than 500 runs before making them.
    """
    for name, values in lists.items():
        if not values:
            raise InvalidSpec(f"{name} has an empty list of values; give one or leave the field out")
    _refuse_too_many(times * prod(len(values) for values in lists.values()))
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]


def refuse_twice(lists: Mapping[str, list[Any]], specs: Sequence[RunSpec]) -> None:
    """Raises InvalidSpec when two values of a list mean the same, as bf16 and bfloat16 do."""
    for name, values in lists.items():
        if len(values) > 1 and len({repr(getattr(spec, name)) for spec in specs}) < len(values):
            raise InvalidSpec(f"{name} has a value twice in {', '.join(map(str, values))}; leave one out")


def _refuse_too_many(count: int) -> None:
    if count > MOST_RUNS:
        raise InvalidSpec(f"that makes {count:,} runs, more than {MOST_RUNS}; take some values out")
