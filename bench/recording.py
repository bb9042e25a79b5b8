"""`python -m bench.recording`: what recording costs, as the ratio of a recorded generate to one with nothing recorded.

One process builds the model once and then alternates: a plain generate, and one with the default recording (phases
from the forward hook with torch's counters, the allocator's history on CUDA, a sampler process at 100 Hz). Each side of
a pair is the faster of two generates, since what else the machine does only ever adds time. Each pair gives a ratio;
printed are their median and spread. Where there is a card: llama-7b, 16 x 128 + 48, bf16; else
tiny-llama on the CPU, 4 x 64 + 48.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
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

    def recorded(self) -> float:
        """The same with everything on that a run has on by default."""
        self.count += 1
        folder = RunFolder(self.place / f"recorded-{self.count}")
        folder.root.mkdir()
        me = psutil.Process()
        write_json(folder.worker, {"pid": me.pid, "identity": identity(me.pid)})
        command = [sys.executable, "-m", "core.sampler", str(folder.root), self.device_id, "10"]
        sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not folder.sampler.exists():
            time.sleep(0.01)
        recorder = PhaseRecorder(folder.phases)
        recorder.counters = self.device.counters
        history = AllocatorHistory(folder, stacks=False)
        if self.device.type == "cuda":
            history.start()
        steps = ForwardSteps(recorder)
        steps.attach(self.model)
        seconds = self.generate(steps)
        steps.detach()
        recorder.close()
        sampler.terminate()
        sampler.wait()
        if self.device.type == "cuda":
            history.save()
        return seconds


def main(pairs: int = 20) -> None:
    on_card = torch.cuda.is_available()
    device = list_devices().find("auto")
    spec = {**parse_spec(CARD if on_card else HOST).to_dict(), "device": "cuda:0" if on_card else "cpu"}
    with tempfile.TemporaryDirectory() as place:
        subject = Subject(spec, device.id, Path(place))
        for _ in range(2):
            subject.generate()
            subject.recorded()
        both = []
        for number in range(pairs):
            # who goes first alternates, so that a drift of the clocks falls on both
            if number % 2:
                recorded, plain = subject.recorded(), subject.generate()
            else:
                plain, recorded = subject.generate(), subject.recorded()
            both.append((plain, recorded))
    ratios = [recorded / plain for plain, recorded in both]
    low, _, high = quantiles(ratios, n=4)
    figures = {
        "device": device.name,
        "spec": {name: spec[name] for name in CARD},
        "pairs": pairs,
        "plain_s_median": median(plain for plain, _ in both),
        "recorded_s_median": median(recorded for _, recorded in both),
        "ratio_median": median(ratios),
        "ratio_of_fastest": min(recorded for _, recorded in both) / min(plain for plain, _ in both),
        "ratio_quartiles": [low, high],
        "ratio_min_max": [min(ratios), max(ratios)],
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
