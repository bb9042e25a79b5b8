"""DeepSpeed's inference engine: `init_inference`, what it replaced, and the memory it takes beside PyTorch."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from core.worker.banner import read_banner
from core.worker.device import Device
from core.worker.errors import Refused
from core.worker.model import DTYPES
from core.worker.op_build import build_op
from core.worker.phases import PhaseRecorder


def check_deepspeed(spec: dict[str, Any], device: Device) -> None:
    """Raises Refused for what cannot be run. Also tells DeepSpeed its device, which it reads when it is imported."""
    if importlib.util.find_spec("deepspeed") is None:
        raise Refused("engine=deepspeed, but deepspeed is not installed in this environment; choose one that has it")
    if spec["kernel_inject"] and device.type == "cpu":
        raise Refused("kernel_inject=true needs a card: DeepSpeed has no such op for the CPU; use kernel_inject=false")
    if spec["tp_size"] != 1:
        raise Refused(f"tp_size={spec['tp_size']} needs as many processes; a run has one, so tp_size must be 1")
    if spec["num_beams"] != 1:
        raise Refused(f"num_beams={spec['num_beams']}: DeepSpeed generates with num_beams=1 only")
    os.environ["DS_ACCELERATOR"] = device.type


class DeepSpeedEngine:
    """One `init_inference`. Jobs run its module, as DeepSpeed's own `generate` does. `facts`: what it did so far."""

    needs_process_group = True  # DeepSpeed would start one from the environment of a launcher that is not there

    def __init__(self, spec: dict[str, Any], device: Device, warnings: list[str]) -> None:
        import deepspeed

        self._init_inference = deepspeed.init_inference
        self._spec = spec
        self._device = device
        self._warnings = warnings
        self._engine: Any = None
        self.facts: dict[str, Any] = {"effective_dtype": None, "layers_replaced": None, "op": None, "workspace": None}

    def build(self, recorder: PhaseRecorder) -> None:
        """Build the op in a phase of its own, where kernels are injected on a card."""
        if self._spec["kernel_inject"] and self._device.type == "cuda":
            with recorder.phase("op build"):
                build_op(self._warnings)

    def take(self, model: Any, recorder: PhaseRecorder) -> Any:
        """The model with its layers replaced, moved to the device and cast to the run's dtype."""
        options: dict[str, Any] = {
            "tensor_parallel": {"tp_size": 1},
            "dtype": DTYPES[self._spec["dtype"]],
            "replace_with_kernel_inject": self._spec["kernel_inject"],
        }
        if self._spec["max_out_tokens"] is not None:
            options["max_out_tokens"] = self._spec["max_out_tokens"]
        with recorder.phase("engine"):
            self._engine = self._init_inference(model, **options)
            self._device.synchronize()
        module = self._engine.module
        replaced = count_replaced(module)
        self.facts = {
            "effective_dtype": effective_dtype(module),
            "layers_replaced": replaced,
            "op": self._op(),
            "workspace": None,
        }
        self._watch_workspace()
        if self._spec["kernel_inject"] and not replaced:
            self._warnings.append(
                f"DeepSpeed's kernel injection does not cover {type(model).__name__}: 0 layers were replaced"
            )
        return module

    def before_repeat(self) -> None:
        """`InferenceEngine._generate` starts its cache anew in the same way."""
        reset = getattr(self._engine.module, "reset_cache", None) if self._engine else None
        if callable(reset):
            reset()

    def report(self, stdout_log: Path) -> dict[str, Any] | None:
        return {**self.facts, "banner": read_banner(stdout_log)}

    def release(self) -> None:
        """Give the workspace back to the driver."""
        engine, self._engine = self._engine, None
        workspace = _transformer_class().workspace if engine is not None else None
        if workspace is not None:
            engine.destroy()

    def _watch_workspace(self) -> None:
        """Note what the card had free before the workspace was taken, and by how much that fell: the workspace itself,
        which neither PyTorch nor a poll can tell from the libraries that load in the same forward pass."""
        workspace = _transformer_class().workspace
        if workspace is None or self._device.type != "cuda":
            return
        take = workspace.allocate_workspace_func

        def watched(*args: Any) -> Any:
            free, _ = torch.cuda.mem_get_info()
            try:
                return take(*args)
            finally:
                taken = free - torch.cuda.mem_get_info()[0]
                self.facts["workspace"] = {"free_bytes": free, "taken_bytes": taken}

        workspace.allocate_workspace_func = watched

    def _op(self) -> str:
        """`compiled`, `python fallback` or `none`: whose workspace this is, which have different sizes."""
        if not self._spec["kernel_inject"]:
            return "none"
        workspace = _transformer_class().workspace
        if workspace is None:
            return "none"  # no layer was replaced
        # where the op is missing, WorkspaceOp takes methods of its own instead of the module's functions
        allocate = workspace.allocate_workspace_func
        return "python fallback" if getattr(allocate, "__self__", None) is workspace else "compiled"


def effective_dtype(module: Any) -> str:
    """The dtype that most of the parameters' bytes have, in a spec's words where it has one."""
    sizes: Counter[Any] = Counter()
    for parameter in module.parameters():
        sizes[parameter.dtype] += parameter.numel() * parameter.element_size()
    dtype = sizes.most_common(1)[0][0]
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype))


def count_replaced(module: Any) -> int:
    """Layers that are DeepSpeed's own, not the model's."""
    kind = _transformer_class()
    return sum(isinstance(layer, kind) for layer in module.modules())


def _transformer_class() -> Any:
    from deepspeed.model_implementations.transformers.ds_transformer import DeepSpeedTransformerInference

    return DeepSpeedTransformerInference
