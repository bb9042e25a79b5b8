"""What lies on the card outside PyTorch's pool at an instant, by the driver's figures and the phases they grew in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.trace.trace import Series, Trace


@dataclass(frozen=True)
class Outside:
    """Bytes by category, and what has to be said of them."""

    terms: dict[str, int]
    notes: tuple[str, ...] = ()


def value_at(series: Series | None, t_ns: int) -> float | None:
    """The last known value up to `t_ns`, else the first after it; None where there is none."""
    if series is None or not len(series.t_ns):
        return None
    known = np.flatnonzero(~np.isnan(series.values))
    if not len(known):
        return None
    at = int(np.searchsorted(series.t_ns[known], t_ns, side="right")) - 1
    return float(series.values[known[max(at, 0)]])


def outside_pool(trace: Trace, t_ns: int) -> Outside | None:
    """What is on the card at `t_ns` beside the pool; None where the card was not sampled."""
    samples = trace.series.get("device_used")
    device = value_at(samples, t_ns)
    if device is None or samples is None:
        return None
    moment = _moment(samples, trace.series.get("reserved"), t_ns)
    device = value_at(samples, moment) or device
    reserved = value_at(trace.series.get("reserved"), moment) or 0
    process, others = (value_at(trace.series.get(name), moment) for name in ("process_used", "other_processes_used"))
    if process is None:
        baseline = int(trace.device.get("baseline_used") or 0)
        terms = {"non_torch": int(device - baseline - reserved), "other_processes": baseline}
        return Outside(terms, ("the driver does not tell who holds what: non-torch is what the card's use grew by",))
    terms = {"other_processes": int(others or 0), "driver": int(device - process - (others or 0))}
    if trace.simulated:
        return Outside(terms | _simulated(trace, moment))
    return Outside(terms | _inside_process(trace, moment, int(process - reserved)))


SETTLED_NS = 3_000_000
"""A sample is a few calls to the driver, which take up to a millisecond or two while a job allocates (H200)."""


def _moment(samples: Series, reserved: Series | None, t_ns: int) -> int:
    """The sample that tells what is outside the pool at `t_ns`: one of that time, else the nearest settled one.

    Settled: the pool kept its size around it. What a sample shows of a pool that moves is not of one moment, and the
    pool's own events would be subtracted from the wrong one.
    """
    at = max(int(np.searchsorted(samples.t_ns, t_ns, side="right")) - 1, 0)
    if samples.t_ns[at] == t_ns or reserved is None or len(reserved.t_ns) < 2:
        return int(samples.t_ns[at])
    moves = reserved.t_ns[np.flatnonzero(np.diff(reserved.values)) + 1]
    first, last = (np.searchsorted(moves, samples.t_ns + way * SETTLED_NS) for way in (-1, 1))
    settled = samples.t_ns[(first == last) & ~np.isnan(samples.values)]
    if not len(settled):
        return int(samples.t_ns[at])
    return int(settled[int(np.argmin(np.abs(settled - t_ns)))])


LIBRARIES = {"CUDA context": "cuda_context", "NCCL": "nccl", "DeepSpeed workspace": "deepspeed_workspace"}
"""What a simulation calls them, and the category; everything else is `libraries`."""


def _simulated(trace: Trace, t_ns: int) -> dict[str, int]:
    """A simulation knows what it took, and when."""
    terms: dict[str, int] = {}
    for taken in (trace.result.get("simulated") or {}).get("outside", []):
        if taken["t_ns"] <= t_ns:
            key = LIBRARIES.get(taken["name"], "libraries")
            terms[key] = terms.get(key, 0) + int(taken["bytes"])
    return terms


def _inside_process(trace: Trace, t_ns: int, non_torch: int) -> dict[str, int]:
    """Split what a process holds outside the pool by the phases in which it grew. Sums to `non_torch`."""
    left, terms = non_torch, {}
    workspace = ((trace.result.get("deepspeed") or {}).get("workspace") or {}).get("taken_bytes")
    if workspace and left >= workspace:
        terms["deepspeed_workspace"] = int(workspace)
        left -= int(workspace)
    nccl = (
        sum(_growth(trace, name, t_ns) for name in ("process group", "wrap")) if trace.spec.get("wrap") == "ddp" else 0
    )
    if 0 < nccl <= left:
        terms["nccl"] = nccl
        left -= nccl
    context = _level(trace, "device context", t_ns)
    if context is None or context > left:
        return terms | {"non_torch": left}
    return terms | {"cuda_context": context, "libraries": left - context}


def _level(trace: Trace, phase: str, t_ns: int) -> int | None:
    """Non-torch memory when `phase` ended, None if it has not by `t_ns`."""
    ended = next((p.t_end for p in trace.phases if p.name == phase and p.t_end and p.t_end <= t_ns), None)
    return None if ended is None else _non_torch_after(trace, ended)


def _growth(trace: Trace, phase: str, t_ns: int) -> int:
    found = next((p for p in trace.phases if p.name == phase and p.t_end and p.t_end <= t_ns), None)
    if found is None or found.t_end is None:
        return 0
    before, after = _non_torch_after(trace, found.t_start), _non_torch_after(trace, found.t_end)
    return max(0, (after or 0) - (before or 0))


def _non_torch_after(trace: Trace, t_ns: int) -> int | None:
    """Process used minus reserved at the first sample from `t_ns` on."""
    process = trace.series.get("process_used")
    if process is None:
        return None
    at = int(np.searchsorted(process.t_ns, t_ns, side="left"))
    if at >= len(process.t_ns) or np.isnan(process.values[at]):
        return None
    reserved = value_at(trace.series.get("reserved"), int(process.t_ns[at])) or 0
    return int(process.values[at] - reserved)
