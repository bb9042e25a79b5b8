"""Writes a whole run folder with known figures, in the schema of a real one, so that readers take milliseconds.

The GPU run it makes: 1 GiB of weights by one allocation in `load`, then one 100 MiB block more in each forward pass,
with reserved 10 % above; sampled at 100 Hz with the device 700 MiB above reserved. All figures are known to the byte.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from core.runfolder.jsonio import JsonLines, write_json
from core.runfolder.layout import RunFolder
from core.runfolder.tables import EVENTS, SAMPLES, TableWriter
from core.runs.home import DataHome
from core.runs.status import Failure, Peak, RunStatus, write_status
from core.runs.store import Store
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec

MIB = 2**20
MS = 1_000_000
CARD = "cuda:GPU-00000000-1111-2222-3333-444444444444"

WEIGHTS = 1024 * MIB
STEP = 100 * MIB
ROUNDING = 512
"""Bytes by which torch's counter exceeds the sum of the requested sizes."""
OUTSIDE = 700 * MIB


def make_run(home: DataHome, run_id: str, *, on_card: bool = True, state: str = "finished", **fields: Any) -> RunFolder:
    """A run of `run_id` in `home` with the spec's `fields`, listed in the index."""
    folder = RunFolder(home.runs / run_id)
    folder.model.mkdir(parents=True)
    spec = parse_spec({"model": "gpt2", "device": CARD if on_card else "cpu", "new_tokens": 4, **fields})
    source = resolve(spec)
    folder.model_config.write_text(json.dumps(source.config))
    write_json(folder.spec, {"run_id": run_id, "label": f"batch_size={spec.batch_size}", "spec": spec.to_dict()})
    t0 = 5_000_000_000
    steps = spec.new_tokens
    _phases(folder, t0, steps, on_card)
    _samples(folder, t0, steps, on_card)
    top = WEIGHTS + steps * STEP + ROUNDING
    if on_card:
        _events(folder, t0, steps)
        write_json(folder.result, {"outcome": "finished", "peak": {"allocated": top, "reserved": reserved(top)}})
    experiment = run_id.partition("-")[0]
    peak = Peak(
        top if on_card else None,
        reserved(top) if on_card else None,
        reserved(top) + OUTSIDE if on_card else top,
        reserved(top) + OUTSIDE if on_card else 2 * top,
        top,
    )
    device = {"name": "NVIDIA Test" if on_card else "CPU", "total_bytes": 48 * 2**30}
    error = Failure("oom", "CUDA out of memory. Tried to allocate 642.00 MiB.", 642 * MIB, "decode 2")
    status = RunStatus(run_id, experiment, state, 1000.0, 1001.0, 1002.0, t0, 1.0, peak=peak, device=device)  # type: ignore[arg-type]  # a state by its name
    write_status(folder, replace(status, error=error if state == "oom" else None))
    write_json(home.experiments / f"{experiment}.json", {"title": f"made {experiment}", "created_at": 1000.0})
    store = Store(home)
    store.put_experiment(experiment)
    store.put_runs([run_id])
    return folder


def reserved(allocated: int) -> int:
    return allocated + allocated // 10


def _row(
    name: str, index: int, start: int, end: int, step: tuple[int, int], level: tuple[int, int] | None
) -> dict[str, Any]:
    counters = {
        "allocated_start": level and level[0],
        "reserved_start": level and reserved(level[0]),
        "allocated_end": level and level[1],
        "reserved_end": level and reserved(level[1]),
    }
    return {
        "name": name,
        "index": index,
        "t_start": start,
        "t_end": end,
        "step_start": step[0],
        "step_end": step[1],
        **counters,
    }


def _phases(folder: RunFolder, t0: int, steps: int, on_card: bool) -> None:
    lines = JsonLines(folder.phases)
    level = WEIGHTS + ROUNDING
    lines.append(_row("imports", 0, t0, t0 + 100 * MS, (0, 0), None))
    lines.append(_row("load", 0, t0 + 100 * MS, t0 + 200 * MS, (0, 0), (0, level) if on_card else None))
    for step in range(steps):
        start = t0 + (200 + 100 * step) * MS
        levels = (level + step * STEP, level + (step + 1) * STEP) if on_card else None
        name, index = ("prefill", 0) if step == 0 else ("decode", step - 1)
        lines.append({**_row(name, index, start, start + 100 * MS, (step, step + 1), levels), "t_end": None})
        lines.append(_row(name, index, start, start + 100 * MS, (step, step + 1), levels))
    lines.close()


def _samples(folder: RunFolder, t0: int, steps: int, on_card: bool) -> None:
    rows: dict[str, list[int | None]] = {name: [] for name in SAMPLES.names}
    for tick in range(0, 200 + 100 * steps + 20, 10):
        done = max(0, min(steps, (tick - 200) // 100 + (1 if tick >= 200 else 0)))
        level = WEIGHTS + ROUNDING + done * STEP if tick >= 200 else 0
        device = reserved(level) + OUTSIDE if on_card else 2 * level
        missing = tick == 50  # the driver refused once
        for name, value in zip(
            SAMPLES.names, (t0 + tick * MS, device, device, 0 if on_card else None, level), strict=True
        ):
            rows[name].append(None if missing and name != "t_ns" else value)
    with TableWriter(folder.samples, SAMPLES) as writer:
        writer.write(rows)


def _events(folder: RunFolder, t0: int, steps: int) -> None:
    rows: dict[str, list[Any]] = {name: [] for name in EVENTS.names}
    sizes = [(t0 + 150 * MS, WEIGHTS)] + [(t0 + (250 + 100 * step) * MS, STEP) for step in range(steps)]
    for number, (t_ns, size) in enumerate(sizes):
        for action, bytes_ in (("segment_alloc", reserved(size)), ("alloc", size)):
            for name, value in zip(
                EVENTS.names, (t_ns, 0.0, action, number << 30, bytes_, 0, None, None, None), strict=True
            ):
                rows[name].append(value)
    with TableWriter(folder.events, EVENTS) as writer:
        writer.write(rows)
