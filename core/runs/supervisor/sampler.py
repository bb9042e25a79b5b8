"""The sampler of a run seen from the supervisor: that it runs, is started again once, and ends."""

from __future__ import annotations

import logging
import signal

from core.devices.process import same_process
from core.runfolder.jsonio import read_json
from core.runfolder.layout import SAMPLER_TAG
from core.runs.supervisor.job import Job
from core.runs.supervisor.processes import start_sampler, sweep
from core.sampler.sampling import DISK_REFUSED

logger = logging.getLogger(__name__)

GRACE_NS = 5_000_000_000
"""How long the sampler may go on after the worker: it waits for the card's memory to come back."""

MOST_STARTS = 2


def keep_sampling(job: Job) -> None:
    """Start the sampler of a running worker again when it has died, once. Raises nothing: the run goes on without."""
    if job.sampler_starts == 0 or _runs(job) or _saw_the_end(job):
        return
    how = _how_it_ended(job)
    if job.sampler_starts >= MOST_STARTS or (job.sampler and job.sampler.returncode == DISK_REFUSED):
        job.incomplete(f"nothing was sampled any more from some moment on: {how}")
        job.sampler_starts = 0  # no more looks at it
        return
    logger.warning("%s: %s; it is started again", job.status.run_id, how)
    job.incomplete(f"nothing was sampled for a while: {how}, and was started again")
    job.sampler_starts += 1
    try:
        job.sampler = start_sampler(job.folder, job.device, job.spec["record_interval_ms"])
    except OSError:
        logger.exception("sampler of %s", job.status.run_id)


def sampler_gone(job: Job) -> bool:
    """Whether the sampler has ended; ended by us when it lags behind the worker for too long."""
    if not _runs(job):
        return True
    late = job.since_gone_ns
    if late > 2 * GRACE_NS:
        sweep(job.status.run_id, SAMPLER_TAG)
    elif late > GRACE_NS and job.sampler:
        job.sampler.terminate()
    return False


def end_sampler(job: Job) -> None:
    """End it at once, where there is one, ours or a former supervisor's."""
    if job.sampler:
        job.sampler.kill()
        job.sampler.wait()
    sweep(job.status.run_id, SAMPLER_TAG)


def _saw_the_end(job: Job) -> bool:
    """Whether it ended because the worker did, which is about to be noticed here as well."""
    if job.sampler:
        return job.sampler.returncode == 0
    return "ended_ns" in (read_json(job.folder.sampler) or {})


def _runs(job: Job) -> bool:
    if job.sampler:
        return job.sampler.poll() is None
    return same_process(job.sampler_pid, job.sampler_identity) is not None


def _how_it_ended(job: Job) -> str:
    code = job.sampler.returncode if job.sampler else None
    if code is None:
        return "the sampler had gone when the supervisor came back"
    if code == DISK_REFUSED:
        return "the disk took no more samples"
    if code < 0:
        return f"the sampler was ended by {signal.Signals(-code).name if -code in set(signal.Signals) else -code}"
    return f"the sampler left with exit code {code} (see sampler.log)"
