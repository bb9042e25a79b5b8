"""Causes that follow from which component reports the failure."""

from __future__ import annotations

from collections.abc import Iterator

from core.oom.account import cublas_workspace_bytes
from core.oom.case import Case, Cause
from core.oom.error import OomError
from core.plots.units import size
from core.spec.deepspeed_workspace import least_left


def format_causes(case: Case) -> Iterator[Cause]:
    """Of errors whose wording alone says what failed, if not why."""
    kind, backend, facts = case.error.kind, case.error.backend, case.facts
    if kind == "nvml_assert":
        yield Cause(
            "oom_hidden_by_nvml_assert",
            85,
            "PyTorch was about to report an out-of-memory error and asked NVML for processes, which fails "
            "on a MIG slice, on Tegra and in some containers.",
        )
    elif backend == "deepspeed":
        yield from _deepspeed(case)
    elif backend == "nccl":
        asked = case.error.requested_bytes
        told = f"It asked for {asked:,} bytes: the card was simply full. " if asked and asked < 2**20 else ""
        yield Cause(
            "nccl_outside_allocator",
            70,
            f"NCCL takes its buffers from the driver, beside PyTorch's pool. {told}".strip(),
        )
    elif backend in ("cublas", "cudnn", "cusolver", "cusparse", "cufft") or kind in (
        "cuda_runtime",
        "cuda_runtime_old",
        "cuda_check",
        "hip_runtime",
        "hipblas",
    ):
        if facts.injects:
            yield Cause(
                "deepspeed_workspace",
                72,
                "DeepSpeed's kernels took nearly all free memory for their workspace, which leaves a library nothing.",
            )
        elif backend == "cublas":
            yield Cause(
                "cublas_workspace",
                34,
                "cuBLAS takes its handle and workspace beside PyTorch's pool; who filled the card "
                "is not said. NOT_INITIALIZED can also be an earlier fault of a kernel.",
            )
    elif kind == "memory_summary" and case.error.allocated_bytes == cublas_workspace_bytes():
        yield Cause(
            "cublas_workspace", 70, "Just what PyTorch keeps for cuBLAS (8.125 MiB) is allocated: it is no leak."
        )
    elif kind == "cuda_driver":
        yield Cause(
            "driver_contiguity_or_address_space",
            36,
            "The driver's own call failed, as expandable_segments uses it; the text has no figures.",
        )
    if set(case.error.not_values) - {"allowed_bytes"}:  # there it means no limit
        only = case.error.requested_bytes is None and case.error.free_bytes is None and not case.error.other_processes
        yield Cause(
            "value_not_available",
            82 if only else 45,
            "17179869184.00 GiB is 2^64 bytes: NVML does not know the figure here (WSL, MIG).",
        )


def _deepspeed(case: Case) -> Iterator[Cause]:
    error = case.error
    if error.kind.startswith("deepspeed_banner"):
        tokens = error.numbers.get("tokens")
        each = f", {error.requested_bytes / tokens:,.0f} bytes a token" if tokens and error.requested_bytes else ""
        each += _formula(case, tokens)
        yield Cause(
            "deepspeed_workspace",
            88,
            f"This is DeepSpeed's banner, not an error: its workspace holds {tokens or 'all'} "
            f"tokens{each}. PyTorch cannot see that memory.",
        )
    elif error.numbers.get("available") is not None:
        yield Cause(
            "deepspeed_workspace",
            90,
            f"What was free holds {error.numbers['available']:,} tokens, and "
            f"{error.numbers['minimum']:,} are the least (min_out_tokens).",
        )
    else:
        yield Cause("deepspeed_workspace", 90, _refused(error))
    used = case.holders.share((error.total_bytes or 0) - (error.free_bytes or 0)) if error.free_bytes is not None else 0
    if _is_minimum(error) and used > 0.5:
        yield Cause(
            "other_process_holds_card",
            56,
            "Before the first forward pass only "
            f"{size(error.free_bytes)} were free: the weights, or another process, had filled the card.",
        )


def _formula(case: Case, tokens: int | None) -> str:
    """The banner's figure, computed again, where model and batch give it to within a hundredth."""
    workspace, asked = case.workspace, case.error.requested_bytes
    if not (workspace and tokens and asked) or abs(workspace.bytes_per_token * tokens - asked) > asked / 100:
        return ""
    return (
        f" ({workspace.element_bytes} B × (activations {workspace.activations:,} + scratch {workspace.scratch:,} + "
        f"keys and values {workspace.cache:,}))"
    )


def _is_minimum(error: OomError) -> bool:
    return error.kind == "deepspeed_minimum" and (error.free_bytes or 0) < (error.requested_bytes or 0)


def _refused(error: OomError) -> str:
    if _is_minimum(error):
        floor = least_left(0, error.free_bytes or 0)
        scratch = (error.requested_bytes or 0) - floor
        sums = f"{size(floor)} and batch × heads × max_out_tokens = {scratch:,} bytes" if scratch > 0 else "a floor"
        return (
            f"The {size(error.requested_bytes)} are the least that has to be free ({sums}), not the workspace itself; "
            f"{size(error.free_bytes)} were."
        )
    return "DeepSpeed's one cudaMalloc for its workspace was refused."
