"""What to change, in order, for each cause, and what will not help."""

from __future__ import annotations

import re
from collections.abc import Callable

from core.oom.account import fragmentation_possible
from core.oom.advice import TEXTS, Advice
from core.oom.case import Case
from core.oom.facts import Facts

BY_CAUSE: dict[str, tuple[str, ...]] = {
    "logits_all_positions_fp32": ("lower_batch", "shorter_prompt"),
    "logits_all_positions": ("last_position_logits_only", "lower_batch", "shorter_prompt"),
    "weights_exceed_card": ("tensor_parallel", "quantize"),
    "weights": ("tensor_parallel", "quantize", "load_on_cpu_or_meta_then_shard"),
    "full_model_on_each_rank": ("load_on_cpu_or_meta_then_shard",),
    "attention_scores_eager": ("fused_attention", "lower_batch", "shorter_prompt"),
    "attention_scores_sdpa_math": (
        "fused_attention",
        "drop_explicit_mask_or_enable_gqa",
        "lower_batch",
        "shorter_prompt",
    ),
    "attention_mask_dense": ("shorter_prompt", "lower_batch", "fused_attention"),
    "size_computed_wrong": ("not_memory_pressure", "check_index_dtype", "upgrade_library", "no:expandable_segments"),
    "value_not_available": ("ignore_value", "use_nvidia_smi"),
    "oom_hidden_by_nvml_assert": ("treat_as_oom", "lower_batch", "larger_mig_slice"),
    "kv_cache": ("lower_batch", "shorter_prompt", "static_cache"),
    "kv_cache_preallocated": ("lower_batch", "shorter_max_seq_len"),
    "no_cache_recomputes_activations": ("use_cache=True", "lower_batch"),
    "autocast_weight_cache": ("load_in_bf16", "autocast_cache_enabled=False", "autocast_per_step"),
    "grad_graph_retained": ("no_grad", "inference_mode"),
    "broadcast_buckets_cached": ("TORCH_NCCL_AVOID_RECORD_STREAMS=1", "skip_ddp_for_inference"),
    "ddp_gradient_buckets": ("freeze_parameters", "skip_ddp_for_inference", "no:gradient_as_bucket_view"),
    "activations": ("lower_batch", "shorter_prompt"),
    "nccl_outside_allocator": ("leave_headroom", "free_other_process", "lower_batch"),
    "cublas_workspace": ("leave_headroom", "free_other_process", "CUBLAS_WORKSPACE_CONFIG"),
    "windows_shared_memory_spill": ("disable_sysmem_fallback", "lower_batch", "quantize"),
    "quantized_weights_dequantized": ("lower_batch", "shorter_prompt"),
    "weights_conversion_copy_on_cpu": ("convert_on_load", "more_host_memory"),
    "other_process_race": ("free_other_process", "stagger_processes"),
    "driver_contiguity_or_address_space": ("smaller_allocations", "free_other_process"),
    "memory_limit_set_by_user": ("raise_memory_fraction", "lower_batch"),
    "unknown": ("paste_more",),
}


def advise(tag: str, case: Case, message: str) -> list[Advice]:
    """For one cause, the most useful first; then what the text or people suggest and what cannot help here."""
    tags = list(_tags(tag, case, message))
    batch = case.facts.batch_size
    kept = [name for name in dict.fromkeys(tags) if not (name in ("lower_batch", "smaller_allocations") and batch == 1)]
    possible = fragmentation_possible(case.error, case.holders)
    segments = {"expandable_segments", "max_split_size_mb", "no:expandable_segments"}
    if possible is False and not segments & set(kept) and not (case.facts.allocator or case.error.backend == "xpu"):
        kept.append("no:expandable_segments")
    return [_advice(name, case.facts, message) for name in kept]


VARIABLE = re.compile(r"pytorch_(?:cuda_|hip_)?alloc_conf", re.IGNORECASE)


def _advice(tag: str, facts: Facts, message: str) -> Advice:
    if tag.startswith("no:"):
        what = {"no:gradient_as_bucket_view": "gradient_as_bucket_view saves nothing in inference."}
        return Advice(tag, what.get(tag, "expandable_segments will not help: it can only put cached memory to use."))
    text, patch = TEXTS[tag]
    named = VARIABLE.search("".join(message.split()))
    text = text.replace("PYTORCH_CUDA_ALLOC_CONF", named[0].upper()) if named else text
    return Advice(tag, text, patch(facts))


