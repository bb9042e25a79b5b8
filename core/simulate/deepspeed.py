"""DeepSpeed's injected kernels without a card: its Python code runs, its compiled op is replaced by what it allocates.

Source: csrc/transformer/inference/csrc/pt_binding.cpp of DeepSpeed 0.19.8. Most results are views into the workspace
(`from_blob`), so they take nothing of PyTorch's pool; what is made with `empty_like` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from core.simulate.card import SimulatedCard
from core.simulate.stream import WorkspaceRequest
from core.simulate.tracing.mode import CardMode
from core.simulate.tracing.pretend import Patches

SUFFIXES = ("_bf16", "_fp16", "_fp32")


class InferenceOp:
    """Takes the place of the compiled module `inference`. Functions are found by their name without the dtype."""

    def __init__(self, mode: CardMode, spec: Mapping[str, Any]) -> None:
        self._mode = mode
        self._dtype = str(spec["dtype"])
        self._tokens = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        base = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
        found: Callable[..., Any] | None = getattr(type(self), f"op_{base}", None)
        if found is None:
            raise AttributeError(name)  # DeepSpeed then takes its Python fallback, as with an op that lacks a function
        return lambda *args: found(self, *args)

    def _in_workspace(self, *shape: int, like: torch.Tensor) -> torch.Tensor:
        """`from_blob`: a tensor in the workspace."""
        return self._mode.without_memory(shape, like.dtype)

    def op_allocate_workspace(
        self, hidden: int, heads: int, prompt: int, batch: int, layers: int, tp: int, external: bool, *rest: int
    ) -> bool:
        """GenWorkSpace. Its context makes a cuBLAS handle of its own first (inference_context.h)."""
        self._mode.outside.deepspeed_cublas()
        self._mode.stream.workspace = WorkspaceRequest(batch, hidden, heads, layers, self._dtype, rest[1], tp, external)
        self._mode.stream.mark("workspace", "DeepSpeed workspace")
        return True

    def op_release_workspace(self) -> bool:
        return True

    def op_retake_workspace(self) -> bool:
        return True

    def op_reset_cache(self) -> None:
        self._tokens = 0

    def _projected(self, x: torch.Tensor, weight: torch.Tensor, transpose: bool) -> torch.Tensor:
        return self._in_workspace(x.shape[0], x.shape[1], weight.shape[0 if transpose else 1], like=x)

    def op_qkv_gemm(self, x: Any, weight: Any, scale: Any, bias: Any, gamma: Any, beta: Any, *rest: Any) -> list[Any]:
        return [self._projected(x, weight, bool(rest[-1])), self._in_workspace(*x.shape, like=x)]

    def op_rms_qkv_gemm(self, x: Any, weight: Any, scale: Any, gamma: Any, *rest: Any) -> list[Any]:
        return [self._projected(x, weight, bool(rest[-1])), self._in_workspace(*x.shape, like=x)]

    def op_softmax_context(self, qkv: Any, mask: Any, *rest: Any) -> list[Any]:
        """rest: rotary_dim, rotate_half, rotate_every_two, heads, num_kv, norm, triangular, local, window, no_masking,
        layer, layers, alibi, theta, is_prompt, …"""
        heads, kv, layer, is_prompt = int(rest[3]), int(rest[4]), int(rest[10]), bool(rest[14])
        batch, queries, width = qkv.shape
        head = width // (heads + 2 * (kv if kv > 0 else heads))
        if layer == 0:
            self._tokens = queries if is_prompt else self._tokens + 1
        cache = [self._in_workspace(batch, heads, self._tokens, head, like=qkv) for _ in range(2)]
        return [self._in_workspace(batch, queries, heads * head, like=qkv), *cache]

    def op_vector_matmul(self, x: Any, weight: Any, async_: Any, scale: Any, int8: Any, transpose: Any) -> Any:
        return self._projected(x, weight, bool(transpose))

    def op_linear_layer(self, x: Any, weight: Any, *rest: Any) -> Any:
        return self._projected(x, weight, bool(rest[-1]))

    def op_rms_mlp_gemm(self, x: Any, residual: Any, *_: Any) -> list[Any]:
        return [self._in_workspace(*x.shape, like=x), residual]

    def op_mlp_gemm(self, x: Any, residual: Any, *_: Any) -> list[Any]:
        return [self._in_workspace(*x.shape, like=x), self._in_workspace(*x.shape, like=x)]

    def op_fused_gemm_gelu(self, x: Any, *_: Any) -> Any:
        return self._in_workspace(*x.shape, like=x)

    def op_residual_add_bias(self, hidden: Any, residual: Any, *_: Any) -> Any:
        return residual

    def op__vector_add(self, a: Any, b: Any, gamma: Any) -> Any:
        return a

    def op_layer_norm(self, x: Any, *_: Any) -> Any:
        return torch.empty_like(x)


class _NoPhases:
    """The phases are marked by whoever traces."""

    def phase(self, name: str, steps: int = 0) -> Any:
        return nullcontext()


def patched(patches: Patches, mode: CardMode, spec: Mapping[str, Any]) -> None:
    """What DeepSpeed asks about the card and its op, answered; undone with `patches`."""
    os.environ["DS_ACCELERATOR"] = "cuda"
    for name, value in (
        ("is_available", lambda: True),
        ("device_count", lambda: 1),
        ("current_device", lambda: 0),
        ("set_device", lambda *_: None),
        ("synchronize", lambda *_: None),
        ("mem_get_info", lambda *_: (0, 0)),
        ("get_device_capability", lambda *_: mode.gpu.capability),
        ("get_rng_state", lambda *_: torch.zeros(16, dtype=torch.uint8)),
        ("set_rng_state", lambda *_: None),
    ):
        patches.set(torch.cuda, name, value)
    import deepspeed.ops.op_builder as builders
    from deepspeed.model_implementations.transformers.ds_transformer import DeepSpeedTransformerInference
    from deepspeed.ops.transformer.inference.ds_attention import DeepSpeedSelfAttention
    from deepspeed.ops.transformer.inference.ds_mlp import DeepSpeedMLP
    from deepspeed.ops.transformer.inference.op_binding.base import BaseOp

    # what it counts and keeps for the life of a process: two jobs are traced in one
    patches.set(DeepSpeedTransformerInference, "layer_id", 0)
    patches.set(DeepSpeedTransformerInference, "workspace", None)
    patches.set(DeepSpeedSelfAttention, "num_layers", 0)
    patches.set(DeepSpeedSelfAttention, "_qkv_buffers", [])
    patches.set(DeepSpeedMLP, "_inter_w_buffers", [])
    patches.set(builders.InferenceBuilder, "load", lambda *_, **__: InferenceOp(mode, spec))
    patches.set(BaseOp, "inference_module", InferenceOp(mode, spec))


def taken_over(
    model: Any, spec: Mapping[str, Any], device: SimulatedCard, warnings: list[str]
) -> tuple[Any, dict[str, Any]]:
    """The model as DeepSpeed runs it, handed over as the worker does (core.worker.deepspeed_engine), and its facts."""
    from core.worker.deepspeed_engine import DeepSpeedEngine

    simulated: Any = device
    engine = DeepSpeedEngine(dict(spec), simulated, warnings)
    phases: Any = _NoPhases()
    return engine.take(model, phases), engine.facts
