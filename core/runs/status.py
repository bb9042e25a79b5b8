"""The state of a run, and the document that says so. Only the supervisor writes it once the run is queued."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder

State = Literal[
    "queued", "starting", "running", "finishing", "finished", "oom", "failed", "cancelled", "timed_out", "lost"
]
ENDED: frozenset[State] = frozenset({"finished", "oom", "failed", "cancelled", "timed_out", "lost"})


@dataclass(frozen=True)
class Peak:
    """The highest of each figure during the run in bytes; None where it was not recorded.

    allocated and reserved are torch's counters (exact), the others were polled (sampled).
    """

    allocated: int | None = None
    reserved: int | None = None
    process_used: int | None = None
    device_used: int | None = None
    host_rss: int | None = None


@dataclass(frozen=True)
class Failure:
    """Why a run did not finish. kind: oom, exception, signal, host_oom, exit, timeout, cancelled, start, lost.

    reason: what it really was, where a library ran out of memory and said something else.
    """

    kind: str
    message: str
    requested_bytes: int | None = None
    phase: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class RunStatus:
    """status.json. Times are seconds since the epoch, `t0_ns` is monotonic nanoseconds when the worker was started."""

    run_id: str
    experiment_id: str
    state: State
    submitted_at: float
    started_at: float | None = None
    ended_at: float | None = None
    t0_ns: int | None = None
    seconds: float | None = None
    error: Failure | None = None
    peak: Peak = field(default_factory=Peak)
    device: dict[str, Any] = field(default_factory=dict)
    sampler_pid: int | None = None
    trace_incomplete: str | None = None
    contended: str | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def write_status(folder: RunFolder, status: RunStatus) -> None:
    """Raises OSError when the disk refuses."""
    write_json(folder.status, asdict(status))


def read_status(folder: RunFolder) -> RunStatus | None:
    """None when there is no readable status with a state that is known, and everything that belongs to one."""
    document = read_json(folder.status)
    if document is None or document.get("state") not in get_args(State):
        return None
    known = {f.name: document[f.name] for f in fields(RunStatus) if f.name in document}
    try:
        known["error"] = Failure(**known["error"]) if known.get("error") else None
        known["peak"] = Peak(**(known.get("peak") or {}))
        return RunStatus(**known)
    except TypeError:
        return None
