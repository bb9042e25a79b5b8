"""One error with all that is known about it, and a cause that it may have."""

from __future__ import annotations

from dataclasses import dataclass

from core.oom.account import Holders
from core.oom.dims import Dims
from core.oom.error import OomError
from core.oom.facts import Facts
from core.oom.sites import Site
from core.oom.tensor import Tensor
from core.spec.deepspeed_workspace import Sizing


@dataclass(frozen=True)
class Case:
    """One error with all that is known about it. `ranks`: errors in the same text that name other devices or ranks."""

    error: OomError
    facts: Facts
    dims: Dims
    holders: Holders
    tensors: list[Tensor]
    site: Site | None = None
    workspace: Sizing | None = None
    ranks: int = 1

    @property
    def best(self) -> Tensor | None:
        return self.tensors[0] if self.tensors else None

    @property
    def shares_card(self) -> bool:
        return self.ranks > 1 or (self.facts.tp_size or 1) > 1 or bool(self.error.other_processes)


@dataclass(frozen=True)
class Cause:
    """`weight`: 80 and more is well supported, below 50 is a guess. `why`: one sentence with the figures."""

    tag: str
    weight: float
    why: str
