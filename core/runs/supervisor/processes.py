"""Starting the two processes of a run, and ending every process of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from core.runfolder.layout import RUN_TAG, RunFolder
from core.runs.start import PROJECT_ROOT
from core.spec.cards import CARDS_VARIABLE, PREFIX

PASSED_ON = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH", "CUDA_HOME",
    "CUDA_PATH", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN", "XDG_CACHE_HOME", "TORCH_CUDA_ARCH_LIST",
    "TORCH_EXTENSIONS_DIR", "MAX_JOBS", "CC", "CXX", "OMP_NUM_THREADS", "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
)  # fmt: skip
"""What a worker inherits: enough to find programs, caches and compilers, and no secret but the hub's token."""


def overlay_path(overlays: tuple[str, ...]) -> dict[str, str]:
    """The environment in which a Python finds the project, and the overlays before its own packages."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return passed_on | {"PYTHONPATH": os.pathsep.join((*overlays, str(PROJECT_ROOT))), "PYTHONSAFEPATH": "1"}


def worker_environment(spec: Mapping[str, Any], run_id: str, overlays: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment of a run's worker: one visible card, its tag, its allocator settings."""
    device = str(spec["device"])
    environment = overlay_path(overlays) | {
        RUN_TAG: run_id,
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": device.removeprefix("cuda:") if device.startswith("cuda:") else "",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    if CARDS_VARIABLE in os.environ:
        environment[CARDS_VARIABLE] = os.environ[CARDS_VARIABLE]
    if spec.get("allocator") and not device.startswith(PREFIX):  # a simulation has a model of it
        # the name that torch 2.9 and later prefer, and the one that all read
        environment |= {"PYTORCH_ALLOC_CONF": spec["allocator"], "PYTORCH_CUDA_ALLOC_CONF": spec["allocator"]}
    return environment


def start_worker(
    folder: RunFolder, interpreter: str, environment: dict[str, str], module: str = "core.worker"
) -> subprocess.Popen[bytes]:
    """Popen, not multiprocessing: that would execute the caller's script again. In a session of its own."""
    with folder.stdout.open("ab") as out, folder.stderr.open("ab") as err:
        return subprocess.Popen(
            [interpreter, "-m", module, str(folder.root)],
            cwd=folder.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def start_sampler(folder: RunFolder, device_id: str, interval_ms: float) -> subprocess.Popen[bytes]:
    """The sampler of a run, outside the worker's session: it outlives the worker by a moment."""
    with folder.sampler_log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "core.sampler", str(folder.root), device_id, str(interval_ms)],
            cwd=PROJECT_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def start_holder(folder: RunFolder, device_id: str, capacity_mib: int) -> subprocess.Popen[bytes]:
    """The process that makes the run's card look smaller. It ends with the worker; see core.holder."""
    environment = overlay_path(()) | {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": device_id.removeprefix("cuda:"),
    }
    with folder.sampler_log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "core.holder", str(folder.root), device_id, str(capacity_mib)],
            cwd=PROJECT_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def same_process(pid: int | None, create_time: float | None) -> psutil.Process | None:
    """The live process with this pid, unless the pid was given to another one since. A zombie is not alive."""
    if not pid:
        return None
    try:
        process = psutil.Process(pid)
        if create_time is not None and abs(process.create_time() - create_time) > 1:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.Error:
        return None


def tagged(run_id: str) -> Iterator[psutil.Process]:
    """Every live process that carries the run's tag in its environment, whoever its parent is now."""
    needle = f"{RUN_TAG}={run_id}\0".encode()
    for pid in psutil.pids():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue  # ended meanwhile, or another user's
        if needle in environ + b"\0":
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
        for process in tagged(run_id):
            try:
                process.kill()
            except psutil.Error:
                pass  # gone between the look and the signal
