"""The environment variables that child processes get: named ones, and nothing else of the server's."""

from __future__ import annotations

import os
from pathlib import Path

from core.spec.cards import CARDS_VARIABLE

PROJECT_ROOT = Path(__file__).resolve().parents[2]

PASSED_ON = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH", "CUDA_HOME",
    "CUDA_PATH", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TORCH_CUDA_ARCH_LIST",
    "TORCH_EXTENSIONS_DIR", "MAX_JOBS", "CC", "CXX", "OMP_NUM_THREADS", "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES", CARDS_VARIABLE,
)  # fmt: skip
"""What every child inherits: enough to find programs, caches, compilers and cards, and no secret."""

HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Passed to the supervisor, and from there to the workers that load weights from the hub."""

OF_THE_SUPERVISOR = (*HUB_TOKENS, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def child_environment(*overlays: str) -> dict[str, str]:
    """The environment in which a Python finds the project, and `overlays` before its own packages."""
    return _passed(PASSED_ON) | {
        "PYTHONPATH": os.pathsep.join((*overlays, str(PROJECT_ROOT))),
        "PYTHONSAFEPATH": "1",
    }


def own_environment() -> dict[str, str]:
    """The environment of the processes that are part of the app itself: they see the cards that the server may see."""
    return child_environment() | _passed(OF_THE_SUPERVISOR[len(HUB_TOKENS) :])


def supervisor_environment() -> dict[str, str]:
    """The same, with what the supervisor passes on to workers."""
    return child_environment() | _passed(OF_THE_SUPERVISOR)


def hub_tokens() -> dict[str, str]:
    return _passed(HUB_TOKENS)


def _passed(names: tuple[str, ...]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
