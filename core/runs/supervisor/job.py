"""One run under way: its processes, and how far its ending has come."""

from __future__ import annotations

import logging
import subprocess
import time
from dataclasses import dataclass, field, replace
from typing import Any

from core.devices.memory_kills import memory_kills
from core.devices.process import identity, same_process
from core.runfolder.jsonio import read_json
from core.runfolder.layout import SAMPLER_TAG, RunFolder
from core.runs.status import Failure, RunStatus, State
from core.runs.supervisor.finish import last_phase, outcome
from core.runs.supervisor.logs import bound
from core.runs.supervisor.processes import end_tree, sweep, tagged
from core.spec.cards import PREFIX

logger = logging.getLogger(__name__)

GRACE_NS = 3_000_000_000
"""How long a worker may take to end after SIGTERM before it is killed."""

SWEEP_NS = 10_000_000_000
"""How long what a worker left behind may take to go when it is killed. In a call of the driver it can be for ever."""


@dataclass
class Job:
    """A worker that this supervisor started, or adopted from one before it."""

    folder: RunFolder
    status: RunStatus
    spec: dict[str, Any]
    worker: subprocess.Popen[bytes] | None = None  # None: adopted, so its exit code cannot be known
    sampler: subprocess.Popen[bytes] | None = None
    holder: subprocess.Popen[bytes] | None = None
    sampler_starts: int = 1  # 0: it is not looked after
    sampler_pid: int | None = None  # of an adopted run
    sampler_identity: str | None = None
    pid: int | None = None
    identity: str | None = None
    baseline: dict[str, Any] = field(default_factory=dict)  # the card before the run
    kills_before: int | None = field(default_factory=memory_kills)
    ending: tuple[State, Failure] | None = None  # why it is being ended, when it does not end by itself
    ending_ns: int = 0
    gone_ns: int | None = None
    kills: int = 0
    _swept: bool = False

    @property
    def device(self) -> str:
        return str(self.spec["device"])

    @property
    def since_gone_ns(self) -> int:
        return 0 if self.gone_ns is None else time.monotonic_ns() - self.gone_ns

    def gone(self) -> bool:
        """Whether the worker has ended; reaps it when it is ours."""
        if self.gone_ns is None:
            ended = self.worker.poll() is not None if self.worker else not same_process(self.pid, self.identity)
            if ended:
                self.gone_ns = time.monotonic_ns()
                now = memory_kills()
                self.kills = 0 if now is None or self.kills_before is None else now - self.kills_before
        return self.gone_ns is not None

    def swept(self) -> bool:
        """Whether nothing is left of what the worker started, wherever it went: it is killed until it has gone."""
        if not self._swept:
            left = sweep(self.status.run_id)
            if left and self.since_gone_ns > SWEEP_NS:
                logger.error("%s: PIDs %s cannot be killed", self.status.run_id, left)
                left = []
            self._swept = not left
        return self._swept

    def watch(self) -> None:
        """End the worker when somebody cancelled the run or its time is up; harder when it does not react."""
        bound(self.folder.stdout)
        bound(self.folder.stderr)
        now = time.monotonic_ns()
        if self.ending is None:
            self.ending = self._reason_to_end(now)
            if self.ending:
                self.ending_ns = now
                end_tree(self.pid, self.status.run_id, hard=False)
        elif now - self.ending_ns > GRACE_NS:
            end_tree(self.pid, self.status.run_id, hard=True)

    def _reason_to_end(self, now: int) -> tuple[State, Failure] | None:
        if self.folder.cancel.exists():
            return "cancelled", Failure("cancelled", "cancelled on request", None, last_phase(self.folder))
        limit_s = float(self.spec["timeout_s"])
        if self.status.t0_ns is not None and now - self.status.t0_ns > limit_s * 1e9:
            phase = last_phase(self.folder)
            where = f" in {phase}" if phase else ""
            return "timed_out", Failure("timeout", f"not done after timeout_s={limit_s:g} seconds{where}", None, phase)
        return None

    def incomplete(self, why: str) -> None:
        """Say of the trace that something is missing; the first reason stands."""
        self.status = replace(self.status, trace_incomplete=self.status.trace_incomplete or why)

    def verdict(self) -> tuple[State, Failure | None]:
        """The state in which the run ended. A result that was whole before the signal came still counts."""
        state, failure = outcome(self.folder, self.worker.returncode if self.worker else None, self.kills)
        if self.ending and (state in ("failed", "lost")):
            return self.ending
        return state, failure


def adopted(folder: RunFolder, status: RunStatus, spec: dict[str, Any]) -> Job | None:
    """A job for a worker that a former supervisor started; None when it never started one.

    Between starting the worker and writing its pid a supervisor may have been killed: the tag finds the worker then.
    """
    job = Job(folder, status, spec, sampler_starts=0 if str(spec["device"]).startswith(PREFIX) else 1)
    sampler = next(tagged(status.run_id, SAMPLER_TAG), None)
    if sampler:
        job.sampler_pid, job.sampler_identity = sampler.pid, identity(sampler.pid)
    job.baseline = {"used": status.device.get("baseline_used")}
    known = read_json(folder.worker)
    if known:
        job.pid, job.identity = int(known["pid"]), known.get("identity")
        job.baseline = known.get("baseline") or job.baseline
        return job
    process = next(tagged(status.run_id), None)
    if process is None:
        return None if not folder.phases.exists() else job
    job.pid, job.identity = process.pid, identity(process.pid)
    return job
