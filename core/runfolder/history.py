"""torch's allocator history, as it pickled it, turned into the table of events.

The pickle holds plain lists, dictionaries, strings and numbers (torch/cuda/memory.py, `_snapshot`), so the unpickler
here refuses every global: a pickle that wants to call something is not such a history.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from core.runfolder.jsonio import read_json, read_json_lines
from core.runfolder.layout import RunFolder
from core.runfolder.modules import module_at
from core.runfolder.steps import step_at
from core.runfolder.tables import EVENTS, TableWriter

ACTIONS = {
    "alloc": "alloc",
    "free_completed": "free",
    "segment_alloc": "segment_alloc",
    "segment_free": "segment_free",
    "segment_map": "segment_map",
    "segment_unmap": "segment_unmap",
    "oom": "oom",
}
"""torch's actions that change what is allocated or reserved, and their names here.

`free_requested` is left out: the block goes back to the pool at `free_completed`, later where another stream uses it.
"""

OUTSIDE = ("/torch/", "/transformers/utils/", "/core/worker/", "<string>", "<frozen")
"""Parts of the paths of files whose frames say nothing about which tensor was wanted; see `is_outside`."""

FRAMES = 3

LEAST_JUMP_NS = 100_000_000
SLEW = 0.001
"""A wall clock that is corrected gently runs up to 0.05 % fast or slow (adjtimex); what is beyond was a jump."""


class _PlainData(pickle.Unpickler):
    """Loads a pickle of plain data; anything that names a global is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it wants {module}.{name}; a history is plain data")


def load_snapshot(path: Path) -> dict[str, Any]:
    """The snapshot at `path`. Raises ValueError when it is cut off, no such thing, or wants to run code."""
    try:
        with path.open("rb") as stream:
            snapshot = _PlainData(stream).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, MemoryError) as error:
        raise ValueError(f"{path.name} is not a history that torch wrote whole: {error}") from error
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise ValueError(f"{path.name} has no device_traces")
    return snapshot


def is_outside(file: str) -> bool:
    """Whether a file is one of torch's, of this project's or of transformers' own machinery.

    Only what comes after site-packages counts: an installation may lie in a folder that is called torch.
    """
    inside = "/" + file.rpartition("-packages/")[2]
    return any(part in inside for part in OUTSIDE)


def origin_of(frames: list[dict[str, Any]]) -> str | None:
    """`Llama.forward (modeling_llama.py:312) < …`: the innermost frames that say which tensor was wanted."""
    said = []
    for frame in frames:
        file = str(frame.get("filename", ""))
        if file.endswith(".py") and not is_outside(file):
            said.append(f"{frame.get('name')} ({Path(file).name}:{frame.get('line')})")
            if len(said) == FRAMES:
                break
    return " < ".join(said) or None


def events_table(
    trace: list[dict[str, Any]],
    clock: dict[str, list[int]],
    phases: list[dict[str, Any]],
    marks: dict[str, Any] | None = None,
) -> pa.Table:
    """The events of one device in order. `marks` are the module marks, where they were recorded.

    `clock` maps "start" and "end" to pairs (monotonic ns, wall ns): torch stamps events in wall-clock microseconds,
    which are mapped onto the monotonic clock by the line through the two pairs.
    """
    kept = [entry for entry in trace if entry["action"] in ACTIONS]
    wall_ns = np.fromiter((entry.get("time_us", 0) for entry in kept), dtype=np.int64, count=len(kept)) * 1000
    t_ns = _to_monotonic(wall_ns, clock)
    named: dict[int, str | None] = {}
    origins = []
    for entry in kept:
        frames = entry.get("frames") or []
        # torch shares one list among events with the same stack, and pickle keeps that: name each stack once
        key = id(frames)
        if key not in named:
            named[key] = origin_of(frames)
        origins.append(named[key])
    return pa.table(
        {
            "t_ns": t_ns,
            "step": step_at(phases, t_ns),
            "action": pa.array([ACTIONS[entry["action"]] for entry in kept]).dictionary_encode(),
            # an out-of-memory event has no address; it carries the bytes that were free on the device instead
            "addr": pa.array([entry.get("addr") for entry in kept], pa.uint64()),
            "size": pa.array([int(entry["size"]) for entry in kept], pa.int64()),
            "stream": pa.array([entry.get("stream") for entry in kept], pa.uint64()),
            "category": pa.nulls(len(kept), pa.string()).dictionary_encode(),
            "origin": pa.array(origins, pa.string()).dictionary_encode(),
            "module": pa.array(module_at(marks or {}, t_ns), pa.string()).dictionary_encode(),
        }
    )


def _to_monotonic(wall_ns: np.ndarray[Any, Any], clock: dict[str, list[int]]) -> np.ndarray[Any, Any]:
    (mono_0, wall_0), (mono_1, wall_1) = clock["start"], clock["end"]
    jump = (wall_1 - wall_0) - (mono_1 - mono_0)
    if abs(jump) > max(LEAST_JUMP_NS, SLEW * (mono_1 - mono_0)):
        # the wall clock was set meanwhile; where it moved by most nearly that much, the other reading takes over
        steps = np.diff(np.concatenate([[wall_0], wall_ns, [wall_1]]))
        after = np.arange(len(wall_ns)) >= int(np.argmin(np.abs(steps - jump)))
        return np.where(after, wall_ns - wall_1 + mono_1, wall_ns - wall_0 + mono_0)
    if wall_1 == wall_0:
        return wall_ns - wall_0 + mono_0
    # integers are split before they become floats: a wall clock in ns has more digits than a double
    pace = (mono_1 - mono_0) / (wall_1 - wall_0)
    return mono_0 + np.rint((wall_ns - wall_0) * pace).astype(np.int64)


def write_events(folder: RunFolder) -> int:
    """Write events.arrow from snapshot.pickle; returns the number of events.

    Raises ValueError when the snapshot or the result's clock is not usable, OSError when the disk refuses.
    """
    snapshot = load_snapshot(folder.snapshot)
    result = read_json(folder.result) or {}
    clock = result.get("clock")
    if not isinstance(clock, dict) or {"start", "end"} - set(clock):
        raise ValueError("the result has no clock readings to place the events by")
    trace: list[dict[str, Any]] = max(snapshot["device_traces"], key=len, default=[])
    table = events_table(trace, clock, read_json_lines(folder.phases), read_json(folder.modules))
    temporary = folder.events.with_name(f".{folder.events.name}.tmp")
    try:
        with TableWriter(temporary, EVENTS) as writer:
            writer.write_table(table)
        temporary.replace(folder.events)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return int(table.num_rows)
