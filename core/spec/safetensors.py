"""Reads the headers of safetensors files: enough to know that they are whole, and how large the tensors are.

Format: https://github.com/huggingface/safetensors, README "Format": 8 bytes little-endian header length N, N bytes of
JSON mapping names to dtype, shape and data_offsets, then the data without gaps or overlaps.
"""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path
from typing import Any

from core.spec.errors import InvalidSpec

LARGEST_HEADER = 100_000_000
"""The limit of the reference implementation, in bytes."""

MOST_AXES = 64
"""torch's own limit. With the size of each axis bounded as well, no header makes the product of a shape take long."""

DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


def parameter_count(path: Path) -> int:
    """The number of elements in the file's tensors. Raises InvalidSpec for a file that is damaged or cut off."""
    header, data_bytes = _header(path)
    spans, count = [], 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            shape = list(entry["shape"])
            start, end = entry["data_offsets"]
            bits = DTYPE_BITS[entry["dtype"]]
        except (TypeError, KeyError, ValueError) as error:
            raise _damaged(path, f"tensor {name[:60]!r} has no proper entry") from error
        if len(shape) > MOST_AXES or any(type(n) is not int or not 0 <= n < 2**63 for n in (*shape, start, end)):
            raise _damaged(path, f"tensor {name[:60]!r} has no proper entry")
        if start > end or (end - start) * 8 != prod(shape) * bits:
            raise _damaged(path, f"tensor {name[:60]!r} does not have the size that its shape asks for")
        spans.append((start, end))
        count += prod(shape)
    position = 0
    for start, end in sorted(spans):
        if start != position:
            raise _damaged(path, "its tensors overlap or leave gaps")
        position = end
    if position != data_bytes:
        raise _damaged(path, f"it has {data_bytes:,} bytes of tensors where its header says {position:,}")
    return count


def _header(path: Path) -> tuple[dict[str, Any], int]:
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            length_bytes = stream.read(8)
            if len(length_bytes) < 8:
                raise _damaged(path, "it is shorter than a header")
            (length,) = struct.unpack("<Q", length_bytes)
            if length > min(LARGEST_HEADER, size - 8):
                raise _damaged(path, "its header is longer than the file")
            header = json.loads(stream.read(length))
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not a table of tensors")
    return header, size - 8 - length


def _damaged(path: Path, why: str) -> InvalidSpec:
    return InvalidSpec(f"{path.name} is damaged or cut off: {why}; download it again, or use weights=random")
