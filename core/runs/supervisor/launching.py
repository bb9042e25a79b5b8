"""From a queued run to a running worker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from core.devices.device import Device, Meter
from core.devices.process import identity
from core.runfolder.jsonio import write_json
from core.runs.settings import Settings
from core.runs.status import RunStatus
from core.runs.supervisor.job import Job
from core.runs.supervisor.processes import start_sampler, start_worker, worker_environment
from core.runs.supervisor.returning import baseline_of
from core.spec.cards import PREFIX

RESERVE_BYTES = 2**20
"""Kept free for the result and the last status, should the disk fill up while the run goes on."""


def starting(job: Job, device: Device, meter_of: Callable[[Device], Meter]) -> RunStatus:
    """The status of a run that is about to start, and in the job what is on its card before it.

    Raises NoSuchDevice when the card does not answer.
    """
    reading = None if device.kind == "simulated" else meter_of(device).read()
    job.baseline = baseline_of(reading) if reading and device.kind == "cuda" else {}
    return replace(
        job.status,
        state="starting",
        started_at=time.time(),
        t0_ns=time.monotonic_ns(),
        device={
            "id": device.id,
            "name": device.name,
            "total_bytes": device.total_bytes,
            "baseline_used": reading.device_used if reading else 0,
        },
    )


def make_reserve(job: Job) -> None:
    """Raises OSError when the disk has no room for it."""
    with job.folder.reserve.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, RESERVE_BYTES)


def launch(job: Job, settings: Settings) -> None:
    """Sampler first, so that its baseline is the card without the worker. Raises what starting a process raises."""
    folder = job.folder
    environment = settings.environment(job.spec["environment"])
    simulated = job.device.startswith(PREFIX)
    if simulated:
        job.sampler_starts = 0
    else:
        job.sampler = start_sampler(folder, job.device, job.spec["record_interval_ms"])
    job.worker = start_worker(
        folder,
        environment.interpreter or sys.executable,
        worker_environment(job.spec, folder.run_id, environment.overlays),
        "core.simulate" if simulated else "core.worker",
    )
    job.pid = job.worker.pid
    job.identity = identity(job.pid)
    about = {"pid": job.pid, "identity": job.identity, "started_ns": time.monotonic_ns(), "baseline": job.baseline}
    write_json(folder.worker, about)
    job.status = replace(job.status, state="running", sampler_pid=job.sampler.pid if job.sampler else None)
