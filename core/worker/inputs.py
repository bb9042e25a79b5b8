"""What the model is given, and the controls that change the cache just before."""

from __future__ import annotations

from typing import Any

import torch

from core.worker.device import Device

TOKEN = 7
PIECE_MIB = 250
"""The size of DDP's broadcast buckets, which the control imitates."""


def prepare_cache(spec: dict[str, Any], device: Device, warnings: list[str]) -> None:
    """Empty PyTorch's cache, then fill it, as `spec` asks; once, before the first repeat."""
    if spec["empty_cache_before_generate"]:
        device.empty_cache()
    total = int(spec["prefill_cache_mib"])
    if total and device.type == "cpu":
        warnings.append("prefill_cache_mib has no effect on the CPU, where PyTorch keeps no cache")
    elif total:
        sizes = [PIECE_MIB] * (total // PIECE_MIB) + [total % PIECE_MIB] * bool(total % PIECE_MIB)
        pieces = [torch.empty(size * 2**20, dtype=torch.uint8, device=device.name) for size in sizes]
        del pieces


def make_inputs(spec: dict[str, Any], vocabulary: int, device: Device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, int64 of shape (batch_size, prompt_tokens).

    `padding` positions at the left of the first row are 0 in both: one padded row is enough for transformers to build
    a mask for all of them.
    """
    shape = (int(spec["batch_size"]), int(spec["prompt_tokens"]))
    ids = torch.full(shape, min(TOKEN, vocabulary - 1), dtype=torch.long, device=device.name)
    mask = torch.ones(shape, dtype=torch.long, device=device.name)
    if spec["padding"]:
        ids[0, : spec["padding"]] = 0
        mask[0, : spec["padding"]] = 0
    return ids, mask
