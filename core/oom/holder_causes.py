"""Causes that follow from who holds the card."""

from __future__ import annotations

from collections.abc import Iterator

from core.oom.account import CONTEXT, fragmentation_possible, refused_although_free
from core.oom.case import Case, Cause
from core.plots.units import GIB, size


def holder_causes(case: Case) -> Iterator[Cause]:
    """Of what holds the card: other processes, libraries, PyTorch's own cache in pieces."""
    error, holders = case.error, case.holders
    if (
        refused_although_free(error)
        or error.backend == "deepspeed"
        or error.kind in ("memory_summary", "cuda_malloc_async")
    ):
        return
    if holders.other_processes is not None:
        share = holders.share(holders.other_processes)
        short = max(0, (error.requested_bytes or 0) - (holders.free or 0))
        alone = holders.total is None and holders.other_processes > 2 * GIB
        if share >= 0.25 or alone:
            yield Cause(
                "other_process_holds_card", 86, f"Other processes hold {size(holders.other_processes)} of the card."
            )
        elif share >= 0.03 and holders.other_processes >= short:
            yield Cause(
                "other_process_holds_card",
                50 + 60 * share,
                f"Other processes hold {size(holders.other_processes)}: without them the request would have fitted.",
            )
    beyond = (holders.unaccounted or 0) - CONTEXT
    if holders.unaccounted is not None and error.process_bytes is None and beyond > GIB:
        yield from _unaccounted(case, holders.share(beyond))
    elif (
        holders.non_torch is not None and holders.non_torch - CONTEXT > GIB and holders.share(holders.non_torch) > 0.06
    ):
        yield from _outside_torch(case, f"This process holds {size(holders.non_torch)} beside PyTorch's pool")
    if fragmentation_possible(error, holders):
        part = holders.share(holders.cache)
        mended = "expandable_segments" in (case.facts.allocator or "")  # that puts cached pieces together
        yield Cause(
            "fragmentation",
            44 if mended or part < 0.01 else 75 if part >= 0.08 else 58,
            f"{size(error.requested_bytes)} are less than what is free ({size(holders.free)}) and "
            f"cached ({size(holders.cache)}) "
            "together, but no single piece is that large.",
        )


def _unaccounted(case: Case, share: float) -> Iterator[Cause]:
    told = f"{size(case.holders.unaccounted)} of the card are neither free nor PyTorch's"
    hog = case.facts.injects or (case.facts.tp_size or 1) > 1
    if share < 0.05:
        yield Cause("non_torch_memory_fills_card", 44, f"{told}.")
        return
    if hog:
        yield from _outside_torch(case, told)
    else:
        yield Cause("non_torch_memory_fills_card", 46 if share >= 0.2 else 60, f"{told}.")
    weight = 64 if hog else 76 if share >= 0.2 else 65
    yield Cause("other_process_holds_card", weight, f"{told}: another process holds them, or a library in this one.")


def _outside_torch(case: Case, told: str) -> Iterator[Cause]:
    yield Cause("non_torch_memory_fills_card", 76, f"{told}: libraries take memory from the driver themselves.")
    if case.facts.injects:
        yield Cause(
            "deepspeed_workspace", 72, f"{told}: DeepSpeed's workspace is one cudaMalloc of nearly all that was free."
        )
    if (case.facts.tp_size or 1) > 1 or case.facts.wrap == "ddp":
        yield Cause("nccl_outside_allocator", 69, f"{told}: NCCL's buffers of several ranks are part of it.")
