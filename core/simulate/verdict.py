"""Whether one run would fit a card, and what it would hold at its peak: a simulated run without its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.simulate.errors import NotSimulated
from core.simulate.job import trace
from core.simulate.replay import Replay
from core.simulate.run import as_found, replayed
from core.spec.cards import Card


def verdict_of(spec: Mapping[str, Any], config_folder: Path, card: Card) -> dict[str, Any]:
    """`verdict`: fits, tight (it fits because the allocator gave cache back), oom, fails, or unknown with the reason.

    peak_device_used: bytes, up to the failure where there is one; None where it is unknown.
    """
    plain = dict(spec)
    try:
        traced = trace(plain, {"kind": "preset"}, config_folder, as_found(plain, card))
    except NotSimulated as error:
        return {"verdict": "unknown", "peak_device_used": None, "message": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a model's code raises: no number is shown for it
        return {"verdict": "unknown", "peak_device_used": None, "message": f"{type(error).__name__}: {error}"[:300]}
    done = replayed(plain, traced, card)
    failure = done.failure
    if failure is not None:
        kind = "oom" if failure.kind == "oom" else "fails"
        return {"verdict": kind, "peak_device_used": peak_of(done), "message": failure.message}
    tight = done.allocator.retries > 0
    return {"verdict": "tight" if tight else "fits", "peak_device_used": peak_of(done), "message": ""}


def peak_of(done: Replay) -> int:
    """The most that the process had of the card, in bytes: the pool by its segments, and what lies beside it."""
    sign = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    positions = done.alloc_positions
    changes = [(float(position), size) for position, _, size in done.outside]
    changes += [
        (
            float(positions[s.before] if s.before < len(positions) else done.last_position) + 0.5,
            sign[s.action] * s.size,
        )
        for s in done.allocator.segments
    ]
    changes.sort(key=lambda change: change[0])
    used = peak = 0
    for _, size in changes:
        used += size
        peak = max(peak, used)
    return peak
