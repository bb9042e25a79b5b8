"""Which module of the model was at work when, from the marks that the worker left at each enter and leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENTER = 1
ROOT = "(model)"


def module_at(marks: Mapping[str, Any], t_ns: NDArray[np.int64]) -> list[str | None]:
    """The innermost module at each of the times `t_ns` (monotonic nanoseconds); None outside the forward passes.

    `marks` is what modules.json holds: names, and [t_ns, index of the name, 1 for enter or -1 for leave] in order. The
    model itself has no name of its own, and is given ROOT.
    """
    names = [str(name) or ROOT for name in marks.get("names", ())]
    times, inside = [0], [-1]
    open_modules: list[int] = []
    for t, index, direction in marks.get("marks", ()):
        if direction == ENTER:
            open_modules.append(index)
        elif index in open_modules:  # those inside it that an error left have no leave of their own
            del open_modules[open_modules.index(index) :]
        times.append(t)
        inside.append(open_modules[-1] if open_modules else -1)
    where = np.searchsorted(np.asarray(times, dtype=np.int64), t_ns, side="right") - 1
    return [names[inside[position]] if inside[position] >= 0 else None for position in where]
