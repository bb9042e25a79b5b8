"""PYTORCH_CUDA_ALLOC_CONF: which settings there are.

Names from torch/docs/source/notes/cuda.md and c10/cuda/CUDAAllocatorConfig.cpp of torch 2.13.
"""

from __future__ import annotations

import difflib
import re

from core.spec.errors import InvalidSpec

_NUMBER = r"\d{1,9}"
_BOOLEAN = r"True|False"
SETTINGS = {
    "backend": r"native|cudaMallocAsync",
    "max_split_size_mb": _NUMBER,
    "max_non_split_rounding_mb": _NUMBER,
    "roundup_power2_divisions": rf"{_NUMBER}|\[(({_NUMBER}|>):{_NUMBER},?){{1,20}}\]",
    "roundup_bypass_threshold_mb": _NUMBER,
    "garbage_collection_threshold": r"0?\.\d{1,9}|0|1|1\.0",
    "expandable_segments": _BOOLEAN,
    "large_segment_size_mb": _NUMBER,
    "pinned_use_cuda_host_register": _BOOLEAN,
    "pinned_num_register_threads": _NUMBER,
    "pinned_use_background_threads": _BOOLEAN,
    "pinned_reserve_segment_size_mb": _NUMBER,
    "release_lock_on_cudamalloc": _BOOLEAN,
    "graph_capture_record_stream_reuse": _BOOLEAN,
    "per_process_memory_fraction": r"0?\.\d{1,9}|1|1\.0",
    "throw_on_cudamalloc_oom": _BOOLEAN,
}
_SEPARATOR = re.compile(r",(?![^\[]*\])")


def settings_of(text: str) -> dict[str, str]:
    """The settings in `text`, by name. Raises InvalidSpec for one that torch would refuse or ignore."""
    found: dict[str, str] = {}
    for part in _SEPARATOR.split(text) if text.strip() else []:
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SETTINGS)}"
            raise InvalidSpec(f"allocator setting {name!r} is not known; {hint}")
        if not colon or not re.fullmatch(SETTINGS[name], value):
            raise InvalidSpec(f"allocator setting {name}:{value} is not a value torch takes; write {name}:<value>")
        found[name] = value
    return found


def check_allocator(text: str) -> None:
    """Raises InvalidSpec when torch would refuse or ignore part of `text`."""
    settings_of(text)
