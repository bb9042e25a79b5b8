"""Reads a YAML or JSON file that someone else may have written: plain data only, of bounded size and depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from core.spec.errors import InvalidSpec

LARGEST_FILE = 2**20
DEEPEST = 20
MOST_NODES = 50_000
"""500 runs with every field written out are 30,000; what PyYAML reads of more takes seconds."""


class _Loader(yaml.SafeLoader):
    """Plain data. Refuses aliases (a few hundred bytes of them expand to gigabytes), depth, and a key given twice."""

    depth = 0
    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]  # untyped in its stubs
        if self.check_event(yaml.AliasEvent):
            raise InvalidSpec(f"line {line}: aliases (*name) are not read; write the value out")
        self.depth += 1
        self.nodes += 1
        if self.depth > DEEPEST:
            raise InvalidSpec(f"line {line}: it is nested too deep; an experiment has three levels")
        if self.nodes > MOST_NODES:
            raise InvalidSpec(f"line {line}: it has more than {MOST_NODES:,} values; an experiment is a page of text")
        node = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(node, yaml.MappingNode):
            _refuse_keys_twice(node)
        return node


def _refuse_keys_twice(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise InvalidSpec(f"line {key.start_mark.line + 1}: {key.value[:60]!r} is given twice; keep one of them")
        seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))


def read_document(path: Path) -> Any:
    """The data in `path`: JSON where its name ends in .json, YAML otherwise.

    Raises InvalidSpec, with the line where there is one.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidSpec(f"{path.name} is larger than 1 MiB; an experiment is a page of text")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read ({error.strerror}); give the path of an experiment file") from error
    except UnicodeDecodeError as error:
        raise InvalidSpec(f"{path.name} is not text; give an experiment as YAML or JSON") from error
    try:
        return _json(text) if path.suffix.lower() == ".json" else _yaml(text)
    except InvalidSpec as error:
        raise InvalidSpec(f"{path.name}: {error}") from error
    except RecursionError as error:
        raise InvalidSpec(f"{path.name} is nested too deep; an experiment has three levels") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except json.JSONDecodeError as error:
        raise InvalidSpec(f"line {error.lineno}: {error.msg[:1].lower() + error.msg[1:]}; it has to be JSON") from error
    except ValueError as error:  # a number of thousands of digits
        raise InvalidSpec(f"it has a value that cannot be read ({error})") from error


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidSpec(f"{key[:60]!r} is given twice; keep one of them")
        found[key] = value
    return found


def _yaml(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506  # a SafeLoader that reads less
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not YAML"
        raise InvalidSpec(f"{where}{problem}; it has to be YAML or JSON") from error
    except ValueError as error:  # such as a date with month 13
        raise InvalidSpec(f"it has a value that cannot be read ({error})") from error
