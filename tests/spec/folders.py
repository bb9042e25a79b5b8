"""Model folders for tests, written without any library."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from core.spec.presets import preset_folder


def tiny_config(**changes: Any) -> dict[str, Any]:
    """The config of tiny-llama with some keys changed."""
    config: dict[str, Any] = json.loads((preset_folder("tiny-llama") / "config.json").read_text())
    return {**config, **changes}


def model_folder(root: Path, config: Any = None, name: str = "model") -> Path:
    """A folder with a config.json: of tiny-llama, or whatever `config` is (text is written as it stands)."""
    folder = root / name
    folder.mkdir(parents=True)
    text = config if isinstance(config, str) else json.dumps(tiny_config() if config is None else config)
    (folder / "config.json").write_text(text, encoding="utf-8")
    return folder


def safetensors_bytes(header: Any, data: bytes, length: int | None = None) -> bytes:
    """A safetensors file; `length` in place of the header's true one."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(start: int, end: int, shape: list[Any], dtype: str = "BF16") -> dict[str, Any]:
    """A tensor's entry in the header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def whole_file() -> bytes:
    """Two tensors, 6 + 4 elements, in a proper file."""
    header = {"__metadata__": {"format": "pt"}, "a": entry(0, 12, [2, 3]), "b": entry(12, 28, [4], "F32")}
    return safetensors_bytes(header, bytes(28))
