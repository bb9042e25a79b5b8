"""Scaled dot product attention as a card would compute it.

Without a card torch always takes the math kernel, so what chooses the kernel is written out here, and what each kernel
allocates beside its output. Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (`select_sdp_backend`) and
attention.cpp (`scaled_dot_product_attention`, `preprocess_mask`, `convert_boolean_attn_mask`) of torch 2.11.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from core.simulate.gpu import Gpu
from core.simulate.tracing.hidden import PaddedMask

if TYPE_CHECKING:
    from core.simulate.tracing.mode import CardMode

_aten = torch.ops.aten
HALF = (torch.float16, torch.bfloat16)
MASK_ALIGNMENT = 8
"""Elements that a row of a mask is padded to for memory-efficient attention (preprocess_mask)."""


def choose_kernel(
    gpu: Gpu,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    causal: bool,
    grouped: bool,
) -> str:
    """cudnn, flash, efficient or math."""
    if not query.dim() == key.dim() == value.dim() == 4 or not query.dtype == key.dtype == value.dtype:
        return "math"
    if not query.shape[0] == key.shape[0] == value.shape[0] or 0 in (query.shape[2], key.shape[2]):
        return "math"
    same_heads = query.shape[1] == key.shape[1] == value.shape[1]
    heads = same_heads or (grouped and key.shape[1] == value.shape[1] and query.shape[1] % key.shape[1] == 0)
    masked = mask is None or mask.stride(-1) == 1
    dense = query.stride(-1) == key.stride(-1) == value.stride(-1) == 1 and masked
    if heads and dense:
        if gpu.prefers_cudnn and _cudnn_can(gpu, query, key, value, dropout):
            return "cudnn"
        if mask is None and _flash_can(gpu, query, key, value, dropout, causal):
            return "flash"
    if same_heads and dense and _efficient_can(gpu, query, key, value):
        return "efficient"
    return "math"


def _low_precision(gpu: Gpu) -> tuple[torch.dtype, ...]:
    return HALF if gpu.capability[0] >= 8 else (torch.float16,)


def _cudnn_can(gpu: Gpu, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float) -> bool:
    head, value_head, queries, keys = query.shape[-1], value.shape[-1], query.shape[2], key.shape[2]
    return (
        torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]  # torch leaves it so
        and query.dtype in _low_precision(gpu)
        and head % 8 == 0
        and value_head % 8 == 0
        and max(head, value_head) <= gpu.cudnn_head_dim
        and keys != 1
        and not (queries == 1 and dropout)
        and dropout * 16 == math.floor(dropout * 16)
    )


def _flash_can(
    gpu: Gpu, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float, causal: bool
) -> bool:
    head = query.shape[-1]
    # backward with heads above 192 does not fit the shared memory of these cards
    tight = (86 <= gpu.sm <= 89 or gpu.sm in (120, 121)) and _wants_grad(query, key, value)
    return (
        torch.backends.cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call]  # torch leaves it so
        and query.dtype in _low_precision(gpu)
        and 80 <= gpu.sm <= 121
        and head == key.shape[-1] == value.shape[-1]
        and head <= 256
        and not (causal and query.shape[2] != key.shape[2])
        and (not tight or head <= 192 or (not dropout and head > 224))
    )


def _efficient_can(gpu: Gpu, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    half = query.dtype in HALF
    # minimum_gemm_alignment: tensor cores take 128 bits at a time
    alignment = (8 if half else 4) if gpu.capability[0] >= 8 else 8 if half and gpu.capability[0] == 7 else 1
    return (
        torch.backends.cuda.mem_efficient_sdp_enabled()  # type: ignore[no-untyped-call]  # torch leaves it so
        and query.dtype in (*_low_precision(gpu), torch.float32)
        and query.shape[-1] == key.shape[-1]
        and query.shape[-1] % alignment == 0
        and value.shape[-1] % alignment == 0
    )


def _wants_grad(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


class CardAttention:
    """Takes the place of torch.nn.functional.scaled_dot_product_attention while a model is traced.

    seen: how often each kernel was chosen.
    """

    def __init__(self, mode: CardMode, gpu: Gpu) -> None:
        self._mode = mode
        self._gpu = gpu
        self._real = functional.scaled_dot_product_attention
        self.seen: Counter[str] = Counter()

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        if query.device.type != "cuda":
            rest: dict[str, Any] = {"enable_gqa": True} if enable_gqa else {}
            return self._real(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **rest)
        if torch.is_autocast_enabled("cuda"):  # attention is among the operations that autocast lowers
            dtype = torch.get_autocast_dtype("cuda")
            query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
            if attn_mask is not None and attn_mask.is_floating_point():
                attn_mask = attn_mask.to(dtype)
            with torch.autocast("cuda", enabled=False):
                return self._attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        return self._attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        dropout: float,
        causal: bool,
        scale: float | None,
        grouped: bool,
    ) -> torch.Tensor:
        kernel = choose_kernel(self._gpu, query, key, value, mask, dropout, causal, grouped)
        self.seen[kernel] += 1
        if kernel == "flash":
            return self._flash(query, key, value, dropout, causal, scale)
        bias = _as_bias(mask, query)
        out: torch.Tensor
        if kernel == "math":
            out = _aten._scaled_dot_product_attention_math(
                query, key, value, bias, dropout, causal, None, scale=scale, enable_gqa=grouped
            )[0]
            return out
        shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        scale = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
        grad = _wants_grad(query, key, value)
        if kernel == "cudnn":
            if bias is not None:
                heads = bias.shape[1] if bias.dim() == 4 else 1
                bias = bias.expand(shape[0], heads, *shape[2:])
            self._mode.outside.attention((tuple(query.shape), tuple(key.shape), bias is not None))
            out = _aten._scaled_dot_product_cudnn_attention(
                query, key, value, bias, grad, dropout, causal, False, scale=scale
            )[0]
            return out
        with self._padded(bias):
            if bias is not None:
                bias = bias.expand(shape)
            out = _aten._scaled_dot_product_efficient_attention(
                query, key, value, bias, grad, dropout, causal, scale=scale
            )[0]
        return out

    def _padded(self, bias: torch.Tensor | None) -> contextlib.AbstractContextManager[None]:
        """The copy that a mask is padded into, if its rows are not aligned."""
        if bias is None:
            return contextlib.nullcontext()
        columns = bias.shape[-1]
        rule = PaddedMask(bias.numel() // columns, bias.element_size(), MASK_ALIGNMENT)
        if bias.is_contiguous():
            return self._mode.scratch("attention: padded mask", rule(columns), rule, columns)
        aligned = all(stride % MASK_ALIGNMENT == 0 for stride in bias.stride()[:-1])
        size = 0 if aligned else rule.rows * (columns + MASK_ALIGNMENT - columns % MASK_ALIGNMENT) * rule.element_size
        return self._mode.scratch("attention: padded mask", size)

    @staticmethod
    def _flash(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        dropout: float,
        causal: bool,
        scale: float | None,
    ) -> torch.Tensor:
        scale = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
        padding = -query.shape[-1] % 8
        if padding:
            query, key, value = (functional.pad(tensor, (0, padding)) for tensor in (query, key, value))
        out: torch.Tensor = _aten._scaled_dot_product_flash_attention(
            query, key, value, dropout, causal, False, scale=scale
        )[0]
        return out[..., : out.shape[-1] - padding] if padding else out


def _as_bias(mask: torch.Tensor | None, query: torch.Tensor) -> torch.Tensor | None:
    """A boolean mask becomes 0 and -inf in the dtype of the query (convert_boolean_attn_mask)."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    zero = torch.scalar_tensor(0.0, dtype=query.dtype, device=query.device)
    excluded = torch.scalar_tensor(float("-inf"), dtype=query.dtype, device=query.device)
    return torch.where(mask, zero, excluded)
