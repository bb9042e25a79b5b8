"""A job traced from load to its last pass. The code is the worker's own; only the tensors have no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers.generation.stopping_criteria
import transformers.modeling_utils
from torch.nn import functional

from core.runfolder.modules import ROOT
from core.simulate.card import HOST, SimulatedCard
from core.simulate.deepspeed import patched, taken_over
from core.simulate.errors import NotSimulated
from core.simulate.extend import LEAST, extended
from core.simulate.gpu import Gpu
from core.simulate.outside import Outside
from core.simulate.stream import Stream
from core.simulate.tracing.attention import CardAttention
from core.simulate.tracing.mode import CardMode
from core.simulate.tracing.pretend import Patches, pretend_card
from core.spec.cards import Card
from core.worker.inputs import make_inputs, prepare_cache
from core.worker.jobs import JOBS, modes
from core.worker.model import build_model, describe_model
from core.worker.wrap import start_process_group, unwrapped, wrap_ddp

RECORDED = LEAST + 2
"""Decode steps of the shorter job that a longer one is worked out from; the last has what a job does at its end."""


@dataclass
class Traced:
    """`model`: what result.json says of it. `tensors`: (name, kind, number of its allocation, bytes of its storage)."""

    stream: Stream
    model: dict[str, Any] = field(default_factory=dict)
    tensors: list[tuple[str, str, int, int]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    deepspeed: dict[str, Any] | None = None
    extended_steps: int = 0


def trace(
    spec: Mapping[str, Any], source: Mapping[str, Any], config_folder: Path, card: Card, *, full: bool = False
) -> Traced:
    """The stream of `spec` on `card`, to its last pass; with `full` every step is traced.

    Raises NotSimulated for what cannot be, and whatever the job raises.
    """
    _check(spec)
    steps = _passes_after_the_first(spec)
    if not full and steps > RECORDED and spec["repeats"] == 1:
        traced = _run(spec, source, config_folder, card, RECORDED)
        if extended(traced.stream, steps):
            traced.extended_steps = steps - RECORDED
            return traced
    return _run(spec, source, config_folder, card, None)


def _passes_after_the_first(spec: Mapping[str, Any]) -> int:
    return 0 if spec["job"] == "forward" else int(spec["new_tokens"]) - 1


def _check(spec: Mapping[str, Any]) -> None:
    if spec["attn_implementation"] == "flash_attention_2":
        raise NotSimulated("attn_implementation=flash_attention_2 is not simulated yet; use sdpa, or a GPU")


def _run(
    spec: Mapping[str, Any], source: Mapping[str, Any], config_folder: Path, card: Card, stop_after: int | None
) -> Traced:
    gpu, stream = Gpu.of(card), Stream()
    outside = Outside(stream, card.libraries)
    traced = Traced(stream)
    device: Any = SimulatedCard(card, stream)
    model: Any = None
    with pretend_card() as patches:
        mode = CardMode(
            gpu, stream, outside, lambda: type(unwrapped(model)).__name__ if model is not None else "the model"
        )
        if spec["engine"] == "deepspeed":
            patched(patches, mode, spec)
        patches.set(functional, "scaled_dot_product_attention", CardAttention(mode, gpu))
        with mode:
            stream.mark("phase", "device context")
            outside.context()
            if spec["wrap"] == "ddp" or spec["engine"] == "deepspeed":
                stream.mark("phase", "process group")
                start_process_group(device)
            stream.mark("phase", "load")
            torch.manual_seed(int(spec["seed"]))
            model = _loaded(spec, source, config_folder, device, traced.warnings)
            traced.model = describe_model(model)
            if spec["engine"] == "deepspeed":
                stream.mark("phase", "engine")
                model, traced.deepspeed = taken_over(model, spec, device, traced.warnings)
            traced.tensors = _tensors(model, mode)
            if spec["wrap"] == "ddp":
                stream.mark("phase", "wrap")
                outside.nccl()
                model = wrap_ddp(model, device, spec)
            stream.mark("phase", "inputs")
            prepare_cache(dict(spec), device, traced.warnings)
            ids, mask = make_inputs(dict(spec), int(unwrapped(model).config.vocab_size), device)
            inner = unwrapped(model)
            _attach(inner, mode)
            _attach_steps(inner if spec["job"] == "generate" else model, mode)
            job = dict(spec)
            if stop_after is not None:
                _stop_early(patches, job, stop_after + 1)
            output = None
            for _ in range(int(spec["repeats"])):
                output = None
                stream.mark("phase", "prefill")
                mode.passes = 0
                with modes(job, "cuda"):
                    output, _shape = JOBS[spec["job"]](model, ids, mask, job)
            stream.mark("end")
            stream.closed = True
            del output, ids, mask, inner
            model = None
    stream.closed = False
    return traced


def _loaded(
    spec: Mapping[str, Any], source: Mapping[str, Any], config_folder: Path, device: Any, warnings: list[str]
) -> Any:
    """The model on the card. Saved weights are not read: a model built from its config has the same tensors."""
    if spec["weights"] == "random" or spec["placement"] != "device_map":
        random = {**spec, "weights": "random"}
        if spec["weights"] == "load" and spec["placement"] == "device":
            random["placement"] = "host"  # from_pretrained fills a model on the host unless it has a device_map
        return build_model(random, dict(source), config_folder, device, warnings)
    on_host = {**spec, "weights": "random", "placement": "host"}
    model = build_model(on_host, dict(source), config_folder, HOST, warnings)
    if hasattr(transformers.modeling_utils, "caching_allocator_warmup"):
        # one block as large as the model is asked for and freed, and the tensors come out of it
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        torch.empty(size // 2, dtype=torch.float16, device=device.name)
    return model.to(device.name)


def _tensors(model: Any, mode: CardMode) -> list[tuple[str, str, int, int]]:
    found = []
    named = [("parameter", *pair) for pair in model.named_parameters()]
    named += [("buffer", *pair) for pair in model.named_buffers()]
    for kind, name, tensor in named:
        number = mode.storages.number_of(tensor.untyped_storage())
        if number is not None:
            found.append((name, kind, number, tensor.untyped_storage().nbytes()))
    return found


def _attach(model: Any, mode: CardMode) -> None:
    """Tell the mode which module is at work, and whether the model's own code runs."""
    open_modules: list[str] = []

    def enter(name: str) -> Any:
        def hook(*_: Any) -> None:
            open_modules.append(name)
            mode.module, mode.in_forward = name, True

        return hook

    def leave(*_: Any) -> None:
        open_modules.pop()
        mode.module = open_modules[-1] if open_modules else None
        mode.in_forward = bool(open_modules)

    for name, module in model.named_modules():
        module.register_forward_pre_hook(enter(name or ROOT))
        module.register_forward_hook(leave)


def _stop_early(patches: Patches, job: dict[str, Any], tokens: int) -> None:
    """Let the job end after so many new tokens, while everything in it is sized for the length that it was given."""
    if job["job"] == "loop":
        job["new_tokens"] = tokens  # nothing in it is sized ahead
        return
    criterion = transformers.generation.stopping_criteria.MaxLengthCriteria
    real, length = criterion.__call__, int(job["prompt_tokens"]) + tokens

    def sooner(self: Any, *args: Any, **kwargs: Any) -> Any:
        given, self.max_length = self.max_length, min(self.max_length, length)
        try:
            return real(self, *args, **kwargs)
        finally:
            self.max_length = given

    patches.set(criterion, "__call__", sooner)


def _attach_steps(module: Any, mode: CardMode) -> None:
    def before(*_: Any) -> None:
        if mode.passes:
            mode.stream.mark("step")
        mode.passes += 1

    # first of its hooks: what a step begins with is its own
    handle = module.register_forward_pre_hook(before)
    module._forward_pre_hooks.move_to_end(handle.id, last=False)
