"""Which line of the model's code an allocation comes from."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

from core.runfolder.history import FRAMES, is_outside
from core.simulate.stream import Site

_OURS = str(Path(__file__).resolve().parents[1])


class Origins:
    """Numbers for places, each a distinct (operation, module, frames, shape, dtype).

    Frames are read as they are for a measured run (core.runfolder.history), so that the two say the same. Only the code
    and the position in it are read: a frame's locals would keep tensors alive.
    """

    def __init__(self, places: list[Site]) -> None:
        self._places = places
        self._numbers: dict[tuple[object, ...], int] = {}
        self._inside: dict[int, bool] = {}  # by id: a code object hashes all that it holds
        self._codes: list[CodeType] = []  # kept alive, so that the ids stay theirs

    def place(self, op: str, module: str | None, shape: tuple[int, ...] | None, dtype: object, depth: int) -> int:
        """The number of the place that is `depth` frames up the stack, in `places`."""
        found: list[FrameType] = []
        key: list[object] = [op, module, shape, dtype]
        frame: FrameType | None = sys._getframe(depth)
        inside = self._inside
        while frame is not None:
            code = frame.f_code
            known = inside.get(id(code))
            if known is None:
                known = self._learn(code)
            if known:
                key += (id(code), frame.f_lasti)
                found.append(frame)
                if len(found) == FRAMES:
                    break
            frame = frame.f_back
        names = tuple(key)
        number = self._numbers.get(names)
        if number is None:
            number = self._numbers[names] = len(self._places)
            kind = str(dtype).removeprefix("torch.") if dtype else None
            self._places.append(Site(op, _said(found) or None, module, shape, kind))
        return number

    def _learn(self, code: CodeType) -> bool:
        self._codes.append(code)
        file = code.co_filename
        ours = file.startswith(_OURS) or file.endswith("contextlib.py")
        wanted = file.endswith(".py") and not ours and not is_outside(file)
        self._inside[id(code)] = wanted
        return wanted


def caller() -> str:
    """The innermost frames outside torch and this package, in words, for an error message."""
    places: list[Site] = []
    Origins(places).place("", None, None, None, depth=2)
    return places[0].origin or "no frame of a model's code"


def _said(frames: list[FrameType]) -> str:
    return " < ".join(f"{f.f_code.co_name} ({Path(f.f_code.co_filename).name}:{f.f_lineno})" for f in frames)
