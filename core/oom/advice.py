"""Pieces of advice, as a table: what to do in a sentence, and the fields of a run that try it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.oom.facts import Facts


@dataclass(frozen=True)
class Advice:
    """`patch`: fields of a RunSpec and their new values. A tag that begins with `no:` names what will not help."""

    tag: str
    text: str
    patch: Mapping[str, Any] = field(default_factory=dict)


Patch = Callable[[Facts], dict[str, Any]]


def _tokens(facts: Facts) -> int:
    return (facts.prompt_tokens or 0) + (facts.new_tokens or 0)


def _halved(name: str) -> Patch:
    def patch(facts: Facts) -> dict[str, Any]:
        value = getattr(facts, name)
        return {name: value // 2} if value and value > 1 else {}

    return patch


def _max_out_tokens(facts: Facts) -> dict[str, Any]:
    return {"max_out_tokens": _tokens(facts), "engine": "deepspeed", "kernel_inject": True} if _tokens(facts) else {}


def _always(**patch: Any) -> Patch:
    return lambda _: patch


TEXTS: dict[str, tuple[str, Patch]] = {
    "set_max_out_tokens": (
        "Set DeepSpeed's max_out_tokens near prompt + new tokens: the workspace is sized by it.",
        _max_out_tokens,
    ),
    "disable_kernel_inject": (
        "Leave kernel injection off (replace_with_kernel_inject=False): no workspace is taken then.",
        _always(engine="deepspeed", kernel_inject=False),
    ),
    "use_transformers>=4.45": (
        "Use transformers 4.45 or later: generate() computes only the last position's logits.",
        _always(),
    ),
    "use_transformers>=4.46": ("Use transformers 4.46 or later: it no longer copies all logits to float32.", _always()),
    "last_position_logits_only": (
        "Compute logits of the last position only (logits_to_keep=1); a generation needs no others.",
        _always(job="generate"),
    ),
    "lower_batch": ("Lower the batch size.", _halved("batch_size")),
    "shorter_prompt": ("Shorten the prompt, or feed it in pieces.", _halved("prompt_tokens")),
    "shorter_max_seq_len": ("Lower the longest sequence that the cache is made for.", _halved("max_seq_len")),
    "free_other_process": ("Free what else is on the card: nvidia-smi names the processes.", _always()),
    "check_visible_devices": (
        "Check CUDA_VISIBLE_DEVICES: `GPU 0` is the first visible card, not the first one of the machine.",
        _always(),
    ),
    "expandable_segments": (
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: cached memory can then be used in one piece.",
        _always(allocator="expandable_segments:True"),
    ),
    "max_split_size_mb": (
        "Set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128, or, but on Windows, use torch 2.1 or later with "
        "expandable_segments.",
        _always(allocator="max_split_size_mb:128"),
    ),
    "load_in_bf16": ("Load the weights in bfloat16 (dtype=torch.bfloat16): half of float32.", _always(dtype="bf16")),
    "load_in_fp16": ("Load the weights in float16 (dtype=torch.float16): half of float32.", _always(dtype="fp16")),
    "load_on_cpu_or_meta_then_shard": (
        "Load on the CPU or the meta device and let each rank take its part only.",
        _always(placement="host"),
    ),
    "remove_cuda_call_after_device_map": (
        "Remove .cuda() or .to('cuda') after device_map: it undoes the placement.",
        _always(placement="device_map"),
    ),
    "tensor_parallel": ("Spread the weights over several cards (tensor parallel).", _always()),
    "quantize": ("Quantise the weights to 8 or 4 bit, or take a smaller model.", _always()),
    "fused_attention": (
        "Use a fused attention kernel (sdpa or flash_attention_2): it never holds the scores.",
        _always(attn_implementation="sdpa"),
    ),
    "drop_explicit_mask_or_enable_gqa": (
        "Drop the explicit mask (is_causal=True), or use enable_gqa: either can bring sdpa's fused kernels back.",
        _always(),
    ),
    "not_memory_pressure": ("More memory will not help: the size itself is wrong.", _always()),
    "check_index_dtype": (
        "Check data types of indices and masks: a bool or uint8 read as int64 makes such sizes.",
        _always(),
    ),
    "upgrade_library": ("Upgrade the library whose frame is the last one, or report the size to it.", _always()),
    "ignore_value": ("Ignore the figure: it means `not available`.", _always()),
    "use_nvidia_smi": ("Read what is in use from nvidia-smi on the host.", _always()),
    "treat_as_oom": ("Treat it as an ordinary out-of-memory error.", _always()),
    "larger_mig_slice": ("Use a larger MIG slice.", _always()),
    "use_cache=True": ("Keep the cache (use_cache=True).", _always(use_cache=True)),
    "autocast_cache_enabled=False": ("Turn autocast's cache off: torch.autocast(…, cache_enabled=False).", _always()),
    "autocast_per_step": ("Enter autocast around each step, so that its copies are freed.", _always()),
    "no_grad": ("Run under torch.no_grad().", _always(grad_mode="no_grad")),
    "inference_mode": ("Run under torch.inference_mode().", _always(grad_mode="inference_mode")),
    "freeze_parameters": (
        "Freeze the parameters before wrapping (requires_grad_(False)): no gradient buckets then.",
        _always(),
    ),
    "skip_ddp_for_inference": ("Leave DDP out for inference.", _always(wrap="none")),
    "TORCH_NCCL_AVOID_RECORD_STREAMS=1": (
        "Set TORCH_NCCL_AVOID_RECORD_STREAMS=1: broadcast buffers are freed at once.",
        _always(),
    ),
    "CUBLAS_WORKSPACE_CONFIG": ("Set CUBLAS_WORKSPACE_CONFIG=:16:8 for a smaller workspace.", _always()),
    "leave_headroom": ("Leave a GiB or two of the card to libraries: they take memory beside PyTorch.", _always()),
    "convert_on_load": (
        "Give the data type when loading (dtype=…) instead of converting afterwards.",
        _always(dtype="bf16"),
    ),
    "more_host_memory": (
        "Load shard by shard (low_cpu_mem_usage=True), or give the machine more memory or swap.",
        _always(),
    ),
    "disable_sysmem_fallback": (
        "Set `CUDA - Sysmem Fallback Policy` to `Prefer No Sysmem Fallback` in NVIDIA's control panel.",
        _always(),
    ),
    "smaller_allocations": ("Ask for smaller pieces: a lower batch or a shorter prompt.", _halved("batch_size")),
    "stagger_processes": ("Start the processes of one card after each other, and leave each its share.", _always()),
    "raise_memory_fraction": ("Raise or remove set_per_process_memory_fraction.", _always()),
    "static_cache": ("Use a static cache: it does not grow by copying.", _always(cache_implementation="static")),
    "raise_gpu_memory_utilization": (
        "Raise the engine's share of the card (gpu_memory_utilization, mem-fraction-static), if the rest is free.",
        _always(),
    ),
    "fewer_layers_on_device": (
        "Put fewer layers on the device (--n-gpu-layers), or spread them over several.",
        _always(),
    ),
    "paste_more": (
        "Paste the whole traceback and name the model, the batch and the prompt: the text says too little.",
        _always(),
    ),
}
