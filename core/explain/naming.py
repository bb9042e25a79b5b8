"""What a block of the pool holds, by rules that are tried from top to bottom. The first that says yes names it.

Tested row by row in tests/explain/test_naming.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from core.runfolder.modules import ROOT

CUBLAS_WORKSPACES = frozenset({32 * 2**20, 8_519_680, 4096 * 1024 * 2 + 16 * 1024 * 8, 2**20})
"""Bytes: `:4096:8` for compute capability 9.0 and `:4096:2:16:8` for the others (getChosenWorkspaceSize in
aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.11), and cuBLASLt's default of 1 MiB."""

ATTENTION = re.compile(r"(^|[._])(self_?attn|attn|attention|self_attention|mixer)(\.|$)")
HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output_layer|score)(\.|$)")
JOB = ("prefill", "decode")


@dataclass(frozen=True)
class Block:
    """One block as the rules see it. `module` and `origin` are None where they were not recorded or there is none.

    outlives: it is still there when the next forward pass begins. kept: to the end of the job.
    tensor: parameter or buffer, where the storage of one lies in it. halved: the model has an fp32 weight in `module`
    with twice its bytes. marks, stacks: whether modules and stacks were recorded. grad: gradients were wanted.
    """

    size: int
    phase: str = ""
    module: str | None = None
    origin: str | None = None
    outlives: bool = False
    kept: bool = False
    tensor: str | None = None
    halved: bool = False
    autocast: bool = False
    grad: bool = False
    vocabulary: int | None = None
    marks: bool = True
    stacks: bool = True

    @property
    def in_job(self) -> bool:
        return self.phase in JOB

    @property
    def of_vocabulary(self) -> bool:
        return bool(self.vocabulary) and self.size >= (self.vocabulary or 1) and self.size % (self.vocabulary or 1) == 0


@dataclass(frozen=True)
class Rule:
    """`category` when `holds` says so; `why` is shown as the reason."""

    category: str
    why: str
    holds: Callable[[Block], bool] = field(repr=False)


RULES = (
    Rule("weights", "a parameter's storage lies in it", lambda b: b.tensor == "parameter"),
    Rule("buffers", "a buffer's storage lies in it", lambda b: b.tensor == "buffer"),
    Rule(
        "library_workspaces",
        "of the size of a cuBLAS workspace, taken in a forward pass and kept to the end",
        lambda b: b.in_job and b.kept and b.size in CUBLAS_WORKSPACES,
    ),
    Rule(
        "autocast_copies",
        "under autocast, half as large as the fp32 weight of the module at work",
        lambda b: b.in_job and b.autocast and b.halved,
    ),
    Rule("ddp_buckets", "taken while DDP wrapped the model", lambda b: b.phase == "wrap"),
    Rule("inputs", "taken while the inputs were made", lambda b: b.phase == "inputs"),
    Rule("load", "taken before the job, and no tensor of the model", lambda b: bool(b.phase) and not b.in_job),
    Rule(
        "kv_cache",
        "taken by the cache's own code",
        lambda b: b.in_job and bool(b.origin) and "(cache_utils.py:" in (b.origin or ""),
    ),
    Rule(
        "kv_cache",
        "taken in an attention module and kept for the next pass",
        lambda b: b.in_job and b.outlives and not b.grad and bool(ATTENTION.search(b.module or "")),
    ),
    Rule("logits", "taken by the output head", lambda b: b.in_job and bool(HEAD.search(b.module or ""))),
    Rule("logits", "taken by the model's own forward, outside its parts", lambda b: b.in_job and b.module == ROOT),
    Rule(
        "logits",
        "between two passes, and a whole number of vocabularies",
        lambda b: b.in_job and b.marks and b.module is None and b.of_vocabulary,
    ),
    Rule("inputs", "between two passes: ids, masks", lambda b: b.in_job and b.marks and b.module is None),
    Rule("activations", "taken inside a module", lambda b: b.in_job and b.module is not None),
    Rule(
        "activations",
        "taken by a model's code, and gone before the next pass",
        lambda b: b.in_job and not b.marks and "(modeling_" in (b.origin or "") and not b.outlives,
    ),
)

UNKNOWN = Rule("unattributed", "neither stacks nor modules were recorded", lambda _: True)


def name_block(block: Block) -> Rule:
    """The first rule that holds; UNKNOWN when none does."""
    return next((rule for rule in RULES if rule.holds(block)), UNKNOWN)