def _tags(tag: str, case: Case, message: str) -> list[str]:
    facts = case.facts
    special: dict[str, Callable[[], list[str]]] = {
        "deepspeed_workspace": lambda: _deepspeed(case),
        "logits_all_positions_fp32": lambda: [*_last_position(case), *BY_CAUSE[tag]],
        "unknown": lambda: [*(["more_host_memory"] if case.error.backend == "cpu" else []), *BY_CAUSE[tag]],
        "weights": lambda: _too_large(case, tag),
        "weights_exceed_card": lambda: _too_large(case, tag),
        "kv_cache_preallocated": lambda: _preallocated(case),
        "fragmentation": lambda: _fragmentation(case, message),
        "weights_in_float32": lambda: _narrower(facts),
        "other_process_holds_card": lambda: _others(case),
        "non_torch_memory_fills_card": lambda: _outside(case, message),
    }
    return special[tag]() if tag in special else list(BY_CAUSE.get(tag, ("paste_more",)))


def _fragmentation(case: Case, message: str) -> list[str]:
    scores = any(tensor.kind == "scores" for tensor in case.tensors)
    return [*_segments(case, message), *(["fused_attention"] if scores else []), "lower_batch"]


def _narrower(facts: Facts) -> list[str]:
    several = "deepspeed" in (facts.engine or "") or (facts.tp_size or 1) > 1
    return [
        *(["load_in_fp16", "load_in_bf16"] if several else ["load_in_bf16", "load_in_fp16"]),
        *(["load_on_cpu_or_meta_then_shard"] if several else []),
        *(["remove_cuda_call_after_device_map"] if facts.device_map or facts.cuda_after_load else []),
    ]


def _others(case: Case) -> list[str]:
    visible = [] if case.error.backend == "deepspeed" else ["check_visible_devices"]
    return ["free_other_process", *visible, "lower_batch", *(["shorter_max_seq_len"] if case.facts.max_seq_len else [])]


def _outside(case: Case, message: str) -> list[str]:
    own = ["set_max_out_tokens"] if case.facts.injects else ["free_other_process", "leave_headroom"]
    possible = fragmentation_possible(case.error, case.holders)
    return [*own, "lower_batch", *(_segments(case, message) if possible else [])]


def _deepspeed(case: Case) -> list[str]:
    if case.error.kind == "deepspeed_minimum" and (case.error.free_bytes or 0) < (case.error.requested_bytes or 0):
        return ["free_other_process", "disable_kernel_inject", "no:expandable_segments"]
    banner = case.error.kind.startswith("deepspeed_banner")
    logits = case.best is not None and case.best.kind == "logits_all" and case.best.dtype == "fp32"
    more = [] if banner else [*(_last_position(case)[:1] if logits else []), "lower_batch"]
    return ["set_max_out_tokens", *more, *([] if banner else ["disable_kernel_inject", "no:expandable_segments"])]


TORCH = ("cuda", "hip", "xpu", "npu", "mps", "cpu", "cublas", "cudnn", "deepspeed", None)
"""Backends that transformers' own generate() runs on."""


def _last_position(case: Case) -> list[str]:
    """transformers has computed the last position alone since 4.45, and left out the float32 copy since 4.46."""
    facts = case.facts
    engine = (facts.engine or "transformers").lower()
    named = any(word in engine for word in ("transformers", "deepspeed", "fsdp", "ddp", "accelerate", "huggingface"))
    if not named or case.error.backend not in TORCH or case.error.kind.startswith("ggml"):
        return ["last_position_logits_only"]
    version = facts.version("transformers")
    if version is not None and version >= (4, 46):
        return ["last_position_logits_only"]
    newer = "use_transformers>=4.46" if version is not None and version >= (4, 45) else "use_transformers>=4.45"
    return [newer, "last_position_logits_only"]


def _too_large(case: Case, tag: str) -> list[str]:
    if case.error.backend == "cpu":
        return ["more_host_memory", "quantize"]
    if case.error.kind.startswith("ggml"):
        return ["fewer_layers_on_device", "quantize"]
    return list(BY_CAUSE[tag])


def _preallocated(case: Case) -> list[str]:
    raised = ["raise_gpu_memory_utilization"] if case.error.backend in ("vllm", "sglang", "tgi") else []
    return [*raised, *BY_CAUSE["kv_cache_preallocated"]]


def _segments(case: Case, message: str) -> list[str]:
    """expandable_segments exists since torch 2.1, not for Windows and XPU. Where it is set already it did not help."""
    facts, text = case.facts, "".join(message.lower().split())
    if "expandable_segments" in (facts.allocator or "") or case.error.backend == "xpu":
        return []
    version = facts.version("torch")
    old = version < (2, 1) if version is not None else "alreadyallocated" in text or "reservedintotal" in text
    return ["max_split_size_mb" if old or facts.platform == "windows" else "expandable_segments"]
