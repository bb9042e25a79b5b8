"""The model: built at random from its config.json, or loaded from safetensors, on the device or by way of the host."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

# imported lazily by transformers otherwise: seconds that belong to the imports and not to the load
import transformers.generation.utils
import transformers.modeling_utils
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from core.worker.device import Device
from core.worker.errors import Refused
from core.worker.fill import TiledFill

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def version_of(package: Any) -> tuple[int, ...]:
    """`4.35.2` as (4, 35, 2), so that versions compare."""
    return tuple(int(part) for part in re.findall(r"\d+", package.__version__)[:3])


def build_model(
    spec: dict[str, Any], source: dict[str, Any], config_folder: Path, device: Device, warnings: list[str]
) -> Any:
    """The model of `spec`, on `device` (for an engine that moves it itself, wherever `placement` left it).

    weights `random`: `AutoModelForCausalLM.from_config` with the config.json in `config_folder`; under
    `torch.device("cuda")` with transformers' own initialisation where placement is `device`, so that the allocator sees
    what any script doing this would make it see; on the CPU through `TiledFill`.
    weights `load`: safetensors from `source["path"]` or from the hub; no code of the model's author is run.
    Raises Refused for a combination that cannot be built.
    """
    how: dict[str, Any] = {"dtype" if version_of(transformers) >= (5,) else "torch_dtype": DTYPES[spec["dtype"]]}
    how.update(_attention(spec["attn_implementation"], warnings))
    placement = spec["placement"]
    if spec["weights"] == "random":
        if placement == "device_map":
            raise Refused("placement=device_map loads saved weights; with weights=random use placement device or host")
        config = AutoConfig.from_pretrained(str(config_folder), trust_remote_code=False)
        with _built_on(device, placement), _initialised(device, placement, int(spec["seed"])):
            model = AutoModelForCausalLM.from_config(config, **how)
    else:
        where = _where_saved(spec, source)
        how.update(where.pop("how"), use_safetensors=True, trust_remote_code=False)
        if placement == "device_map":
            how["device_map"] = {"": device.name}
        with _built_on(device, placement):
            model = AutoModelForCausalLM.from_pretrained(where["name"], **how)
    if placement == "host" and spec["engine"] == "transformers":  # DeepSpeed moves a model from the host itself
        model = model.to(device.name)
    model.eval()
    model.generation_config = same_work(model.config)
    return model


def same_work(config: Any) -> Any:
    """Generation settings under which every run does the same work: no early stop, no hidden processor, no compiler.

    Built from the model's config rather than from a generation_config.json that may come with saved weights: whatever
    that says about sampling or minimum lengths would change the memory of a loaded model against a random one.
    """
    settings = GenerationConfig.from_model_config(config)
    settings.eos_token_id, settings.pad_token_id, settings.bos_token_id = None, 0, 1
    if hasattr(settings, "disable_compile"):
        settings.disable_compile = True  # a static cache would otherwise compile the forward pass
    return settings


def describe_model(model: Any) -> dict[str, Any]:
    """The `model` of result.json. Tied parameters count once; bytes are those of the elements."""
    parameters, buffers = list(model.parameters()), list(model.buffers())
    return {
        "class": type(model).__name__,
        "parameters": sum(p.numel() for p in parameters),
        "parameter_bytes": sum(p.numel() * p.element_size() for p in parameters),
        "buffer_bytes": sum(b.numel() * b.element_size() for b in buffers),
        "attn_implementation": getattr(model.config, "_attn_implementation", None) or "eager",
    }


def _attention(wanted: str, warnings: list[str]) -> dict[str, Any]:
    """How this version of transformers is told which attention to use."""
    if version_of(transformers) >= (4, 36):
        return {"attn_implementation": wanted}
    if wanted == "flash_attention_2":
        return {"use_flash_attention_2": True}
    if wanted != "eager":
        warnings.append(f"transformers {transformers.__version__} has no {wanted} attention: eager ran instead")
    return {}


def _where_saved(spec: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    if source["kind"] == "folder":
        return {"name": str(source["path"]), "how": {}}
    if source["kind"] == "hub":
        return {"name": spec["model"], "how": {"revision": spec["revision"]} if spec["revision"] else {}}
    raise Refused(
        f"the preset {spec['model']!r} is a config without weights; use weights=random, or a folder or hub id"
    )


@contextlib.contextmanager
def _built_on(device: Device, placement: str) -> Iterator[None]:
    """Tensors made inside are made on the device when that is where the model belongs."""
    if placement == "device" and device.type != "cpu":
        with torch.device(device.name):
            yield
    else:
        yield


def _initialised(device: Device, placement: str, seed: int) -> contextlib.AbstractContextManager[Any]:
    on_device = placement == "device" and device.type != "cpu"
    return contextlib.nullcontext() if on_device or not device.has_data else TiledFill(seed)
