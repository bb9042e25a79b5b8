"""The allocator's history as a snapshot that pytorch.org/memory_viz and torch.cuda._memory_viz read.

Source of the format: torch/cuda/memory.py (`_snapshot`) and torch/cuda/_memory_viz.py.
"""

from __future__ import annotations

import pickle
import re
from typing import Any, BinaryIO

from core.explain.blocks import segments_at
from core.explain.evidence import NEVER, Evidence
from core.runfolder.tables import codes_of
from core.spec.errors import InvalidSpec

ACTIONS = {"free": "free_completed"}
"""Names of events that torch calls otherwise."""

_FRAME = re.compile(r"(.+) \((.+):(\d+)\)")


def write_memory_viz(evidence: Evidence, stream: BinaryIO) -> int:
    """Write the snapshot of one run; returns the number of its events.

    Raises InvalidSpec for a run without the allocator's history.
    """
    if not evidence.has_events:
        raise InvalidSpec(
            f"{evidence.trace.run_id} has no allocator history: it is recorded on a card, with record_history=true"
        )
    trace = _trace(evidence)
    snapshot = {
        "segments": _segments(evidence),
        "device_traces": [trace],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": str(evidence.trace.spec.get("allocator") or "")},
        "external_annotations": [],
    }
    pickle.dump(snapshot, stream, protocol=4)
    return len(trace)


def _trace(evidence: Evidence) -> list[dict[str, Any]]:
    columns = evidence.events.select(["addr", "size", "stream", "origin", "module"]).to_pydict()
    known: dict[str | None, list[dict[str, Any]]] = {}
    entries = []
    codes, names = codes_of(evidence.events["action"])
    for position, code in enumerate(codes.tolist()):
        action = names[code]
        origin = columns["origin"][position] or columns["module"][position]
        entry = {
            "action": ACTIONS.get(action, action),
            "addr": columns["addr"][position] or 0,
            "size": columns["size"][position],
            "stream": columns["stream"][position] or 0,
            "time_us": int(evidence.t_ns[position]) // 1000,
            "frames": known.setdefault(origin, _frames(origin)),
        }
        if action == "oom":
            entry["device_free"] = 0
        if action == "free":
            entries.append({**entry, "action": "free_requested"})  # the viewer pairs the two
        entries.append(entry)
    return entries


def _frames(origin: str | None) -> list[dict[str, Any]]:
    frames = []
    for part in (origin or "").split(" < "):
        found = _FRAME.fullmatch(part)
        if found:
            frames.append({"name": found.group(1), "filename": found.group(2), "line": int(found.group(3))})
        elif part:
            frames.append({"name": part, "filename": "module", "line": 0})
    return frames


def _segments(evidence: Evidence) -> list[dict[str, Any]]:
    """The pool as the history leaves it: segments that were not given back, with the blocks in them."""
    blocks = evidence.blocks
    living = [i for i in range(len(blocks.died)) if blocks.died[i] == NEVER]
    segments = []
    for start, length in segments_at(evidence, evidence.events.num_rows):
        inside = sorted(
            (int(blocks.addr[i]), int(blocks.size[i])) for i in living if start <= blocks.addr[i] < start + length
        )
        segments.append(_segment(start, length, inside))
    return segments


def _segment(start: int, length: int, inside: list[tuple[int, int]]) -> dict[str, Any]:
    blocks, at = [], start
    for addr, size in inside:
        if addr > at:
            blocks.append({"address": at, "size": addr - at, "requested_size": 0, "state": "inactive", "frames": []})
        blocks.append(
            {"address": addr, "size": size, "requested_size": size, "state": "active_allocated", "frames": []}
        )
        at = addr + size
    if at < start + length:
        blocks.append(
            {"address": at, "size": start + length - at, "requested_size": 0, "state": "inactive", "frames": []}
        )
    active = sum(size for _, size in inside)
    return {
        "device": 0,
        "address": start,
        "total_size": length,
        "allocated_size": active,
        "active_size": active,
        "requested_size": active,
        "stream": 0,
        "segment_type": "large" if length > 2 * 2**20 else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }
