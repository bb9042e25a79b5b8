"""How often the kernel has killed for want of host memory in this process's control group."""

from __future__ import annotations

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MINE = Path("/proc/self/cgroup")


def memory_kills(mine: Path = MINE, root: Path = CGROUPS) -> int | None:
    """The control group's count of out-of-memory kills (version 2: memory.events, version 1: memory.oom_control).

    None where no such counter can be read: then nobody can say that a SIGKILL was one of those.
    """
    try:
        lines = mine.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        below = path.lstrip("/")
        if not controllers:
            places = [root / below / "memory.events", root / "unified" / below / "memory.events"]
        elif "memory" in controllers.split(","):
            # inside a container the group's path is the host's, while its files lie at the root
            places = [root / "memory" / below / "memory.oom_control", root / "memory" / "memory.oom_control"]
        else:
            continue
        for place in places:
            count = _count(place)
            if count is not None:
                return count
    return None


def _count(place: Path) -> int | None:
    try:
        for line in place.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except (OSError, ValueError):
        pass  # another layout, or another kernel
    return None
