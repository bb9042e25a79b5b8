"""`python -m core.worker.calibration`: take what a process takes outside PyTorch's pool, one step at a time.

After each step a JSON line says what the pool holds, and the process waits for a line on stdin: meanwhile
core.runs.calibrate asks the driver. The one visible card is measured; nothing else may run on it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from core.worker.device import find_device
from core.worker.wrap import start_process_group

SIZE = 512


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each step with what is known of it. Names are those of core.spec.cards.Libraries.

    Raises Refused without a card.
    """
    device = find_device("cuda:0")
    device.start()
    free, total = torch.cuda.mem_get_info(0)
    yield "context", {**device.describe(), "free_bytes": free, "total_bytes": total}
    left = torch.ones(SIZE, SIZE, dtype=torch.float16, device="cuda:0")
    torch.cuda.synchronize()
    yield "kernels", {}
    yield "cublas", {"workspace_bytes": _kept_by(lambda: left @ left)}
    bias = torch.ones(SIZE, dtype=torch.float16, device="cuda:0")
    yield "cublaslt", {"workspace_bytes": _kept_by(lambda: functional.linear(left, left, bias))}
    heads = left.view(1, SIZE // 64, -1, 64)
    _kept_by(lambda: functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True))
    yield "cudnn", {}
    _kept_by(lambda: _as_a_model_does(left))
    yield "more_kernels", {}
    if dist.is_available() and dist.is_nccl_available():
        start_process_group(device)
        dist.broadcast(left, 0)
        torch.cuda.synchronize()
        yield "nccl", {}


def _kept_by(work: Any) -> int:
    """Bytes of the pool that are still taken when the result of `work` is gone."""
    before = torch.cuda.memory_allocated(0)
    result = work()
    torch.cuda.synchronize()
    del result
    return torch.cuda.memory_allocated(0) - before


def _as_a_model_does(left: torch.Tensor) -> torch.Tensor:
    """The kinds of kernels that a decoder and sampling launch, whose code is loaded at the first launch."""
    ids = torch.arange(SIZE, device=left.device)
    rows = functional.embedding(ids, left)
    normed = rows * torch.rsqrt(rows.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(rows.dtype)
    gated = functional.silu(normed) * torch.cat([normed.cos(), normed.sin()], dim=-1)[:, :SIZE]
    scores = torch.softmax(gated.float().masked_fill(ids[:, None] < ids[None, :], -1e4), dim=-1)
    picked = torch.multinomial(scores, 1)
    best = scores.topk(8).values + scores.argmax(-1, keepdim=True) + scores.sort().values.cumsum(-1)[:, :1]
    return best + picked


def main() -> None:
    for name, known in steps():
        pool = {"allocated_bytes": torch.cuda.memory_allocated(0), "reserved_bytes": torch.cuda.memory_reserved(0)}
        print(json.dumps({"step": name, **pool, **known}), flush=True)
        if not sys.stdin.readline():
            return  # whoever asked has gone


if __name__ == "__main__":
    main()
