"""`python -m core.worker RUN_DIR`: execute the run that RUN_DIR/spec.json describes, and record it there.

The exit code is 0 when result.json is written, whatever the job came to: an out-of-memory error is a result.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable

from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder
from core.worker.banner import flush_output, forgive_output
from core.worker.errors import Refused
from core.worker.phases import PhaseRecorder
from core.worker.report import Report

if TYPE_CHECKING:
    from core.worker.job import Job


def main(run_dir: str) -> int:
    """Run the job, write its result, free its memory, write the result again with what came after."""
    folder = RunFolder(run_dir)
    report = Report(folder)
    recorder = PhaseRecorder(folder.phases)
    job: Job | None = None
    try:
        with recorder.phase("imports"):
            job = _imported(folder, recorder, report)
        job.run()
        report.set(outcome="finished")
    except Exception as error:  # noqa: BLE001 - whatever a model, a library or the driver raises is the result
        report.fail(error, recorder.last)
        if job is not None:
            # before the frames that hold the job's tensors are gone: the segments as they were when it failed
            _beside(report, "the allocator's history", job.save_history)
    if job is not None:
        _beside(report, "the end of the run", job.record_end)
    _beside(report, "the result", report.write)  # a crash while memory is freed does not lose it
    if job is not None:
        _beside(report, "the release", job.release)
        _beside(report, "the allocator's history", job.save_history)
    recorder.close()
    report.set(phases_lost=recorder.lost)
    report.write()
    return 0


def _imported(folder: RunFolder, recorder: PhaseRecorder, report: Report) -> Job:
    """The job, with torch, transformers and the engine imported: seconds, so a phase."""
    document: dict[str, Any] | None = read_json(folder.spec)
    if document is None or not isinstance(document.get("spec"), dict):
        raise Refused(f"{folder.spec} is missing or holds no run's description")
    from core.worker.job import Job

    return Job(document, folder, recorder, report)


def _beside(report: Report, what: str, action: Callable[[], None]) -> None:
    """Do something whose failure must not cost the result: after a CUDA error every call to the driver may raise."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - see above
        report.warn(what, error)


if __name__ == "__main__":
    forgive_output()
    code = main(sys.argv[1])
    flush_output()
    # Not sys.exit: libraries' own teardown can hang or abort on a device that has failed, with the result written.
    os._exit(code)
