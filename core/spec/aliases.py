"""Other spellings that are accepted on input, and the one that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DTYPES = {
    "bfloat16": "bf16",
    "half": "fp16",
    "float16": "fp16",
    "float": "fp32",
    "float32": "fp32",
    "single": "fp32",
}

NONE_WORDS = {"", "none", "null", "default"}

OPTIONAL = {"revision", "capacity_mib", "max_out_tokens", "cache_implementation", "temperature", "top_k", "top_p"}
"""Fields that may be unset: for them `none` means that, while wrap and autocast have a value of that name."""

ATTENTION = {"flash": "flash_attention_2", "flash_attention": "flash_attention_2", "fa2": "flash_attention_2"}

DERIVED = {"weights", "placement"}
"""Fields whose default depends on others: unset means take it."""


CHOICES = {"weights", "placement", "engine", "wrap", "autocast", "grad_mode", "job", "cache_implementation"}
"""Fields with a closed list of values: capitals and hyphens do not matter in them."""

OFF = {"false", "off", "no", "0"}
"""What YAML and people write for wrap and autocast `none`."""


def canonical(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with every value in its stored spelling, and without the fields that were left open."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        plain = value.strip() if isinstance(value, str) else value
        unset = plain is None or (isinstance(plain, str) and plain.lower() in NONE_WORDS)
        if unset and name in DERIVED:
            continue
        values[name] = None if unset and name in OPTIONAL else _spelling(name, plain)
    return values


def _spelling(name: str, value: Any) -> Any:
    off = value is None or value is False or (isinstance(value, str) and value.lower() in OFF)
    if name in ("wrap", "autocast") and off:
        return "none"
    if not isinstance(value, str):
        return value
    lower = value.lower()
    if name in ("dtype", "autocast"):
        value = DTYPES.get(lower.removeprefix("torch."), lower.removeprefix("torch."))
    elif name == "attn_implementation":
        value = ATTENTION.get(lower, lower)
    elif name == "device":
        value = _device(value)
    elif name in CHOICES:
        value = lower.replace("-", "_")
    return value


def _device(text: str) -> str:
    """In small letters, but for a card's UUID."""
    kind, colon, which = text.partition(":")
    return f"{kind.lower()}{colon}{which if which.upper().startswith(('GPU-', 'MIG-')) else which.lower()}"
