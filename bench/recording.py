"""`python -m bench.recording`: what recording costs, as the ratio of a recorded generate to one with nothing recorded.

One process builds the model once and then alternates: a plain generate, and one with the default recording (phases
from the forward hook with torch's counters, the allocator's history on CUDA, a sampler process at 100 Hz). Each side of
a pair is the faster of two generates, since what else the machine does only ever adds time. Each pair gives a ratio;
printed are their median and spread. Where there is a card: llama-7b, 16 x 128 + 48, bf16; else
tiny-llama on the CPU, 4 x 64 + 48. `--parts` measures each part of the recording alone as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil
import torch

from core.devices.process import identity
from core.devices.registry import list_devices
from core.runfolder.jsonio import write_json
from core.runfolder.layout import RunFolder
from core.spec.presets import preset_folder
from core.spec.run_spec import parse_spec
from core.worker.device import find_device
from core.worker.history import AllocatorHistory
from core.worker.inputs import make_inputs
from core.worker.jobs import JOBS, modes
from core.worker.model import build_model
from core.worker.phases import PhaseRecorder
from core.worker.steps import ForwardSteps

CARD = {"model": "llama-7b", "batch_size": 16, "prompt_tokens": 128, "new_tokens": 48}
PARTS = ("phases", "history", "sampler")
HOST = {"model": "tiny-llama", "batch_size": 4, "prompt_tokens": 64, "new_tokens": 48, "dtype": "fp32"}


class Subject:
    """The model and its inputs, and the two ways to run it."""

    def __init__(self, spec: dict[str, Any], device_id: str, place: Path) -> None:
        self.spec = spec
        self.device_id = device_id
        self.place = place
        self.device = find_device(spec["device"])
        source = {"kind": "preset", "name": spec["model"], "path": None}
        self.model = build_model(spec, source, preset_folder(spec["model"]), self.device, [])
        self.inputs = make_inputs(spec, self.model.config.vocab_size, self.device)
        self.count = 0

    def generate(self, steps: ForwardSteps | None = None) -> float:
        """Seconds for the faster of two generates, each with its phases recorded by `steps` where there is one."""
        taken = []
        for _ in range(2):
            gc.collect()
            started = time.perf_counter()
            with steps.repeat() if steps else nullcontext(), modes(self.spec, self.device.type):
                JOBS["generate"](self.model, *self.inputs, self.spec)
                self.device.synchronize()
            taken.append(time.perf_counter() - started)
        return min(taken)

    def recorded(self, parts: Collection[str] = PARTS) -> float:
        """The same with `parts` of the recording on; a run has all of them by default."""
        self.count += 1
        folder = RunFolder(self.place / f"recorded-{self.count}")
        folder.root.mkdir()
        with ExitStack() as recording:
            if "sampler" in parts:
                recording.enter_context(self._sampled(folder))
            if "history" in parts and self.device.type == "cuda":
                history = AllocatorHistory(folder, stacks=False)
                history.start()
                recording.callback(history.save)
            steps = None
            if "phases" in parts:
                recorder = PhaseRecorder(folder.phases)
                recorder.counters = self.device.counters
                recording.callback(recorder.close)
                steps = ForwardSteps(recorder)
                steps.attach(self.model)
                recording.callback(steps.detach)
            return self.generate(steps)

    @contextmanager
    def _sampled(self, folder: RunFolder) -> Iterator[None]:
        me = psutil.Process()
        write_json(folder.worker, {"pid": me.pid, "identity": identity(me.pid)})
        command = [sys.executable, "-m", "core.sampler", str(folder.root), self.device_id, "10"]
        sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not folder.sampler.exists():
            time.sleep(0.01)
        yield
        sampler.terminate()
        sampler.wait()


def main(pairs: int, alone: bool) -> None:
    on_card = torch.cuda.is_available()
    device = list_devices().find("auto")
    spec = {**parse_spec(CARD if on_card else HOST).to_dict(), "device": "cuda:0" if on_card else "cpu"}
    print(json.dumps({"device": device.name, "spec": {name: spec[name] for name in CARD}, "pairs": pairs}))
    with tempfile.TemporaryDirectory() as place:
        subject = Subject(spec, device.id, Path(place))
        for parts in [PARTS, *((part,) for part in PARTS if alone)]:
            print(json.dumps({"recorded": parts} | compared(subject, pairs, parts), indent=1), flush=True)


def compared(subject: Subject, pairs: int, parts: Collection[str]) -> dict[str, Any]:
    """Figures of `pairs` pairs: a generate without any recording beside one with `parts` of it."""
    for _ in range(2):
        subject.generate()
        subject.recorded(parts)
    both = []
    for number in range(pairs):
        # who goes first alternates, so that a drift of the clocks falls on both
        if number % 2:
            recorded, plain = subject.recorded(parts), subject.generate()
        else:
            plain, recorded = subject.generate(), subject.recorded(parts)
        both.append((plain, recorded))
    ratios = [recorded / plain for plain, recorded in both]
    low, _, high = quantiles(ratios, n=4)
    return {
        "plain_s_median": median(plain for plain, _ in both),
        "recorded_s_median": median(recorded for _, recorded in both),
        "ratio_median": median(ratios),
        "ratio_of_fastest": min(recorded for _, recorded in both) / min(plain for plain, _ in both),
        "ratio_quartiles": [low, high],
        "ratio_min_max": [min(ratios), max(ratios)],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="?", type=int, default=20)
    parser.add_argument("--parts", action="store_true", help="each part of the recording alone, too")
    arguments = parser.parse_args()
    main(arguments.pairs, arguments.parts)
