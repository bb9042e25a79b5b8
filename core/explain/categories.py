"""The categories of a breakdown: what each is called, where it lies, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Place = Literal["pool", "card", "host"]


@dataclass(frozen=True)
class Category:
    """`place`: inside PyTorch's pool, elsewhere on the card, or in the host's memory."""

    key: str
    label: str
    place: Place
    what: str


CATEGORIES = (
    Category("weights", "weights", "pool", "the model's parameters"),
    Category("buffers", "buffers", "pool", "tensors of the model that are not trained, such as rotary tables"),
    Category("kv_cache", "KV cache", "pool", "keys and values of the tokens so far"),
    Category("logits", "logits", "pool", "scores over the vocabulary, and what sampling makes of them"),
    Category("activations", "activations", "pool", "results inside a forward pass, and temporaries of kernels"),
    Category("autocast_copies", "autocast copies", "pool", "weights in the autocast dtype, kept until autocast ends"),
    Category("ddp_buckets", "DDP buckets", "pool", "gradient buckets of DistributedDataParallel"),
    Category(
        "library_workspaces", "library workspaces", "pool", "cuBLAS's scratch memory, kept for the process's life"
    ),
    Category("inputs", "inputs", "pool", "token ids, masks and generate's own bookkeeping"),
    Category("load", "load leftovers", "pool", "what loading or an engine made and still holds beside the weights"),
    Category("unattributed", "unattributed", "pool", "allocated, by what was not recorded"),
    Category("rounding", "rounding", "pool", "blocks are multiples of 512 bytes, and small remainders stay with them"),
    Category("cached_segments", "cached, whole segments", "pool", "free segments that PyTorch keeps for later"),
    Category("cached_holes", "cached, holes", "pool", "free pieces of segments that something else still uses"),
    Category("deepspeed_workspace", "DeepSpeed workspace", "card", "one cudaMalloc by DeepSpeed's injected kernels"),
    Category("nccl", "NCCL", "card", "the communicator's buffers, from the first collective on"),
    Category("cuda_context", "CUDA context", "card", "what the driver takes when a process first uses the card"),
    Category("libraries", "libraries and kernels", "card", "cuBLAS, cuDNN and kernels that load on first use"),
    Category("non_torch", "non-torch", "card", "in this process outside PyTorch's pool; which of it was not recorded"),
    Category("other_processes", "other processes", "card", "what other programs hold on the card"),
    Category("driver", "driver", "card", "in use on the card, and of no process"),
    Category(
        "process_memory", "process memory", "host", "resident memory of the run's processes; not split on the CPU"
    ),
)
BY_KEY = {category.key: category for category in CATEGORIES}
"""In the order in which they are stacked: what is wanted first, what lies around it after."""
