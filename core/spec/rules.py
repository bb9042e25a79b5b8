"""What has to hold between the fields of a spec, and the defaults that depend on other fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.spec.allocator import check_allocator
from core.spec.errors import InvalidSpec
from core.spec.presets import is_preset
from core.spec.roots import readable

if TYPE_CHECKING:
    from core.spec.run_spec import RunSpec

DEEPSPEED_MAX_OUT_TOKENS = 1024
"""DeepSpeed's default of max_out_tokens (deepspeed/inference/config.py)."""

SAVED = ("*.safetensors", "*.safetensors.index.json")
PICKLED = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")
"""Patterns of files with weights. `training_args.bin` and the like are not weights."""

DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3}|:(GPU|MIG)-[0-9A-Za-z/-]{1,80})?|sim:[a-z0-9][a-z0-9._-]{0,60}")


def with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in `weights` and `placement` where they were left open."""
    values = dict(given)
    if "weights" not in values:
        values["weights"] = "load" if _has_weights(str(values.get("model", ""))) else "random"
    if "placement" not in values:
        on_device = values.get("engine", "transformers") == "transformers" and values["weights"] == "random"
        values["placement"] = "device" if on_device else "host"
    return values


def _has_weights(model: str) -> bool:
    """Whether there is something to load: a hub id counts, a preset and a folder with a config alone do not.

    Pickled weights count: they are refused with the reason when the model is resolved, not replaced by random ones.
    """
    if is_preset(model):
        return False
    folder = folder_of(model)
    return folder is None or any(any(folder.glob(pattern)) for pattern in (*SAVED, *PICKLED))


def folder_of(model: str) -> Path | None:
    """The folder that `model` names, if it is one and may be read here (core.spec.roots)."""
    try:
        folder = Path(model).expanduser()
        return folder if readable(folder) and folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long a name, no such user for ~, a null byte: not a folder
        return None


def check_fields(spec: RunSpec) -> None:
    """Raises InvalidSpec for the first rule that `spec` breaks."""
    if not DEVICE.fullmatch(spec.device):
        raise InvalidSpec(f"device {spec.device!r} is not one; give auto, cpu, cuda:0, cuda:GPU-<uuid> or sim:<card>")
    check_allocator(spec.allocator)
    for broken, message in RULES:
        if broken(spec):
            raise InvalidSpec(message(spec))


Rule = tuple[Callable[["RunSpec"], bool], Callable[["RunSpec"], str]]

RULES: tuple[Rule, ...] = (
    (
        lambda s: s.job != "forward" and s.new_tokens < 1,
        lambda s: (
            f"new_tokens is {s.new_tokens}; job {s.job} needs at least 1 (job=forward makes one pass and no tokens)"
        ),
    ),
    (
        lambda s: s.padding >= s.prompt_tokens,
        lambda s: f"padding of {s.padding} leaves nothing of {s.prompt_tokens} prompt tokens; make it smaller",
    ),
    (
        lambda s: not s.do_sample and any(v is not None for v in (s.temperature, s.top_k, s.top_p)),
        lambda _: "temperature, top_k and top_p change nothing without sampling; set do_sample=true or leave them out",
    ),
    (
        lambda s: s.job != "generate" and (s.num_beams > 1 or s.do_sample or s.cache_implementation is not None),
        lambda s: f"num_beams, do_sample and cache_implementation belong to job=generate, not to {s.job}",
    ),
    (
        lambda s: not s.use_cache and (s.cache_implementation is not None or s.job == "loop"),
        lambda _: "use_cache=false leaves no cache: no cache_implementation can be set, and job=loop needs one",
    ),
    (
        lambda s: s.engine != "deepspeed" and (s.kernel_inject or s.tp_size > 1 or s.max_out_tokens is not None),
        lambda _: "kernel_inject, tp_size and max_out_tokens belong to engine=deepspeed; set it or leave them out",
    ),
    (
        lambda s: s.kernel_inject and s.total_tokens > (s.max_out_tokens or DEEPSPEED_MAX_OUT_TOKENS),
        lambda s: (
            f"{s.total_tokens} tokens do not fit DeepSpeed's max_out_tokens of "
            f"{s.max_out_tokens or DEEPSPEED_MAX_OUT_TOKENS}; set max_out_tokens={s.total_tokens}"
        ),
    ),
    (
        lambda s: s.attn_implementation == "flash_attention_2" and s.dtype == "fp32" and s.autocast == "none",
        lambda _: "flash_attention_2 computes in bf16 or fp16 only; set dtype or autocast to bf16, or take sdpa",
    ),
    (
        lambda s: s.placement == "device_map" and s.weights == "random",
        lambda _: "placement=device_map loads saved weights; with weights=random use placement=device or host",
    ),
    (
        lambda s: s.device == "cpu" and s.capacity_mib is not None,
        lambda _: "capacity_mib makes a GPU behave like a smaller one; on the CPU leave it out",
    ),
    (
        lambda s: s.device == "cpu" and (s.prefill_cache_mib > 0 or s.empty_cache_before_generate or s.allocator != ""),
        lambda _: (
            "allocator, prefill_cache_mib and empty_cache_before_generate are about the CUDA allocator; "
            "on the CPU leave them out"
        ),
    ),
    (
        lambda s: s.record_stacks and not s.record_history,
        lambda _: "record_stacks adds stacks to the allocator's events, so it needs record_history=true",
    ),
)
