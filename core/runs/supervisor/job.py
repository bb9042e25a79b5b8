"""One run under way: its processes, and how far its ending has come."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import Any

from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder
from core.runs.status import Failure, RunStatus, State
from core.runs.supervisor.finish import last_phase, outcome
from core.runs.supervisor.processes import end_tree, same_process, tagged

GRACE_NS = 3_000_000_000
"""How long a worker may take to end after SIGTERM before it is killed."""

SAMPLER_GRACE_NS = 5_000_000_000
"""How long the sampler may go on after the worker: it waits for the card's memory to come back."""


@dataclass
class Job:
    """A worker that this supervisor started, or adopted from one before it."""

    folder: RunFolder
    status: RunStatus
    spec: dict[str, Any]
    worker: subprocess.Popen[bytes] | None = None  # None: adopted, so its exit code cannot be known
    sampler: subprocess.Popen[bytes] | None = None
    holder: subprocess.Popen[bytes] | None = None
    pid: int | None = None
    create_time: float | None = None
    ending: tuple[State, Failure] | None = None  # why it is being ended, when it does not end by itself
    ending_ns: int = 0
    gone_ns: int | None = None

    @property
    def device(self) -> str:
        return str(self.spec["device"])

    def gone(self) -> bool:
        """Whether the worker has ended; reaps it when it is ours."""
        if self.gone_ns is None:
            ended = self.worker.poll() is not None if self.worker else not same_process(self.pid, self.create_time)
            if ended:
                self.gone_ns = time.monotonic_ns()
                end_tree(None, self.status.run_id, hard=True)  # grandchildren that it left behind
        return self.gone_ns is not None

    def watch(self) -> None:
        """End the worker when somebody cancelled the run or its time is up; harder when it does not react."""
        now = time.monotonic_ns()
        if self.ending is None:
            self.ending = self._reason_to_end(now)
            if self.ending:
                self.ending_ns = now
                end_tree(self.pid, self.status.run_id, hard=False)
        elif now - self.ending_ns > GRACE_NS:
            end_tree(self.pid, self.status.run_id, hard=True)

    def _reason_to_end(self, now: int) -> tuple[State, Failure] | None:
        phase = last_phase(self.folder) if self.folder.cancel.exists() else None
        if self.folder.cancel.exists():
            return "cancelled", Failure("cancelled", "cancelled on request", None, phase)
        limit_s = float(self.spec["timeout_s"])
        if self.status.t0_ns is not None and now - self.status.t0_ns > limit_s * 1e9:
            phase = last_phase(self.folder)
            return "timed_out", Failure("timeout", f"not done after timeout_s={limit_s:g} seconds", None, phase)
        return None

    def sampler_gone(self) -> bool:
        """Whether the sampler has ended; stopped when it lags behind the worker for too long."""
        late = self.gone_ns is not None and time.monotonic_ns() - self.gone_ns > SAMPLER_GRACE_NS
        if self.sampler:
            if self.sampler.poll() is None and late:
                self.sampler.terminate()
            return self.sampler.poll() is not None or (late and self._kill_sampler())
        process = same_process(self.status.sampler_pid, None)
        return process is None or late

    def _kill_sampler(self) -> bool:
        now = time.monotonic_ns()
        if self.sampler and self.gone_ns and now - self.gone_ns > 2 * SAMPLER_GRACE_NS:
            self.sampler.kill()
            self.sampler.wait()
            return True
        return False

    def verdict(self) -> tuple[State, Failure | None]:
        """The state in which the run ended. A result that was whole before the signal came still counts."""
        state, failure = outcome(self.folder, self.worker.returncode if self.worker else None)
        if self.ending and (state in ("failed", "lost")):
            return self.ending
        return state, failure


def adopted(folder: RunFolder, status: RunStatus, spec: dict[str, Any]) -> Job | None:
    """A job for a worker that a former supervisor started; None when it never started one.

    Between starting the worker and writing its pid a supervisor may have been killed: the tag finds the worker then.
    """
    job = Job(folder, status, spec)
    known = read_json(folder.worker)
    if known:
        job.pid, job.create_time = int(known["pid"]), float(known["create_time"])
        return job
    process = next(tagged(status.run_id), None)
    if process is None:
        return None if not folder.phases.exists() else job
    job.pid, job.create_time = process.pid, process.create_time()
    return job
