"""Random weights on the CPU in seconds instead of a minute."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

BLOCK = 1_048_573
"""Elements drawn; a prime, so that the rows of no matrix repeat."""

_DRAWN = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)


class TiledFill(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it unannotated
    """While active, large CPU tensors are filled with copies of one drawn block where code draws normal or uniform.

    Nothing else of the initialisation changes: norms get their ones, biases their zeros, tied weights stay tied, and
    every page is written, so that resident memory is what real weights take. Drawing 7e9 numbers takes a core about a
    minute, copying them a few seconds. Memory depends on no value; the values are those of the same distribution, so
    that sampling from the logits works. Deterministic for a seed. Tensors on other devices are left to torch.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self._generator = torch.Generator().manual_seed(seed)
        self._blocks: dict[tuple[Any, ...], torch.Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DRAWN:
            tensor, *parameters = args
            if tensor.device.type == "cpu" and tensor.numel() > BLOCK and tensor.is_contiguous():
                self._tile(tensor, func, tuple(parameters))
                return tensor
        return func(*args, **(kwargs or {}))

    def _tile(self, tensor: torch.Tensor, draw: Any, parameters: tuple[float, ...]) -> None:
        key = (draw, parameters, tensor.dtype)
        if key not in self._blocks:
            drawn = draw(torch.empty(BLOCK), *parameters, generator=self._generator)
            self._blocks[key] = drawn.to(tensor.dtype)
        block, flat = self._blocks[key], tensor.view(-1)
        whole = flat.numel() // BLOCK
        flat[: whole * BLOCK].view(whole, BLOCK).copy_(block)
        flat[whole * BLOCK :].copy_(block[: flat.numel() - whole * BLOCK])
