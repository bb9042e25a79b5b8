"""DistributedDataParallel around one model on one device, as a script that was written for several runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from core.worker.device import Device


def start_process_group(device: Device) -> None:
    """A group of one: NCCL on a card, gloo on the CPU. The store is in this process, so no port is opened.

    NCCL makes its communicator, and takes its memory, at the first collective: in the wrap, not here.
    """
    if device.type == "cpu" and sys.platform == "linux":
        os.environ.setdefault(
            "GLOO_SOCKET_IFNAME", "lo"
        )  # gloo would resolve the host's name, which may have no address
    # what torchrun sets, for libraries that read it (DeepSpeed does)
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        os.environ.setdefault(name, value)
    store = dist.HashStore()  # type: ignore[attr-defined]  # public, but torch does not list it for type checkers
    dist.init_process_group("gloo" if device.type == "cpu" else "nccl", store=store, rank=0, world_size=1)


def wrap_ddp(model: Any, device: Device, spec: Mapping[str, Any]) -> Any:
    """`model` in DDP, with DDP's defaults: it broadcasts the parameters and makes buckets for their gradients.

    Where DeepSpeed's module generates, the wrapper is let go, as in the scripts that were written for this: they
    rebind the model to `DDP(engine.module).module`. Its bucket then is cache, not a live tensor.
    """
    wrapped = DistributedDataParallel(model, device_ids=None if device.type == "cpu" else [0])
    return wrapped.module if spec["engine"] == "deepspeed" and spec["job"] == "generate" else wrapped


def unwrapped(model: Any) -> Any:
    """The model that `generate` is called on."""
    return model.module if isinstance(model, DistributedDataParallel) else model
