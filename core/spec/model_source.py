"""Where a model comes from: a preset, a folder, or a hub id. Resolving reads the config and refuses what is unsafe."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from core.spec.config_check import read_config
from core.spec.errors import InvalidSpec
from core.spec.hub import fetch_config, saved_files
from core.spec.presets import is_preset, preset_folder, preset_names
from core.spec.roots import model_roots, readable
from core.spec.rules import PICKLED, folder_of
from core.spec.run_spec import RunSpec
from core.spec.safetensors import parameter_count

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
"""The names that transformers loads (utils/__init__.py: SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME)."""


@dataclass(frozen=True)
class ModelSource:
    """A model found. `path`: its folder, if it lies on disk; `parameters`: elements in its weights, if they load."""

    kind: Literal["preset", "folder", "hub"]
    name: str
    path: Path | None
    config: dict[str, Any]
    parameters: int | None = None


def resolve(spec: RunSpec) -> ModelSource:
    """The source that `spec.model` names. Raises InvalidSpec or NotAvailable, before anything is queued."""
    name = spec.model
    folder = None if is_preset(name) else folder_of(name)
    hub = folder is None and not is_preset(name) and HUB_ID.fullmatch(name) is not None
    if spec.revision is not None and not hub:
        raise InvalidSpec(f"revision belongs to a hub id, and {name} is none; leave it out")
    if is_preset(name):
        if spec.weights == "load":
            raise InvalidSpec(f"preset {name} is a config without weights; use weights=random, a folder or a hub id")
        return ModelSource("preset", name, preset_folder(name), read_config(preset_folder(name) / "config.json"))
    if folder is not None:
        try:
            return _from_folder(spec, folder.resolve())
        except OSError as error:
            raise InvalidSpec(f"model folder {folder} cannot be read ({error.strerror}); check its rights") from error
    if hub:
        return _from_hub(spec)
    if "/" in name or "\\" in name or name.startswith((".", "~")):
        if model_roots() is not None:
            # the same words whether or not there is something: the answer must not tell
            raise InvalidSpec(
                f"model folder {name[:200]!r} is none of those that this server offers ({_listed_roots()}); "
                "give one of them, a preset or a hub id"
            )
        raise InvalidSpec(f"model folder {name!r} does not exist; give a folder with config.json, a preset or a hub id")
    near = difflib.get_close_matches(name.lower(), preset_names(), 3, 0.4) or preset_names()[:3]
    raise InvalidSpec(f"there is no preset {name!r}; did you mean {', '.join(near)}? A folder or a hub id will do too")


def _listed_roots() -> str:
    return ", ".join(f"below {root}" for root in model_roots() or ()) or "it offers none"


def _inside(path: Path) -> Path:
    """`path`, unless it is a link that leads out of what may be read. Raises InvalidSpec."""
    if not readable(path):
        raise InvalidSpec(f"{path.name} is a link to outside of what this server offers ({_listed_roots()})")
    return path


def _from_folder(spec: RunSpec, folder: Path) -> ModelSource:
    _inside(folder / "config.json")
    config = read_config(folder / "config.json")
    parameters = None
    if spec.weights == "load":
        parameters = sum(parameter_count(_inside(shard)) for shard in _shards(folder))
    return ModelSource("folder", spec.model, folder, config, parameters)


def _shards(folder: Path) -> list[Path]:
    """The safetensors files that transformers would load. Raises InvalidSpec when there are none, or not all."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _indexed(folder)
    other = sorted(folder.glob("*.safetensors"))
    if other:
        raise InvalidSpec(
            f"{folder} has {other[0].name} but neither {WEIGHTS} nor {INDEX}, which transformers loads; "
            "rename it, or use weights=random"
        )
    pickled = sorted(path for pattern in (*PICKLED, "*.bin") for path in folder.glob(pattern))
    if pickled:
        raise InvalidSpec(
            f"{pickled[0].name} holds pickled weights, which can run code when loaded; convert them to safetensors "
            f"(model.save_pretrained(folder)), or use weights=random"
        )
    raise InvalidSpec(f"{folder} has no safetensors to load; use weights=random to build from its config")


def _indexed(folder: Path) -> list[Path]:
    index = _inside(folder / INDEX)
    try:
        names = sorted({str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidSpec(f"{index} does not list the shards of the model; download it again") from error
    if not names:
        raise InvalidSpec(f"{index} names no shard; download it again")
    there = {path.name for path in folder.iterdir() if path.is_file()}
    lacking = [name for name in names if name not in there]
    if lacking:
        raise InvalidSpec(f"{folder} lacks {lacking[0][:80]!r}, which its index names; download it again")
    return [folder / name for name in names]


def _from_hub(spec: RunSpec) -> ModelSource:
    """Only config.json, and for weights to load the names of the files, are asked of the hub here."""
    path = fetch_config(spec.model, spec.revision)
    if spec.weights == "load" and not {WEIGHTS, INDEX} & set(saved_files(spec.model, spec.revision, path)):
        raise InvalidSpec(f"{spec.model} has no safetensors, and pickled weights can run code; use weights=random")
    return ModelSource("hub", spec.model, None, read_config(path))
