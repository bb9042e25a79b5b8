"""A format with a fixed wording: what is looked for in squeezed text, and the fields it fills.

A group is named like the short form of its field; `n_…` are counts that belong to no field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

INT = r"\d{1,20}"


@dataclass(frozen=True)
class Format:
    """`anchor` is where `pattern` is tried. `before`: text that may stand ahead of it and belongs to the message.

    `needs`: a part that has to be there, of what optional groups match. A `weak` one repeats another error in other
    words, or warns: it counts only where that backend has nothing better.
    """

    kind: str
    backend: str | None
    anchor: str
    pattern: re.Pattern[str]
    before: re.Pattern[str] | None = None
    weak: bool = False
    needs: re.Pattern[str] | None = None


def looked_for(
    kind: str,
    backend: str | None,
    pattern: str,
    *,
    anchor: str = "",
    before: str = "",
    weak: bool = False,
    needs: str = "",
) -> Format:
    literal = anchor or pattern.replace("\\", "")
    assert pattern.replace("\\", "").startswith(literal), kind
    ahead = re.compile(rf"(?:{before})\Z") if before else None
    return Format(kind, backend, literal, re.compile(pattern), ahead, weak, re.compile(needs) if needs else None)
