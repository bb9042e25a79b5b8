"""Reads a model's config.json and refuses one that cannot be executed, or not safely."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.spec.architecture import KEYS
from core.spec.errors import InvalidSpec, NotAvailable

LARGEST_CONFIG = 4 * 2**20

MOST = {
    "layers": 2_000,
    "hidden": 1_000_000,
    "heads": 100_000,
    "kv_heads": 100_000,
    "head_dim": 100_000,
    "vocab": 100_000_000,
    "intermediate": 10_000_000,
    "positions": 1_000_000_000,
}
"""The largest value that is taken for a size and not for a mistake; the keys are those of `architecture.KEYS`."""

REQUIRED = {"layers", "hidden", "heads", "vocab"}
"""Sizes for which null is not a way of saying `the usual`."""

IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")


def read_config(path: Path) -> dict[str, Any]:
    """The config at `path`, checked. Raises InvalidSpec, or NotAvailable for what cannot be executed here."""
    if not path.is_file():
        raise InvalidSpec(f"{path.parent} has no config.json; a model folder needs one")
    if path.stat().st_size > LARGEST_CONFIG:
        raise InvalidSpec(f"{path} is larger than 4 MiB; that is not a model's config")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise InvalidSpec(f"{path} is nested too deep to be a model's config") from error
    except (OSError, ValueError) as error:
        raise InvalidSpec(f"{path} is not JSON ({error}); it has to be a model's config") from error
    check_config(config, str(path))
    return dict(config)


def check_config(config: Any, where: str) -> None:
    """Raises InvalidSpec or NotAvailable when `config` is not one that can be executed safely."""
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str) or not config["model_type"]:
        raise InvalidSpec(f"{where} has no model_type; it has to be a model's config")
    for part in _parts(config):
        _refuse_code(part, where)
        _refuse_sizes(part, where)
    if config.get("quantization_config"):
        raise NotAvailable(f"{where} is quantised, which is not supported yet; use the model's unquantised config")


def _parts(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The config and those inside it, such as text_config. Reading it bounded the depth."""
    yield config
    for key, value in config.items():
        if isinstance(value, dict) and key.endswith("_config"):
            yield from _parts(value)


def _refuse_code(config: Mapping[str, Any], where: str) -> None:
    if config.get("auto_map"):
        raise InvalidSpec(
            f"{where} wants code from the model's repository (auto_map, trust_remote_code); VRAMscope does not "
            "execute that; use a config of an architecture that transformers has"
        )
    for key, value in config.items():
        # true and false are what transformers 4.46 noted down in _attn_implementation_autoset
        named = key.removeprefix("_").startswith(IMPLEMENTATIONS) and not isinstance(value, bool | None)
        if named and (key.startswith("_") or value not in ("eager", "sdpa", "flash_attention_2")):
            raise InvalidSpec(
                f"{where} sets {key}, which can name code to download; remove it, use --attn-implementation"
            )


def _refuse_sizes(config: Mapping[str, Any], where: str) -> None:
    for size, most in MOST.items():
        for key in KEYS[size]:
            if key not in config or (config[key] is None and size not in REQUIRED):
                continue
            value = config[key]
            each = value if isinstance(value, list) and value else [value]  # some name a size for each layer
            if any(type(number) is not int or not 0 < number <= most for number in each):
                raise InvalidSpec(f"{where}: {key} is {str(value)[:40]}; it has to be a whole number up to {most:,}")
