"""Measuring a card for simulation: what its context and libraries take, step by step, on the real GPU."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from core.devices.device import Device, Meter
from core.devices.registry import open_meter
from core.runfolder.jsonio import write_json
from core.runs.environment import PROJECT_ROOT, child_environment
from core.spec.cards import MIB, all_cards
from core.spec.errors import JobFailed, NoSuchDevice

COMMAND = (sys.executable, "-m", "core.worker.calibration")
OUTSIDE = ("context", "kernels", "cublas", "cublaslt", "cudnn", "more_kernels", "nccl")
PATIENCE_S = 180
"""A probe that takes longer hangs: it needs some 20 s, most of them for imports."""

NO_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Step:
    """One step of the probe: bytes by which the card's use outside PyTorch's pool grew, and what the probe said."""

    name: str
    grown: int
    said: dict[str, Any]


def calibrate(
    device: Device,
    folder: Path,
    *,
    tell: Callable[[Step], None] = lambda _: None,
    meter: Meter | None = None,
    command: Sequence[str] = COMMAND,
) -> Path:
    """Measure `device` and write its card to `folder`; returns the file.

    Raises NoSuchDevice for what is no idle NVIDIA card, JobFailed where the probe does not get through.
    """
    if device.kind != "cuda":
        raise NoSuchDevice(f"only an NVIDIA card can be calibrated, {device.name} ({device.id}) is none")
    meter = meter or open_meter(device)
    used, reserved = _used(meter, device, 0), 0
    steps: list[Step] = []
    with _probe(device, command) as lines:
        for said in lines:
            now = _used(meter, device, 1)
            step = Step(said["step"], now - used - (int(said["reserved_bytes"]) - reserved), said)
            used, reserved = now, int(said["reserved_bytes"])
            steps.append(step)
            tell(step)
            if step.name == "context":
                beside = _beside(device, meter, command)
                tell(beside)
                used = _used(meter, device, 1)
    if not steps:
        raise JobFailed("the probe said nothing; `python -m core doctor` shows whether torch finds the card")
    card = _card(device, steps, beside.grown)
    path = folder / f"{card['id']}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, card)
    return path


def _beside(device: Device, meter: Meter, command: Sequence[str]) -> Step:
    """The context of a second process: the driver takes some of the first one's once for all."""
    used = _used(meter, device, 1)
    with _probe(device, command) as lines:
        said = next(lines, None)
        if said is None:
            raise JobFailed("a second process could not be started beside the first")
        return Step("context_beside_others", _used(meter, device, 2) - used, said)


@contextmanager
def _probe(device: Device, command: Sequence[str]) -> Iterator[Iterator[dict[str, Any]]]:
    """The probe's lines; it goes on to its next step when the next line is asked for, and ends with the block."""
    environment = child_environment() | {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": device.uuid or "",
    }
    with subprocess.Popen(
        list(command),
        cwd=PROJECT_ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        try:
            yield _lines(process)
        finally:
            watchdog.cancel()
            process.kill()


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdin and process.stdout and process.stderr, "all three are pipes"
    for line in process.stdout:
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            continue  # a library's own words
        yield said
        process.stdin.write("\n")
        process.stdin.flush()
    if process.wait() != 0:
        last = (process.stderr.read().strip().splitlines() or ["it said nothing"])[-1]
        raise JobFailed(f"the probe ended with code {process.returncode}: {last}")


def _card(device: Device, steps: Sequence[Step], beside: int) -> dict[str, Any]:
    found = {step.name: step for step in steps}
    missing = [name for name in OUTSIDE[:-1] if name not in found]
    if missing:
        raise JobFailed(f"the probe ended before it had measured {', '.join(missing)}; run it again")
    grown = {name: max(0, step.grown) for name, step in found.items()}
    first = found["context"].said
    libraries = {
        "kernels": grown["kernels"] + grown["more_kernels"],
        "cublas": grown["cublas"] + grown["cublaslt"],
        "cudnn": grown["cudnn"],
        "context_beside_others": max(0, beside),
    }
    if "nccl" in grown:
        libraries["nccl"] = grown["nccl"]
    known = next((card for card in all_cards() if card.name == device.name), None)
    return {
        "id": known.id if known else NO_WORD.sub("-", device.name.lower().removeprefix("nvidia ")).strip("-"),
        "name": device.name,
        "memory_mib": first["total_bytes"] / MIB,
        "memory": "measured",
        "capability": first["capability"],
        "sm_count": first["sm_count"],
        "context_mib": grown["context"] / MIB,
        "context": "measured",
        "libraries_mib": {name: size / MIB for name, size in libraries.items()},
        "workspaces_mib": {
            name: found[name].said["workspace_bytes"] / MIB for name in ("cublas", "cublaslt")
        },
        "date": date.today().isoformat(),
    }  # fmt: skip


def _used(meter: Meter, device: Device, ours: int) -> int:
    """What the card has in use, while no more than `ours` processes are on it."""
    reading = meter.read()
    if reading.device_used is None:
        reasons = "; ".join(f"{what}: {why}" for what, why in reading.missing.items())
        raise JobFailed(f"the driver does not say how much of the card is in use ({reasons})")
    found = sorted(reading.processes or {})
    if len(found) > ours:
        pids = ", ".join(map(str, found))
        raise NoSuchDevice(f"{device.name} is in use (processes {pids}): calibrate it when nothing else runs on it")
    return reading.device_used
