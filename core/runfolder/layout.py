"""The run folder is the contract between the processes of a run; this class names every file in it.

Imported by the worker, so: standard library only, Python >= 3.9.
"""

from __future__ import annotations

from pathlib import Path

SCHEMA_VERSION = 1
"""Written into every JSON document and every Arrow schema of a run folder."""

RUN_TAG = "VRAMSCOPE_RUN"
"""Environment variable that carries the run id into the worker and whatever it starts, so that a sweep finds them."""

SAMPLER_TAG = "VRAMSCOPE_SAMPLER"
"""The same for the run's sampler, which a sweep of the run leaves alone."""


class RunFolder:
    """Paths of one run's files. Nothing is read or created here.

    spec.json      the RunSpec, written once by whoever submits
    status.json    state and processes of the run, written by the supervisor alone
    model/         config.json of the model, copied at submission
    worker.json    pid and start time of the worker, written by the supervisor when it has started it
    holder.json    the process that keeps the rest of the card when it is to look smaller, written by that process
    phases.jsonl   one row at the start of each phase and one at its end, written by the worker
    samples.arrow  polled memory, an Arrow IPC stream written by the sampler
    sampler.json   what the sampler polled and how, written by the sampler
    result.json    how the job ended, written by the worker
    snapshot.pickle  torch's own allocator history, written by the worker
    tensors.json   which address belongs to which parameter or buffer, written by the worker on a card
    modules.json   when which module was entered and left, written by the worker when asked to
    events.arrow   the same as a table, written by the supervisor when the run has ended
    label.json     title and note, written by whoever edits them
    recorded.json  card, driver, versions and date of a run that was packed to be kept or sent
    reserve        room on the disk that is given up for the result when the disk is full
    cancel         present when somebody asked for the run to be cancelled
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    @property
    def run_id(self) -> str:
        return self.root.name

    @property
    def spec(self) -> Path:
        return self.root / "spec.json"

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def model_config(self) -> Path:
        return self.model / "config.json"

    @property
    def worker(self) -> Path:
        return self.root / "worker.json"

    @property
    def holder(self) -> Path:
        return self.root / "holder.json"

    @property
    def phases(self) -> Path:
        return self.root / "phases.jsonl"

    @property
    def samples(self) -> Path:
        return self.root / "samples.arrow"

    @property
    def sampler(self) -> Path:
        return self.root / "sampler.json"

    @property
    def result(self) -> Path:
        return self.root / "result.json"

    @property
    def snapshot(self) -> Path:
        return self.root / "snapshot.pickle"

    @property
    def tensors(self) -> Path:
        return self.root / "tensors.json"

    @property
    def modules(self) -> Path:
        return self.root / "modules.json"

    @property
    def events(self) -> Path:
        return self.root / "events.arrow"

    @property
    def stdout(self) -> Path:
        return self.root / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.root / "stderr.log"

    @property
    def sampler_log(self) -> Path:
        return self.root / "sampler.log"

    @property
    def label(self) -> Path:
        return self.root / "label.json"

    @property
    def recorded(self) -> Path:
        return self.root / "recorded.json"

    @property
    def reserve(self) -> Path:
        return self.root / "reserve"

    @property
    def cancel(self) -> Path:
        return self.root / "cancel"
