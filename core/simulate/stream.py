"""The stream of allocations that a job makes, as plain data: what tracing writes and replay reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Site(NamedTuple):
    """Where an allocation comes from: the operation, the model's frames, the module at work, and the tensor."""

    op: str
    origin: str | None
    module: str | None
    shape: tuple[int, ...] | None
    dtype: str | None


class Varying(NamedTuple):
    """A size that follows `rule(argument)`, where the argument grows by one a step."""

    rule: Callable[[int], int]
    argument: int


class Mark(NamedTuple):
    """Something that happens between two events: before the event number `position`.

    kind: `phase` (a phase of that name begins), `step` (a forward pass after the first one begins), `outside` (`size`
    bytes are taken from the driver outside the pool), `plan` (`size` bytes of code are made), `workspace` (DeepSpeed
    takes its own), `empty_cache`, `end` (the job is done).
    """

    position: int
    kind: str
    name: str = ""
    size: int = 0


class WorkspaceRequest(NamedTuple):
    """What DeepSpeed's workspace is sized by, beside the memory that is free then (core.spec.deepspeed_workspace)."""

    batch_size: int
    hidden_size: int
    heads: int
    layers: int
    dtype: str
    max_out_tokens: int
    tp_size: int
    external_cache: bool


@dataclass
class Stream:
    """`events`: n >= 0 for an allocation of n bytes, ~i for the free of allocation number i.

    `sites`: for each allocation its place in `places`. `varying`: sizes of kernels' scratch memory that follow a rule.
    `lasting`: allocations that the process never gives back. `closed`: nothing is recorded any more.
    """

    events: list[int] = field(default_factory=list)
    sites: list[int] = field(default_factory=list)
    places: list[Site] = field(default_factory=list)
    varying: dict[int, Varying] = field(default_factory=dict)
    lasting: set[int] = field(default_factory=set)
    marks: list[Mark] = field(default_factory=list)
    workspace: WorkspaceRequest | None = None
    closed: bool = False

    def take(self, size: int, place: int) -> int:
        """Record an allocation; returns its number."""
        number = len(self.sites)
        if not self.closed:
            self.events.append(size)
            self.sites.append(place)
        return number

    def free(self, event: int) -> None:
        """Record a free, given as ~number."""
        if not self.closed:
            self.events.append(event)

    def mark(self, kind: str, name: str = "", size: int = 0) -> None:
        if not self.closed:
            self.marks.append(Mark(len(self.events), kind, name, size))
