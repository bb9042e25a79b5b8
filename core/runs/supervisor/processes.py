"""Starting the processes of a run, and ending every one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from core.devices.process import same_process
from core.runfolder.layout import RUN_TAG, SAMPLER_TAG, RunFolder
from core.runs.environment import PROJECT_ROOT, child_environment, hub_tokens, own_environment
from core.spec.cards import PREFIX
from core.spec.rules import folder_of

NICE = 10
"""Of workers that compute on the processor: the pages and the samplers come first."""


def worker_environment(spec: Mapping[str, Any], run_id: str, overlays: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment of a run's worker: one visible card, its tag, its allocator settings."""
    device = str(spec["device"])
    environment = child_environment(*overlays) | {
        RUN_TAG: run_id,
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": device.removeprefix("cuda:") if device.startswith("cuda:") else "",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    if spec.get("weights") == "load" and folder_of(str(spec["model"])) is None:
        environment |= hub_tokens()  # the only runs that ask the hub for anything
    if spec.get("allocator") and not device.startswith(PREFIX):  # a simulation has a model of it
        # the name that torch 2.9 and later prefer, and the one that all read
        environment |= {"PYTORCH_ALLOC_CONF": spec["allocator"], "PYTORCH_CUDA_ALLOC_CONF": spec["allocator"]}
    return environment


def start_worker(
    folder: RunFolder, interpreter: str, environment: dict[str, str], module: str = "core.worker"
) -> subprocess.Popen[bytes]:
    """Popen, not multiprocessing: that would execute the caller's script again. In a session of its own."""
    with folder.stdout.open("ab") as out, folder.stderr.open("ab") as err:
        worker = subprocess.Popen(
            [interpreter, "-m", module, str(folder.root)],
            cwd=folder.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    if not environment["CUDA_VISIBLE_DEVICES"]:
        try:
            os.setpriority(os.PRIO_PROCESS, worker.pid, NICE)
        except OSError:
            pass  # it has ended already
    return worker


def start_sampler(folder: RunFolder, device_id: str, interval_ms: float) -> subprocess.Popen[bytes]:
    """The sampler of a run, outside the worker's session: it outlives the worker by a moment."""
    command = [sys.executable, "-m", "core.sampler", str(folder.root), device_id, str(interval_ms)]
    return _beside_the_worker(folder, command, own_environment() | {SAMPLER_TAG: folder.run_id})


def start_holder(folder: RunFolder, device_id: str, capacity_mib: int) -> subprocess.Popen[bytes]:
    """The process that makes the run's card look smaller. It ends with the worker; see core.holder."""
    environment = child_environment() | {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": device_id.removeprefix("cuda:"),
    }
    command = [sys.executable, "-m", "core.holder", str(folder.root), device_id, str(capacity_mib)]
    return _beside_the_worker(folder, command, environment)


def _beside_the_worker(folder: RunFolder, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with folder.sampler_log.open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=PROJECT_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def tagged(run_id: str, tag: str = RUN_TAG) -> Iterator[psutil.Process]:
    """Every live process that carries the run's tag in its environment, whoever its parent is now."""
    needle = f"\0{tag}={run_id}\0".encode()
    for pid in psutil.pids():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue  # ended meanwhile, or another user's
        if needle in b"\0" + environ + b"\0":
            process = same_process(pid, None)
            if process:
                yield process


def end_tree(pid: int | None, run_id: str, hard: bool) -> None:
    """Signal the worker's process group and, when `hard`, everything that carries the run's tag.

    SIGTERM first lets Python children end; SIGKILL reaches what ignores it or left the group.
    """
    signum = signal.SIGKILL if hard else signal.SIGTERM
    if pid:
        try:
            os.killpg(pid, signum)
        except (ProcessLookupError, PermissionError):
            pass  # gone already
    if hard:
        sweep(run_id)


def sweep(run_id: str, tag: str = RUN_TAG) -> list[int]:
    """Kill everything that carries the tag; the pids of those that were there, and may be for a moment yet."""
    found = []
    for process in tagged(run_id, tag):
        found.append(process.pid)
        try:
            process.kill()
        except psutil.Error:
            pass  # gone between the look and the signal
    return found
