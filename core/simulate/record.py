"""A replay as a run folder: phases, events, samples, tensors, in the schemas of a measured run.

What takes how long cannot be known without the card, so each phase and each pass lasts one second, and the events in it
are spread evenly: the steps are what such a run is laid over others by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.runfolder.jsonio import JsonLines, write_json
from core.runfolder.layout import RunFolder
from core.runfolder.steps import step_at
from core.runfolder.tables import EVENTS, SAMPLES, TableWriter
from core.simulate.job import Traced
from core.simulate.replay import Level, Replay

SECOND = 1_000_000_000
INSIDE = 0.5
"""An event lies behind the edge at its position, where the counters were read."""


def write_folder(folder: RunFolder, traced: Traced, done: Replay, t0_ns: int) -> Times:
    """Write everything but result.json; returns when what happened. Raises OSError when the disk refuses."""
    rows = phase_rows(traced, done, t0_ns)
    lines = JsonLines(folder.phases)
    for row in rows:
        lines.append(row)
    lines.close()
    times = Times(rows)
    _write_events(folder, traced, done, rows, times)
    _write_samples(folder, done, times)
    _write_tensors(folder, traced, done, times)
    return times


def phase_rows(traced: Traced, done: Replay, t0_ns: int) -> list[dict[str, Any]]:
    """One row a phase, each a second long; `position_start` and `position_end` place it among the events."""
    edges = [level for level in done.levels if level.mark.kind in ("phase", "step", "end")]
    last = _last_level(traced, done)
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    step = 0
    for number, level in enumerate(edges):
        if level.mark.kind == "end":
            break
        after = edges[number + 1] if number + 1 < len(edges) else last
        name = "decode" if level.mark.kind == "step" else level.mark.name
        passes = 1 if name in ("prefill", "decode") else 0
        start = t0_ns + len(rows) * SECOND
        rows.append(
            {
                "name": name,
                "index": counts.get(name, 0),
                "t_start": start,
                "t_end": start + SECOND,
                "step_start": step,
                "step_end": step + passes,
                "allocated_start": level.allocated,
                "reserved_start": level.reserved,
                "allocated_end": after.allocated,
                "reserved_end": after.reserved,
                "peak_allocated": after.peak_allocated,
                "peak_reserved": after.peak_reserved,
                "position_start": level.mark.position,
                "position_end": after.mark.position,
            }
        )
        counts[name] = counts.get(name, 0) + 1
        step += passes
    return rows


def _last_level(traced: Traced, done: Replay) -> Level:
    """Where the replay ended: at the failure, if there was one."""
    allocator, position = done.allocator, len(traced.stream.events)
    if done.failure is not None:
        position = done.failure.position
    mark = done.levels[-1].mark._replace(position=position)
    return Level(
        mark,
        allocator.allocated,
        allocator.reserved,
        allocator.peak_allocated,
        allocator.peak_reserved,
        done.driver.used,
    )


class Times:
    """The time at each position among the events."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        positions: list[float] = []
        times: list[float] = []
        for row in rows:
            # a phase without events still has its second
            positions += [row["position_start"], max(row["position_end"], row["position_start"] + 1e-6)]
            times += [row["t_start"], row["t_end"] - 1]
        order = np.argsort(np.asarray(positions), kind="stable")
        self._positions, self._times = np.asarray(positions)[order], np.asarray(times, dtype=np.float64)[order]

    def at(self, positions: NDArray[Any]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.interp(positions, self._positions, self._times).astype(np.int64)
        return found


def _write_events(folder: RunFolder, traced: Traced, done: Replay, rows: list[dict[str, Any]], times: Times) -> None:
    stream, allocator = traced.stream, done.allocator
    end = done.failure.position if done.failure else len(stream.events)
    events = np.asarray(stream.events[:end], dtype=np.int64)
    is_alloc = events >= 0
    number = np.where(is_alloc, np.cumsum(is_alloc) - 1, ~events)
    addresses = np.zeros(len(stream.sites), dtype=np.uint64)
    addresses[done.numbers] = np.asarray(allocator.addresses, dtype=np.uint64)
    sizes = np.zeros(len(stream.sites), dtype=np.int64)
    sizes[number[is_alloc]] = events[is_alloc]
    kept = np.isin(number, done.numbers) if len(done.numbers) < len(stream.sites) else np.ones(len(events), dtype=bool)
    position = np.flatnonzero(kept)
    number, is_alloc = number[kept], is_alloc[kept]
    sites = np.asarray(stream.sites, dtype=np.int64)[number]
    columns = {
        "position": position.astype(np.float64),
        "action": np.where(is_alloc, "alloc", "free"),
        "addr": addresses[number],
        "size": sizes[number],
        "place": np.where(is_alloc, sites, -1),
    }
    table = _with_segments(columns, done, position[is_alloc])
    if done.failure is not None and done.failure.number is not None:
        table["place"][-1:] = stream.sites[done.failure.number] if done.failure.number < len(stream.sites) else -1
    t_ns = times.at(table["position"] + INSIDE)
    places = table["place"].astype(np.int32)
    origins = [_origin(place.op, place.origin) for place in stream.places]
    modules = [place.module for place in stream.places]
    written = pa.table(
        {
            "t_ns": t_ns,
            "step": step_at(rows, t_ns),
            "action": pa.array(table["action"]).dictionary_encode(),
            "addr": pa.array(table["addr"], pa.uint64()),
            "size": table["size"],
            "stream": np.zeros(len(t_ns), dtype=np.uint64),
            "category": pa.nulls(len(t_ns), pa.string()).dictionary_encode(),
            "origin": pa.array(
                [origins[p] if p >= 0 else None for p in places.tolist()], pa.string()
            ).dictionary_encode(),
            "module": pa.array(
                [modules[p] if p >= 0 else None for p in places.tolist()], pa.string()
            ).dictionary_encode(),
        }
    )
    with TableWriter(folder.events, EVENTS, compression="zstd") as writer:
        writer.write_table(written)


def _origin(op: str, frames: str | None) -> str | None:
    return frames or (op if op else None)


def _with_segments(
    columns: dict[str, NDArray[Any]], done: Replay, alloc_at: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """The events with those of the segments before the allocations that caused them, and the failure at the end."""
    segments = done.allocator.segments
    failed = done.failure.position if done.failure else None
    last = float(failed if failed is not None else columns["position"][-1] if len(columns["position"]) else 0)
    at = [float(alloc_at[s.before]) if s.before < len(alloc_at) else last for s in segments]
    extra: dict[str, list[Any]] = {
        "position": at,
        "action": [s.action for s in segments],
        "addr": [s.address for s in segments],
        "size": [s.size for s in segments],
        "place": [-1] * len(segments),
    }
    if done.failure is not None and done.failure.number is not None:
        for name, value in (
            ("position", last),
            ("action", "oom"),
            ("addr", 0),
            ("size", done.failure.asked),
            ("place", -1),
        ):
            extra[name].append(value)
    order = np.argsort(np.concatenate([np.asarray(extra["position"]) - 0.5, columns["position"]]), kind="stable")
    return {
        name: np.concatenate([np.asarray(extra[name], dtype=None if name == "action" else column.dtype), column])[order]
        for name, column in columns.items()
    }


def _write_samples(folder: RunFolder, done: Replay, times: Times) -> None:
    """What the card has in use after each change; nobody else is on it."""
    changes: list[tuple[float, int]] = [(float(position), size) for position, _, size in done.outside]
    sign = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    allocations = np.asarray(done.alloc_positions, dtype=np.float64)
    for segment in done.allocator.segments:
        at = allocations[segment.before] if segment.before < len(allocations) else done.last_position
        changes.append((float(at) + INSIDE, sign[segment.action] * segment.size))
    changes.sort(key=lambda change: change[0])
    positions = np.asarray([0.0, *(position for position, _ in changes), float(done.last_position)])
    used = np.cumsum(np.asarray([0, *(size for _, size in changes), 0], dtype=np.int64))
    t_ns = times.at(positions)
    keep = np.append(t_ns[1:] != t_ns[:-1], True)  # of several changes at one moment the last stands
    count = int(keep.sum())
    nothing = np.zeros(count, dtype=np.int64)
    table = pa.table(
        {
            "t_ns": t_ns[keep],
            "device_used": used[keep],
            "process_used": used[keep],
            "other_processes_used": nothing,
            "host_rss": pa.nulls(count, pa.int64()),
        }
    )
    with TableWriter(folder.samples, SAMPLES) as writer:
        writer.write_table(table)


def _write_tensors(folder: RunFolder, traced: Traced, done: Replay, times: Times) -> None:
    """Which address belongs to which parameter: those of the model as it was loaded."""
    address = dict(zip(done.numbers, done.allocator.addresses, strict=False))
    loaded = next((level for level in done.levels if level.mark.name in ("wrap", "inputs")), None)
    if loaded is None:
        return
    t_ns = int(times.at(np.asarray([float(loaded.mark.position)]))[0])
    tensors = [
        {"name": name, "kind": kind, "data_ptr": address[number], "storage_bytes": size, "t_ns": t_ns}
        for name, kind, number, size in traced.tensors
        if number in address
    ]
    write_json(folder.tensors, {"tensors": tensors})


def facts(traced: Traced, done: Replay, times: Times) -> dict[str, Any]:
    """What result.json says of a simulation beside its peaks; `outside`: what lies outside the pool, and since when."""
    return {
        "extended_steps": traced.extended_steps,
        "retries": done.allocator.retries,
        "outside": [
            {"name": name, "bytes": size, "t_ns": int(times.at(np.asarray([float(position)]))[0])}
            for position, name, size in done.outside
        ],
    }
