"""What is known about the job beside the error, given or read off the text. All are hints: none is ever refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from core.spec.aliases import DTYPES
from core.spec.config_check import LARGEST_CONFIG
from core.spec.roots import readable

ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "int4": 0.5}
QUANTISED = {"int8", "int4", "fp8"}
_DTYPE_WORDS = {
    "8bit": "int8",
    "8-bit": "int8",
    "4bit": "int4",
    "4-bit": "int4",
    "nf4": "int4",
    "fp4": "int4",
    "gptq": "int4",
    "awq": "int4",
    "uint8": "int8",
    "float8": "fp8",
    "e4m3": "fp8",
}
MOST = 10**9


@dataclass(frozen=True)
class Facts:
    """The words are those of a RunSpec; any may be None. `config`: a part of the model's config.json.

    `versions`: of torch, transformers, deepspeed. `capacity_bytes`: what the card has. `platform`: windows, wsl, linux.
    """

    model: str | None = None
    config: Mapping[str, Any] | None = None
    batch_size: int | None = None
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    max_seq_len: int | None = None
    dtype: str | None = None
    autocast: str | None = None
    attn_implementation: str | None = None
    engine: str | None = None
    kernel_inject: bool | None = None
    tp_size: int | None = None
    max_out_tokens: int | None = None
    wrap: str | None = None
    grad_mode: str | None = None
    use_cache: bool | None = None
    cache_implementation: str | None = None
    num_beams: int | None = None
    job: str | None = None
    device_map: str | None = None
    cuda_after_load: bool | None = None
    platform: str | None = None
    mig: bool | None = None
    capacity_bytes: int | None = None
    allocator: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    def or_else(self, other: Facts) -> Facts:
        """These, with `other` where these say nothing."""
        lacking = {f.name: getattr(other, f.name) for f in fields(self) if getattr(self, f.name) is None}
        return replace(self, **{**lacking, "versions": {**other.versions, **self.versions}})

    @property
    def element_bytes(self) -> float | None:
        return ELEMENT_BYTES.get(self.dtype or "")

    @property
    def injects(self) -> bool:
        """Whether DeepSpeed's kernels run, or may: the engine alone was named."""
        return bool(self.kernel_inject) or (self.kernel_inject is None and "deepspeed" in (self.engine or "").lower())

    @property
    def quantised(self) -> bool:
        return self.dtype in QUANTISED

    def version(self, name: str) -> tuple[int, ...] | None:
        """(4, 35, 2); None where it is not known."""
        match = re.match(r"(\d{1,4})(?:\.(\d{1,4}))?(?:\.(\d{1,4}))?", self.versions.get(name, ""))
        return tuple(int(part) for part in match.groups() if part) if match else None


NUMBERS = {
    "batch_size",
    "prompt_tokens",
    "new_tokens",
    "max_seq_len",
    "tp_size",
    "max_out_tokens",
    "num_beams",
    "capacity_bytes",
}
BOOLS = {"kernel_inject", "use_cache", "cuda_after_load", "mig"}
SPELLINGS = {
    "batch": "batch_size",
    "tensor_parallel": "tp_size",
    "attention": "attn_implementation",
    "os": "platform",
    "quantization": "dtype",
}


def facts_from(given: Mapping[str, Any]) -> Facts:
    """Facts from what was given, by name; what cannot be understood is left out. `capacity_mib` is the card's size."""
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = SPELLINGS.get(key, key)
        if value is not None and value != "" and name in Facts.__dataclass_fields__:
            values[name] = _value(name, value)
    if str(given.get("placement")) == "device_map":
        values.setdefault("device_map", "auto")
    for bits in ("4", "8"):
        if str(given.get(f"load_in_{bits}bit")).lower() == "true":
            values["dtype"] = f"int{bits}"
    values["capacity_bytes"] = values.get("capacity_bytes") or _capacity(given)
    if "inject" in (values.get("engine") or "").lower():
        values["kernel_inject"] = True
    if values.get("model") and not values.get("config"):
        values["config"] = read_config_hint(values["model"])
    return Facts(**values)


def _value(name: str, value: Any) -> Any:
    text = str(value).strip()[:500]
    if name in NUMBERS:
        return _number(value)
    if name in BOOLS:
        return value if isinstance(value, bool) else text.lower() in ("true", "1", "yes", "on")
    if name in ("dtype", "autocast"):
        return _dtype(text)
    if name == "versions":
        return {str(key): str(version) for key, version in value.items()} if isinstance(value, Mapping) else {}
    if name == "config":
        return value if isinstance(value, Mapping) else read_config_hint(str(value))
    return text


def _number(value: Any) -> int | None:
    match = re.match(r"\s*(\d{1,12})", str(value).replace("_", ""))
    return int(match[1]) if match and 0 < int(match[1]) <= MOST**2 else None


def _capacity(given: Mapping[str, Any]) -> int | None:
    for name, unit in (("capacity_mib", 2**20), ("card_gib", 2**30)):
        match = re.match(r"\d{1,9}(?:\.\d{1,6})?", str(given.get(name) or ""))
        if match and float(match[0]) > 0:
            return round(float(match[0]) * unit)
    return None


def _dtype(text: str) -> str | None:
    word = text.strip().lower().removeprefix("torch.")
    word = DTYPES.get(word, {"f16": "fp16", "f32": "fp32"}.get(word, word))
    if match := re.match(r"i?q([2-8])(?:_|\Z)", word):  # llama.cpp's names
        return "int8" if match[1] == "8" else "int4"
    return word if word in ELEMENT_BYTES else next((d for hint, d in _DTYPE_WORDS.items() if hint in word), None)


def read_config_hint(text: str) -> dict[str, Any] | None:
    """A config given as JSON, as a file, or as a folder that holds one; None where it is none of these."""
    try:
        if not text.lstrip().startswith("{"):
            path = Path(text).expanduser()
            path = path / "config.json" if path.is_dir() else path
            if (
                not readable(path)
                or path.suffix != ".json"
                or not path.is_file()
                or path.stat().st_size > LARGEST_CONFIG
            ):
                return None
            text = path.read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError, RuntimeError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    inner = found.get("text_config")
    return {**found, **inner} if isinstance(inner, dict) else found
