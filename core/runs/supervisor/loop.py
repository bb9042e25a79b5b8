"""The supervisor's loop: take runs from the queue, watch those under way, finish those that ended."""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
from filelock import FileLock
from sqlalchemy.exc import SQLAlchemyError

from core.devices.registry import list_devices, open_meter
from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder
from core.runs.home import DataHome
from core.runs.settings import read_settings
from core.runs.status import Failure, RunStatus, read_status, write_status
from core.runs.store import Store
from core.runs.supervisor.finish import finish
from core.runs.supervisor.holding import end_holder, holder_ready
from core.runs.supervisor.job import Job, adopted
from core.runs.supervisor.leases import Leases
from core.runs.supervisor.processes import end_tree, start_holder, start_sampler, start_worker, worker_environment
from core.spec.cards import PREFIX
from core.spec.errors import JobFailed, VramscopeError

logger = logging.getLogger(__name__)

IDLE_S = 60.0


class Supervisor:
    """Owns what its docstring's module says. One thread; only the conversion of histories runs beside it."""

    def __init__(self, home: DataHome, idle_s: float = IDLE_S) -> None:
        self.home = home
        self.idle_s = idle_s
        self.settings = read_settings(home)
        self.store = Store(home)
        self.leases = Leases(self.settings.cpu_slots)
        self.held_back: dict[str, Job] = {}  # they wait for their card to be made smaller
        self.jobs: dict[str, Job] = {}
        self.finishing: dict[str, tuple[Job, Future[RunStatus]]] = {}
        self.pool = ThreadPoolExecutor(2)
        self.busy_at = time.monotonic()

    # ---- starting ----------------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over what a former supervisor left: live workers are watched again, dead ones get their verdict."""
        for ticket in self._tickets():
            folder = self._folder(ticket)
            status, document = read_status(folder), read_json(folder.spec)
            if status is None or document is None or status.ended:
                ticket.unlink(missing_ok=True)
            elif status.state != "queued":
                job = adopted(folder, status, document["spec"])
                if job is None:
                    self._record(folder, replace(status, state="queued", started_at=None, t0_ns=None))
                else:
                    self.leases.hold(job.device)
                    self.jobs[folder.run_id] = job
                    logger.info("adopted %s, worker %s", folder.run_id, job.pid)

    def tick(self) -> bool:
        """One round; False when there is nothing left to do here."""
        if not self.home.root.is_dir():
            self._end_everything()
            return False
        self._start_queued()
        self._launch_held_back()
        self._watch()
        self._complete()
        if self.held_back or self.jobs or self.finishing or self._tickets():
            self.busy_at = time.monotonic()
        return time.monotonic() - self.busy_at < self.idle_s or not self._may_end()

    def _may_end(self) -> bool:
        # submitters hold this lock while they queue and look for a supervisor, so none is overlooked here
        with FileLock(self.home.submit_lock):
            return not self._tickets()

    def _tickets(self) -> list[Path]:
        try:
            return sorted(self.home.queue.iterdir())
        except OSError:
            return []

    def _folder(self, ticket: Path) -> RunFolder:
        return RunFolder(self.home.runs / ticket.name.rpartition(".")[2])

    def _start_queued(self) -> None:
        for ticket in self._tickets():
            folder = self._folder(ticket)
            if any(folder.run_id in under_way for under_way in (self.held_back, self.jobs, self.finishing)):
                continue
            status, document = read_status(folder), read_json(folder.spec)
            if status is None or document is None or status.ended:
                ticket.unlink(missing_ok=True)
            elif folder.cancel.exists():
                self._end(
                    folder, replace(status, state="cancelled", error=Failure("cancelled", "cancelled in the queue"))
                )
            elif self.leases.take(document["spec"]["device"]):
                self._start(Job(folder, status, document["spec"]))

    def _start(self, job: Job) -> None:
        folder = job.folder
        try:
            device = list_devices().find(job.device)
            job.status = replace(
                job.status,
                state="starting",
                started_at=time.time(),
                t0_ns=time.monotonic_ns(),
                device={
                    "id": device.id,
                    "name": device.name,
                    "total_bytes": device.total_bytes,
                    "baseline_used": 0 if device.kind == "simulated" else open_meter(device).read().device_used,
                },
            )
            self._record(folder, job.status)
            if device.kind == "cuda" and job.spec["capacity_mib"] is not None:
                folder.holder.unlink(missing_ok=True)  # of a supervisor before this one
                job.holder = start_holder(folder, job.device, int(job.spec["capacity_mib"]))
                self.held_back[folder.run_id] = job
            else:
                self._launch(job)
        except (VramscopeError, OSError, psutil.Error) as error:
            self._could_not_start(job, error)

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
        """Sampler first, so that its baseline is the card without the worker. Raises what starting a process raises."""
        folder = job.folder
        environment = self.settings.environment(job.spec["environment"])
        simulated = job.device.startswith(PREFIX)
        if not simulated:
            job.sampler = start_sampler(folder, job.device, job.spec["record_interval_ms"])
        job.worker = start_worker(
            folder,
            environment.interpreter or sys.executable,
            worker_environment(job.spec, folder.run_id, environment.overlays),
            "core.simulate" if simulated else "core.worker",
        )
        job.pid = job.worker.pid
        job.create_time = psutil.Process(job.pid).create_time()
        write_json(folder.worker, {"pid": job.pid, "create_time": job.create_time, "started_ns": time.monotonic_ns()})
        job.status = replace(job.status, state="running", sampler_pid=job.sampler.pid if job.sampler else None)
        self._record(folder, job.status)
        self.jobs[folder.run_id] = job

    def _could_not_start(self, job: Job, error: Exception) -> None:
        logger.warning("starting %s: %s", job.folder.run_id, error)
        if job.sampler:
            job.sampler.kill()
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
                continue
            if not job.sampler_gone() or not end_holder(job.folder, job.holder):
                continue
            state, failure = job.verdict()
            final = replace(job.status, state=state, error=failure, ended_at=time.time())
            self._record(job.folder, replace(job.status, state="finishing"))
            del self.jobs[run_id]
            self.leases.free(job.device)
            self.finishing[run_id] = (job, self.pool.submit(finish, job.folder, final, job.gone_ns or 0))

    def _complete(self) -> None:
        for run_id, (job, future) in list(self.finishing.items()):
            if future.done():
                del self.finishing[run_id]
                self._end(job.folder, future.result())

    # ---- ending ------------------------------------------------------------------------------------------------

    def _end(self, folder: RunFolder, status: RunStatus) -> None:
        self._record(folder, replace(status, ended_at=status.ended_at or time.time()))
        for ticket in self._tickets():
            if ticket.name.endswith(f".{folder.run_id}"):
                ticket.unlink(missing_ok=True)
        logger.info("%s %s", folder.run_id, status.state)

    def _record(self, folder: RunFolder, status: RunStatus) -> None:
        write_status(folder, status)
        try:
            self.store.put_runs([folder.run_id])
        except SQLAlchemyError:
            logger.exception("the index does not take %s; reindex brings it back", folder.run_id)

    def _end_everything(self) -> None:
        for job in self.held_back.values():
            end_holder(job.folder, job.holder)
        for job in self.jobs.values():
            job.ending = job.ending or ("cancelled", Failure("cancelled", "the data folder was removed"))
            end_tree(job.pid, job.status.run_id, hard=True)
