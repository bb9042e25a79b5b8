"""Finds the public model that a name speaks of: a preset, a hub id, a folder, a file, or words in a sentence.

A name holds a family (`llama-2`, `qwen2.5`) and a size (`7b`), often with other words between. Both have to agree: a
size that the family is not listed with makes it another model, and its dimensions unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from core.oom.public_models import ALIASES, OTHERS, ROWS
from core.spec.config_check import read_config
from core.spec.presets import preset_folder, preset_names

LONGEST_NAME = 300
BETWEEN = 4
"""Words that may stand between a family and a size: `qwen2.5-coder-instruct-7b`."""

_SIZE = re.compile(r"\d{1,3}(?:x\d{1,3})?(?:\.\d{1,2})?[bm]\d?")


@dataclass(frozen=True)
class _Entry:
    """`family`, `size` and `also`: words of a name; `model`: whose sizes it has, None where they are not known here."""

    family: tuple[str, ...]
    size: str | None
    also: frozenset[str]
    model: str | None


@cache
def known_configs() -> Mapping[str, Mapping[str, Any]]:
    """Configs by name: the presets, then the table of public models."""
    found: dict[str, Mapping[str, Any]] = {
        name: read_config(preset_folder(name) / "config.json") for name in preset_names()
    }
    for line in ROWS.split("\n"):
        if line:
            name, config = _row(line)
            found.setdefault(name, config)
    return found


def _row(line: str) -> tuple[str, dict[str, Any]]:
    name, model_type, *rest = line.split()
    hidden, layers, heads, kv_heads, intermediate, vocab = (int(figure) for figure in rest[:6])
    more = dict(word.split("=") for word in rest[6:] if "=" in word)
    return name, {
        "model_type": model_type,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": intermediate,
        "vocab_size": vocab,
        "tie_word_embeddings": "tied" in rest,
        **({"head_dim": int(more["head_dim"])} if "head_dim" in more else {}),
        **({"num_local_experts": int(more["experts"])} if "experts" in more else {}),
    }


@cache
def known_vocabularies() -> tuple[int, ...]:
    """The sizes of vocabulary that public models have."""
    sizes = {config.get("vocab_size") for config in known_configs().values()}
    return tuple(sorted(size for size in sizes if isinstance(size, int) and size > 10_000))


def _words(name: str) -> tuple[str, ...]:
    """`Qwen2.5-7B-Instruct` is qwen, 2.5, 7b, instruct; `7b1` is 7.1b. A dot parts words unless digits are round it."""
    text = re.sub(r"(?<=\d)_(?=\d)", ".", name.lower()[-LONGEST_NAME:])
    text = re.sub(r"(?<!\d)\.|\.(?!\d)|[^a-z0-9.]+", "-", text)
    text = re.sub(r"(?<=[a-z]{2})(?=\d)", "-", text)
    words = (word for word in text.split("-") if word)
    return tuple(re.sub(r"\A(\d)([bm])(\d)\Z", r"\1.\3\2", word) for word in words)


@cache
def _entries() -> Mapping[str, tuple[_Entry, ...]]:
    """By the first word of the family."""
    names: dict[str, str | None] = {name: name for name in known_configs() if name != "tiny-llama"}
    for pair in re.findall(r"(\S+) = (\S+)", ALIASES):
        names.setdefault(pair[0], pair[1])
    names.update(dict.fromkeys(OTHERS))
    found: dict[str, list[_Entry]] = {}
    for name, model in names.items():
        words = _words(name)
        at = next((at for at, word in enumerate(words) if _SIZE.fullmatch(word)), None)
        family, size, also = (words, None, ()) if at is None else (words[:at], words[at], words[at + 1 :])
        found.setdefault(family[0], []).append(_Entry(family, size, frozenset(also), model))
    return {first: tuple(entries) for first, entries in found.items()}


@lru_cache(maxsize=1024)
def find_model(name: str) -> tuple[str, Mapping[str, Any]] | None:
    """The model that `name` speaks of, if it is one whose sizes are known here."""
    if name in known_configs():
        return name, known_configs()[name]
    words = _words(name)
    found = _families(words)
    longest = max((len(entry.family) for _, entry in found), default=0)
    fitting = [(at, entry) for at, entry in found if len(entry.family) == longest and _agrees(words, at, entry)]
    if not fitting:
        return None
    model = max(fitting, key=lambda pair: (len(pair[1].also), pair[1].size is not None, pair[0]))[1].model
    return (model, known_configs()[model]) if model else None


def _families(words: tuple[str, ...]) -> list[tuple[int, _Entry]]:
    """Each family that stands in the words, and where."""
    entries = _entries()
    return [
        (at, entry)
        for at, word in enumerate(words)
        for entry in entries.get(word, ())
        if words[at : at + len(entry.family)] == entry.family
    ]


def _agrees(words: tuple[str, ...], at: int, entry: _Entry) -> bool:
    """Whether the first size behind the family is the entry's; an entry without one wants a name without one."""
    rest = words[at + len(entry.family) :]
    place = next((place for place, word in enumerate(rest) if _SIZE.fullmatch(word)), None)
    if place is None or entry.size is None:
        return entry.size is None and place is None and entry.also <= set(rest)
    return rest[place] == entry.size and place <= BETWEEN and entry.also <= set(rest)


def type_in_name(name: str) -> str | None:
    """The model type that a name hints at: `opt-30b` is an opt, whatever its sizes."""
    found = _families(_words(name))
    longest = max((len(entry.family) for _, entry in found), default=0)
    named = [entry.model for _, entry in found if len(entry.family) == longest and entry.model]
    return str(known_configs()[named[-1]].get("model_type")) if named else None
