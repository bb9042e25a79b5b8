"""The supervisor's loop: take runs from the queue, watch those under way, finish those that ended."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
from filelock import FileLock

from core.runfolder.jsonio import read_json
from core.runfolder.layout import SAMPLER_TAG, RunFolder
from core.runs.home import DataHome
from core.runs.room import no_room
from core.runs.settings import read_settings
from core.runs.status import Failure, RunStatus, read_status
from core.runs.supervisor.cards import Cards
from core.runs.supervisor.finish import finish
from core.runs.supervisor.holding import end_holder, holder_ready
from core.runs.supervisor.job import Job, adopted
from core.runs.supervisor.launching import launch, make_reserve, starting
from core.runs.supervisor.leases import Leases
from core.runs.supervisor.processes import end_tree, start_holder, sweep
from core.runs.supervisor.records import Records
from core.runs.supervisor.sampler import end_sampler, keep_sampling, sampler_gone
from core.spec.errors import JobFailed, VramscopeError

logger = logging.getLogger(__name__)

IDLE_S = 60.0
PATIENCE_S = 10.0


class Supervisor:
    """Owns what its docstring's module says. One thread; only the conversion of histories runs beside it."""

    def __init__(self, home: DataHome, idle_s: float = IDLE_S) -> None:
        self.home = home
        self.idle_s = idle_s
        self.settings = read_settings(home)
        self.records = Records(home)
        self.cards = Cards(home)
        self.leases = Leases(self.settings.cpu_slots)
        self.devices: dict[str, str] = {}  # of the runs in the queue: a spec does not change
        self.held_back: dict[str, Job] = {}  # they wait for their card to be made smaller
        self.jobs: dict[str, Job] = {}
        self.finishing: dict[str, tuple[Job, RunStatus, Future[RunStatus]]] = {}
        self.pool = ThreadPoolExecutor(2)
        self.busy_at = time.monotonic()

    # ---- starting ----------------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over what a former supervisor left: live workers are watched again, dead ones get their verdict."""
        for ticket in self.records.tickets():
            folder = self.records.folder(ticket)
            status, document = read_status(folder), read_json(folder.spec)
            if status is None or document is None or status.ended:
                ticket.unlink(missing_ok=True)
            elif status.state != "queued":
                job = adopted(folder, status, document["spec"])
                if job is None:
                    self._back_into_the_queue(folder, status)
                else:
                    self.leases.hold(job.device)
                    self.jobs[folder.run_id] = job
                    logger.info("adopted %s, worker %s", folder.run_id, job.pid)

    def _back_into_the_queue(self, folder: RunFolder, status: RunStatus) -> None:
        """A run whose worker was never started; what was started for it goes first."""
        deadline = time.monotonic() + PATIENCE_S
        while (sweep(folder.run_id, SAMPLER_TAG) or not end_holder(folder, None)) and time.monotonic() < deadline:
            time.sleep(0.01)
        folder.samples.unlink(missing_ok=True)
        self.records.put(folder, replace(status, state="queued", started_at=None, t0_ns=None))

    def tick(self) -> bool:
        """One round; False when there is nothing left to do here."""
        if not self.home.root.is_dir():
            self._end_everything()
            return False
        self.records.retry()
        self._start_queued()
        self._launch_held_back()
        self._watch()
        self._complete()
        if self.held_back or self.jobs or self.finishing or self.records.refused or any(self.records.tickets()):
            self.busy_at = time.monotonic()
        return time.monotonic() - self.busy_at < self.idle_s or not self._may_end()

    def _may_end(self) -> bool:
        # submitters hold this lock while they queue and look for a supervisor, so none is overlooked here
        with FileLock(self.home.submit_lock):
            return not any(self.records.tickets())

    def _start_queued(self) -> None:
        known, self.devices = self.devices, {}
        for ticket in self.records.tickets():
            folder = self.records.folder(ticket)
            under_way = (self.held_back, self.jobs, self.finishing, self.records.refused)
            if any(folder.run_id in runs for runs in under_way):
                continue
            device = known.get(folder.run_id)
            if device is None or folder.cancel.exists() or (self.leases.has_room(device) and self._open(device)):
                self._look_at(ticket, folder)
            else:
                self.devices[folder.run_id] = device

    def _open(self, device: str) -> bool:
        return not self.cards.closed(device) and no_room(self.home) is None

    def _look_at(self, ticket: Path, folder: RunFolder) -> None:
        status, document = read_status(folder), read_json(folder.spec)
        if status is None or document is None or status.ended:
            ticket.unlink(missing_ok=True)
            return
        device = str(document["spec"]["device"])
        self.devices[folder.run_id] = device
        if folder.cancel.exists():
            self._end(folder, replace(status, state="cancelled", error=Failure("cancelled", "cancelled in the queue")))
        elif self._open(device) and self.leases.take(device):
            self._start(Job(folder, status, document["spec"]))

    def _start(self, job: Job) -> None:
        folder = job.folder
        try:
            device = self.cards.find(job.device)
            job.status = starting(job, device, self.cards.meter)
            if not self._reserved(job):
                self.leases.free(job.device)  # it stays in the queue until there is room
                return
            if device.kind == "cuda" and job.spec["capacity_mib"] is not None:
                folder.holder.unlink(missing_ok=True)  # of a supervisor before this one
                job.holder = start_holder(folder, job.device, int(job.spec["capacity_mib"]))
                self.held_back[folder.run_id] = job
            else:
                self._launch(job)
        except (VramscopeError, OSError, psutil.Error) as error:
            self._could_not_start(job, error)

    def _reserved(self, job: Job) -> bool:
        try:
            make_reserve(job)
        except OSError as error:
            logger.warning("%s waits: %s", job.folder.run_id, error)
            job.folder.reserve.unlink(missing_ok=True)
            return False
        if self.records.put(job.folder, job.status):
            return True
        del self.records.refused[job.folder.run_id]  # what is on the disk still says `queued`, which is true
        return False

    def _launch_held_back(self) -> None:
        """Start the worker of each run whose card is small enough by now."""
        for run_id, job in list(self.held_back.items()):
            try:
                if job.folder.cancel.exists():
                    raise JobFailed("it was cancelled while its card was made smaller")
                if holder_ready(job.folder, job.holder, job.status.t0_ns):
                    del self.held_back[run_id]
                    self._launch(job)
            except (VramscopeError, OSError, psutil.Error) as error:
                self.held_back.pop(run_id, None)
                self._could_not_start(job, error)

    def _launch(self, job: Job) -> None:
        launch(job, self.settings)
        self.jobs[job.folder.run_id] = job
        self.records.put(job.folder, job.status)

    def _could_not_start(self, job: Job, error: Exception) -> None:
        logger.warning("starting %s: %s", job.folder.run_id, error)
        end_tree(job.pid, job.folder.run_id, hard=True)  # it may have begun before something else failed
        end_sampler(job)
        end_holder(job.folder, job.holder)
        self.leases.free(job.device)
        cancelled = job.folder.cancel.exists()
        failure = Failure("cancelled" if cancelled else "start", f"the run could not start: {error}")
        self._end(job.folder, replace(job.status, state="cancelled" if cancelled else "failed", error=failure))

    # ---- watching ----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        for run_id, job in list(self.jobs.items()):
            if not job.gone():
                job.watch()
                keep_sampling(job)
                continue
            # each of them is asked until it says yes: the card is free when nothing of the run is left on it
            if not (job.swept() and sampler_gone(job) and end_holder(job.folder, job.holder)):
                continue
            if not self.cards.returned(job):
                continue
            state, failure = job.verdict()
            final = replace(job.status, state=state, error=failure, ended_at=time.time())
            del self.jobs[run_id]
            future = self.pool.submit(finish, job.folder, final, job.gone_ns or 0)
            self.finishing[run_id] = job, final, future
            self.records.put(job.folder, replace(job.status, state="finishing"))
            self.leases.free(job.device)

    def _complete(self) -> None:
        for run_id, (job, final, future) in list(self.finishing.items()):
            if future.done():
                del self.finishing[run_id]
                try:
                    status = future.result()
                except Exception as error:
                    logger.exception("finishing %s", run_id)
                    status = replace(final, trace_incomplete=f"the trace could not be read: {error}"[:500])
                self._end(job.folder, status)

    # ---- ending ------------------------------------------------------------------------------------------------

    def _end(self, folder: RunFolder, status: RunStatus) -> None:
        self.records.put(folder, replace(status, ended_at=status.ended_at or time.time()))

    def _end_everything(self) -> None:
        for job in self.held_back.values():
            end_holder(job.folder, job.holder)
        for job in self.jobs.values():
            job.ending = job.ending or ("cancelled", Failure("cancelled", "the data folder was removed"))
            end_tree(job.pid, job.status.run_id, hard=True)
