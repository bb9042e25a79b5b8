"""What can be known about a run before it starts: whether its engine is here, and whether it can possibly fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.spec.architecture import DTYPE_BYTES, Architecture
from core.spec.cards import PREFIX
from core.spec.errors import InvalidSpec, NotAvailable
from core.spec.model_source import ModelSource
from core.spec.run_spec import RunSpec

MIB, GIB = 2**20, 2**30
CONTEXT_BYTES = 527 * MIB
"""The CUDA context of a process, measured on an H200 with driver 580.159; 300 to 1,500 MiB are reported of others."""

ID_BYTES = 8
"""Token ids and the attention mask are int64."""


@dataclass(frozen=True)
class Machine:
    """What the checks must know: the memory that a process on the CPU can get, and the size of the run's card where it
    has one that says it; both in bytes."""

    host_memory_bytes: int
    card_bytes: int | None = None


NOT_SIMULATED: tuple[tuple[Callable[[RunSpec], bool], str], ...] = (
    (lambda s: s.attn_implementation == "flash_attention_2", "attn_implementation=flash_attention_2"),
    (lambda s: s.cache_implementation == "quantized", "cache_implementation=quantized"),
)
"""What has no model yet: refused by name on a simulated card, never given a wrong number."""


def check(spec: RunSpec, source: ModelSource, machine: Machine, force: bool = False) -> list[str]:
    """Warnings about a run that can start. `force` lets one through that seems too large for the machine.

    Raises NotAvailable for what this version does not execute, InvalidSpec for what cannot work.
    """
    if spec.device.startswith(PREFIX):
        _simulated(spec, source)
    if spec.attn_implementation == "flash_attention_2" and spec.device == "cpu":
        raise InvalidSpec("attn_implementation=flash_attention_2 has no CPU kernels; use sdpa or eager")
    if spec.engine == "deepspeed":
        _deepspeed(spec)
    if spec.capacity_mib is not None:
        _capacity(spec, machine)
    warnings = []
    if spec.job == "generate" and spec.grad_mode == "grad":
        warnings.append(
            "grad_mode=grad changes nothing under generate(), which is always no_grad; use job=loop to see it"
        )
    architecture = Architecture.from_config(source.config)
    if architecture:
        warnings += _positions(spec, architecture)
        if spec.device == "cpu" and not force:
            _fits_the_machine(spec, source, architecture, machine)
    return warnings


def _simulated(spec: RunSpec, source: ModelSource) -> None:
    for wanted, what in NOT_SIMULATED:
        if wanted(spec):
            raise NotAvailable(f"{what} is not simulated yet; change it, or run on a GPU")
    if source.config.get("quantization_config"):
        raise NotAvailable(f"{spec.model} has quantised weights, which are not simulated yet; run it on a GPU")


def _deepspeed(spec: RunSpec) -> None:
    if spec.kernel_inject and spec.device == "cpu":
        raise InvalidSpec(
            "kernel_inject=true needs a GPU: DeepSpeed has no such op for the CPU; set kernel_inject=false"
        )
    if spec.tp_size > 1:
        raise NotAvailable(f"tp_size={spec.tp_size} needs as many GPUs, and a run has one; set tp_size=1")
    if spec.num_beams > 1:
        raise InvalidSpec(f"num_beams={spec.num_beams}: DeepSpeed generates with num_beams=1 only; set it to 1")


def _capacity(spec: RunSpec, machine: Machine) -> None:
    capacity = (spec.capacity_mib or 0) * MIB
    if machine.card_bytes is not None and capacity > machine.card_bytes:
        raise InvalidSpec(
            f"capacity_mib={spec.capacity_mib} is more than the card's {machine.card_bytes // MIB} MiB; a card can be "
            "made to look smaller, not larger"
        )
    if capacity <= CONTEXT_BYTES:
        raise InvalidSpec(
            f"capacity_mib={spec.capacity_mib} leaves nothing: the CUDA context alone takes about "
            f"{CONTEXT_BYTES // MIB} MiB (measured on an H200)"
        )


def _positions(spec: RunSpec, architecture: Architecture) -> list[str]:
    tokens = spec.total_tokens
    most = architecture.max_positions
    if most is None or tokens <= most:
        return []
    parts = f"{spec.prompt_tokens} + {spec.new_tokens}" if tokens > spec.prompt_tokens else f"{tokens}"
    said = f"{parts} tokens are more than the {most} positions of {spec.model}"
    if architecture.learned_positions:
        raise InvalidSpec(f"{said}, which are a learned table; stay within {most}")
    return [f"{said}; it will run, beyond what the model was trained for"]


def least_bytes(spec: RunSpec, source: ModelSource, architecture: Architecture) -> int | None:
    """Weights, inputs and the final KV cache in bytes: less than any run of this spec needs. None where unknown."""
    # files can hold more than the parameters: buffers, and a tied head a second time
    parameters = architecture.parameter_count() or source.parameters
    if parameters is None:
        return None
    element = DTYPE_BYTES[spec.dtype]
    rows = spec.batch_size * spec.num_beams
    inputs = 2 * ID_BYTES * spec.batch_size * spec.prompt_tokens
    return (
        parameters * element
        + inputs
        + rows * _cached_tokens(spec, architecture) * architecture.kv_bytes_per_token(element)
    )


def _cached_tokens(spec: RunSpec, architecture: Architecture) -> int:
    """Tokens whose keys and values are kept at the end; the last new one is never fed to the model."""
    if not spec.use_cache or spec.cache_implementation == "quantized":  # fewer bits, which depend on the back end
        return 0
    tokens = max(spec.prompt_tokens, spec.total_tokens - 1)
    return min(tokens, architecture.window - 1) if architecture.window else tokens


def _fits_the_machine(spec: RunSpec, source: ModelSource, architecture: Architecture, machine: Machine) -> None:
    least = least_bytes(spec, source, architecture)
    if least is not None and least > machine.host_memory_bytes:
        over = least - machine.host_memory_bytes
        raise InvalidSpec(
            f"weights, inputs and KV cache alone take {least / GIB:.1f} GiB, {over / GIB:.1f} GiB more than the "
            f"{machine.host_memory_bytes / GIB:.1f} GiB of this machine; make it smaller, or --force"
        )
