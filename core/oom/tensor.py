"""A tensor that may be the one an error speaks of."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

DTYPE_NAMES = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "int64": "int64",
    "bool": "bool",
    "uint8": "uint8",
}
WIDTH = {"fp32": 4, "bf16": 2, "fp16": 2, "int64": 8, "bool": 1, "uint8": 1}


@dataclass(frozen=True)
class Tensor:
    """`formula` in words, times the bytes of an element; `kind` groups what has the same cause.

    `solved`: sizes that nobody named and that follow from the request. `loose`: nearly any request would have such a
    reading. `score`: how well it fits, up to about 130.
    """

    kind: str
    name: str
    formula: str
    shape: tuple[int, ...]
    dtype: str
    solved: tuple[str, ...] = ()
    loose: bool = False
    score: float = field(default=0.0, compare=False)

    @property
    def bytes(self) -> int:
        return prod(self.shape) * WIDTH[self.dtype]

    @property
    def counted(self) -> str:
        """`150 × 35 × 32,000 × 4 B`."""
        return (
            " × ".join(f"{size:,}" for size in self.shape if size != 1 or len(self.shape) < 3)
            + f" × {WIDTH[self.dtype]} B"
        )

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "formula": self.formula,
            "shape": list(self.shape),
            "dtype": DTYPE_NAMES[self.dtype],
            "bytes": self.bytes,
        }
