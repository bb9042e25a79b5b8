"""Which process a pid means: a pid is given to another process when its own has ended, and a wall clock may jump."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import psutil


def identity(pid: int) -> str | None:
    """What tells the process with this pid from every other that had it or will have it; None where there is none.

    The boot's id and the clock ticks from boot to the process's start (`man proc_pid_stat`, starttime): neither moves
    with the wall clock. psutil's create_time does, since it adds the time of boot, which the kernel derives from it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return f"{_boot_id()}/{stat.rpartition(')')[2].split()[19]}"  # field 22; the name before may hold anything
    except (OSError, IndexError):
        return None if Path("/proc/self/stat").exists() else _without_proc(pid)


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _without_proc(pid: int) -> str | None:
    try:
        return f"{psutil.Process(pid).create_time():.0f}"
    except psutil.Error:
        return None


def same_process(pid: int | None, known: str | None) -> psutil.Process | None:
    """The live process with this pid, unless the pid was given to another one since. A zombie is not alive.

    `known`: its identity when it was started; None where that is not known, and any process with the pid will do.
    """
    if not pid or (known is not None and identity(pid) != known):
        return None
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.Error:
        return None
