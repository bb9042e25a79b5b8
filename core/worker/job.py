"""One job from the device context to its release, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
import transformers

from core.runfolder.layout import RunFolder
from core.worker.device import Device, driver_version, find_device
from core.worker.engine import find_engine
from core.worker.errors import Refused
from core.worker.history import AllocatorHistory
from core.worker.inputs import make_inputs, prepare_cache
from core.worker.jobs import JOBS, modes
from core.worker.marks import ModuleMarks
from core.worker.model import build_model, describe_model
from core.worker.phases import PhaseRecorder
from core.worker.release import release_memory
from core.worker.report import Report, installed_version
from core.worker.steps import ForwardSteps
from core.worker.tensors import TensorList
from core.worker.wrap import start_process_group, unwrapped, wrap_ddp


class Job:
    """Everything the run holds on to, so that `release` can let it go.

    Created inside the imports phase: it imports the engine. `run` raises whatever the job raises.
    """

    def __init__(self, document: Mapping[str, Any], folder: RunFolder, recorder: PhaseRecorder, report: Report) -> None:
        self._spec: dict[str, Any] = document["spec"]
        self._source: dict[str, Any] = document["source"]
        self._folder = folder
        self._recorder = recorder
        self._report = report
        self._device: Device = find_device(self._spec["device"])
        self._engine = find_engine(self._spec, self._device, report.warnings)
        self._history: AllocatorHistory | None = None
        self._marks: ModuleMarks | None = None
        self._tensors = TensorList()
        self._steps = ForwardSteps(recorder)
        self._model: Any = None
        self._inputs: Any = None
        self._output: Any = None
        transformers.utils.logging.disable_progress_bar()
        recorder.counters = self._device.counters
        report.set(versions=_versions())

    def run(self) -> None:
        """Every phase from the device context to the last decode."""
        self._start_device()
        if self._spec["wrap"] == "ddp" or self._engine.needs_process_group:
            with self._recorder.phase("process group"):
                start_process_group(self._device)
        self._load()
        self._prepare()
        self._execute()

    def _start_device(self) -> None:
        if self._device.type == "cuda":
            with self._recorder.phase("device context"):
                self._device.start()
            if self._spec["record_history"]:
                self._start_history()
        self._report.set(device=self._device.describe())

    def _start_history(self) -> None:
        history = AllocatorHistory(self._folder, bool(self._spec["record_stacks"]))
        try:
            history.start()
        except (AttributeError, TypeError, RuntimeError) as error:
            self._report.warn("the allocator's history is not recorded", error)
            return
        self._history = history

    def _load(self) -> None:
        torch.manual_seed(self._spec["seed"])
        started = time.monotonic_ns()
        with self._recorder.phase("load"):
            self._model = build_model(self._spec, self._source, self._folder.model, self._device, self._report.warnings)
            self._device.synchronize()
        self._report.fields["seconds"]["load"] = (time.monotonic_ns() - started) / 1e9
        self._report.set(model=describe_model(self._model))
        self._tensors.collect(self._model)

    def _prepare(self) -> None:
        self._engine.build(self._recorder)
        self._model = self._engine.take(self._model, self._recorder)
        self._tensors.collect(self._model)
        if self._spec["wrap"] == "ddp":
            with self._recorder.phase("wrap"):
                self._model = wrap_ddp(self._model, self._device, self._spec)
                self._device.synchronize()
        if self._spec["record_modules"]:
            self._marks = ModuleMarks()
            self._marks.attach(unwrapped(self._model))
        with self._recorder.phase("inputs"):
            prepare_cache(self._spec, self._device, self._report.warnings)
            self._inputs = make_inputs(self._spec, _vocabulary(unwrapped(self._model)), self._device)

    def _execute(self) -> None:
        job = JOBS[self._spec["job"]]
        ids, mask = self._inputs
        # generate is called inside the wrapper, the other jobs go through it
        self._steps.attach(unwrapped(self._model) if self._spec["job"] == "generate" else self._model)
        seconds = self._report.fields["seconds"]
        for _ in range(self._spec["repeats"]):
            self._output = None
            torch.manual_seed(self._spec["seed"])
            self._engine.before_repeat()
            started = time.monotonic_ns()
            with self._steps.repeat(), modes(self._spec, self._device.type):
                self._output, shape = job(self._model, ids, mask, self._spec)
                self._device.synchronize()  # an error of the last step belongs to it
            seconds["repeats"].append((time.monotonic_ns() - started) / 1e9)
            seconds["generate"] = sum(seconds["repeats"])
            self._report.set(output_shape=shape)

    def record_end(self) -> None:
        """What the result says of any end, good or bad, read before anything is freed."""
        counters = self._device.counters()
        if counters is not None:
            self._report.set(peak={"allocated": counters.peak_allocated, "reserved": counters.peak_reserved})
        self._report.set(deepspeed=self._engine.report(self._folder.stdout))
        self._tensors.save(self._folder)
        if self._marks is not None:
            self._marks.detach()
            self._marks.save(self._folder, self._report.warnings)

    def save_history(self) -> None:
        """Write the allocator's history as far as it has come, and end it. Does nothing the second time."""
        history, self._history = self._history, None
        if history is not None:
            self._report.set(history=history.save())

    def release(self) -> None:
        """Let go of all the job holds, as a phase."""
        with self._recorder.phase("release"):
            self._steps.detach()
            self._output = self._inputs = self._model = None
            self._engine.release()
            release_memory(self._device)


def _vocabulary(model: Any) -> int:
    size = getattr(model.config, "vocab_size", None)
    if not isinstance(size, int) or size < 1:
        raise Refused(f"the model's config has no usable vocab_size: {size!r}")
    return size


def _versions() -> dict[str, Any]:
    import platform

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "deepspeed": installed_version("deepspeed"),
        "cuda": torch.version.cuda,
        "driver": driver_version(),
    }
