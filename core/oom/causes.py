"""The causes an error can have, with how much speaks for each. Equal evidence is a tie, and little evidence is said."""

from __future__ import annotations

from core.oom.case import Case, Cause
from core.oom.engine_causes import engine_causes
from core.oom.figure_causes import figure_causes
from core.oom.format_causes import format_causes
from core.oom.holder_causes import holder_causes
from core.oom.tensor_causes import tensor_causes


def causes_of(case: Case) -> list[Cause]:
    """All that have some evidence, best first; `unknown` leads where nothing has enough."""
    found: dict[str, Cause] = {}
    kinds = (format_causes, engine_causes, figure_causes, holder_causes, tensor_causes)
    for cause in (cause for kind in kinds for cause in kind(case)):
        if cause.tag not in found or found[cause.tag].weight < cause.weight:
            found[cause.tag] = cause
    ranked = sorted(found.values(), key=lambda cause: -cause.weight)
    if not ranked or ranked[0].weight < 40:
        ranked.insert(0, Cause("unknown", 30, "The text does not say enough to name a cause."))
    return ranked
