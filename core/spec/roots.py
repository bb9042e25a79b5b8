"""Where model folders may lie on a server that others reach: a visitor must not read the machine's other files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ROOTS_VARIABLE = "VRAMSCOPE_MODEL_ROOTS"
"""Set in the server's own process, and only there: folders separated as in PATH; empty for none at all."""


def limit_models(roots: Sequence[str]) -> None:
    """From now on this process takes models only from below `roots`."""
    os.environ[ROOTS_VARIABLE] = os.pathsep.join(roots)


def model_roots() -> tuple[Path, ...] | None:
    """The folders below which models are taken; None where there is no limit."""
    listed = os.environ.get(ROOTS_VARIABLE)
    if listed is None:
        return None
    return tuple(Path(root).expanduser().resolve() for root in listed.split(os.pathsep) if root)


def readable(path: Path) -> bool:
    """Whether a model's file or folder may be read, wherever `..` and symbolic links lead. Raises nothing."""
    roots = model_roots()
    if roots is None:
        return True
    try:
        real = path.expanduser().resolve()
    except (OSError, RuntimeError, ValueError):
        return False  # a loop of links, no such user, a null byte
    return any(real.is_relative_to(root) for root in roots)
