"""Findings about the card outside PyTorch's pool."""

from __future__ import annotations

import numpy as np

from core.explain.findings.finding import Case, Finding, said
from core.explain.findings.pool import LEAST, SHARE
from core.explain.outside import value_at
from core.spec.architecture import Architecture
from core.spec.deepspeed_workspace import sizing


def greedy_workspace(case: Case) -> Finding | None:
    """DeepSpeed's workspace, sized from the memory that was free rather than from what the job needs."""
    facts = case.evidence.trace.result.get("deepspeed") or {}
    taken = (facts.get("workspace") or {}).get("taken_bytes") or 0
    tokens = (facts.get("banner") or {}).get("max_tokens")
    needed = int(case.spec["prompt_tokens"]) + int(case.spec["new_tokens"])
    if taken < LEAST or not tokens or tokens <= needed:
        return None
    cured = _with(case, needed)
    free = (facts.get("workspace") or {}).get("free_bytes")
    return case.finding(
        "deepspeed_workspace",
        f"DeepSpeed took {said(taken)} as one workspace, room for {tokens} tokens a row, because {said(free or 0)} "
        f"were free; this job has {needed}.",
        taken,
        {"max_out_tokens": needed},
        f"max_out_tokens={needed} makes it {said(cured)}" if cured else "",
        _taken_at(case, taken),
    )


def _with(case: Case, tokens: int) -> int | None:
    """Bytes of the workspace with another max_out_tokens, and the same memory free."""
    facts = case.evidence.trace.result["deepspeed"]
    architecture = Architecture.from_config(case.evidence.config)
    free = (facts.get("workspace") or {}).get("free_bytes")
    if architecture is None or free is None or case.spec["dtype"] not in ("bf16", "fp16", "fp32"):
        return None
    cured = sizing(
        batch_size=int(case.spec["batch_size"]),
        hidden_size=architecture.hidden,
        heads=architecture.heads,
        layers=architecture.layers,
        dtype=str(case.spec["dtype"]),
        max_out_tokens=tokens,
        external_cache=architecture.model_type == "bloom",
    )
    return cured.at(free).size


def _taken_at(case: Case, taken: int) -> int:
    """When the card's use jumped by the workspace: the first sample of the prefill that has it."""
    trace = case.evidence.trace
    prefill = next((p for p in trace.phases if p.name == "prefill"), None)
    process = trace.series.get("process_used")
    if prefill is None or process is None:
        return case.breakdown.t_ns
    before = value_at(process, prefill.t_start) or 0
    later = np.flatnonzero((process.t_ns >= prefill.t_start) & (process.values >= before + 0.9 * taken))
    return int(process.t_ns[later[0]]) if len(later) else prefill.t_start


def cached_at_sizing(case: Case) -> Finding | None:
    """Blocks in PyTorch's cache when the workspace was sized: DeepSpeed saw them as taken."""
    facts = case.evidence.trace.result.get("deepspeed") or {}
    prefill = next((p for p in case.evidence.trace.phases if p.name == "prefill"), None)
    if not facts.get("workspace") or prefill is None:
        return None
    series = case.evidence.trace.series
    reserved, allocated = (value_at(series.get(name), prefill.t_start) for name in ("reserved", "allocated"))
    cached = int((reserved or 0) - (allocated or 0))
    if cached < 0.02 * case.breakdown.total:
        return None
    why = {"ddp": "left over from DDP's broadcast of the parameters"}.get(str(case.spec.get("wrap")), "freed before")
    return case.finding(
        "cached_at_sizing",
        f"PyTorch held {said(cached)} of cached blocks, {why}, when DeepSpeed looked how much memory was free. "
        "DeepSpeed took that much less, and PyTorch can give those blocks back to the driver when it needs room.",
        cached,
        t_ns=prefill.t_start,
    )


def outside_pytorch(case: Case) -> Finding | None:
    """Much memory of this process that PyTorch's counters do not show."""
    keys = ("cuda_context", "libraries", "nccl", "non_torch")
    size = sum(case.terms.get(key, 0) for key in keys)
    if size < max(4 * LEAST, SHARE * case.breakdown.total):
        return None
    return case.finding(
        "outside_pytorch",
        f"{said(size)} of this process lie outside PyTorch's pool (context, kernels, NCCL): torch.cuda's figures do "
        "not include them.",
        size,
    )


def other_process(case: Case) -> Finding | None:
    """Somebody else on the card."""
    size = case.terms.get("other_processes", 0)
    if size < LEAST:
        return None
    return case.finding(
        "other_process", f"Other processes hold {said(size)} of this card.", size, advice="nvidia-smi lists them"
    )


def missed_by_a_sampler(case: Case) -> Finding | None:
    """A peak so short that polling nvidia-smi would not show it."""
    trace = case.evidence.trace
    series, interval_ms = trace.series.get("allocated"), trace.spec.get("record_interval_ms") or 10.0
    if series is None or len(series.values) < 3 or not case.evidence.has_events or trace.simulated:
        return None
    top = float(np.nanmax(series.values))
    high = series.values >= top - max(LEAST, 0.01 * top)
    lasts_ns = int(np.sum(np.diff(series.t_ns)[high[:-1]]))
    usual = float(np.nanmax(np.where(high, 0, series.values)))
    if lasts_ns > float(interval_ms) * 1e6 or top - usual < 2 * LEAST:
        return None
    return case.finding(
        "short_peak",
        f"The peak of {said(top)} in tensors lasted {lasts_ns / 1e6:.1f} ms, {said(top - usual)} above any longer: "
        f"a poll every {interval_ms:g} ms can miss it, torch's counter cannot.",
        int(top - usual),
        t_ns=int(series.t_ns[int(np.nanargmax(series.values))]),
    )
