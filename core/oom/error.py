"""One error found in a text: what it says, in bytes; None is what it does not say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

FIELDS = (
    "backend",
    "requested_bytes",
    "device_index",
    "total_bytes",
    "free_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "reserved_unallocated_bytes",
    "process_bytes",
    "other_processes",
    "private_pool_bytes",
    "allowed_bytes",
)


_VALUES: Callable[[object], tuple[object, ...]] = attrgetter(*FIELDS)


@dataclass(frozen=True)
class OtherProcess:
    pid: int
    bytes: int | None


@dataclass(frozen=True)
class OomError:
    """`kind`: the format, a name from `formats` or `torch_message`. `step_bytes`: how coarsely the request was printed.

    `not_values`: fields that held 2^64, which is no size. `numbers`: counts a format has beside bytes (tokens).
    """

    kind: str
    span: tuple[int, int]
    backend: str | None
    requested_bytes: int | None = None
    device_index: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    reserved_unallocated_bytes: int | None = None
    process_bytes: int | None = None
    other_processes: tuple[OtherProcess, ...] | None = None
    private_pool_bytes: int | None = None
    allowed_bytes: int | None = None
    step_bytes: int = 0
    not_values: tuple[str, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)

    def said(self) -> int:
        """How many of the fields the text fills."""
        values = _VALUES(self)
        return len(values) - values.count(None)

    def at(self, span: tuple[int, int]) -> OomError:
        """The same error, with its place in another text."""
        return OomError(**{**vars(self), "span": span})

    def document(self) -> dict[str, Any]:
        """The fields as JSON values."""
        others = self.other_processes
        named = None if others is None else [{"pid": other.pid, "bytes": other.bytes} for other in others]
        return {
            **{name: getattr(self, name) for name in FIELDS},
            "other_processes": named,
            "span": list(self.span),
        }
