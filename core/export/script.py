"""A reproduction script: plain torch and transformers (and DeepSpeed), with the model's config written into it.

It does what a run's worker does (core/worker: model, wrap, inputs, jobs), so that anyone can see the same peaks without
VRAMscope. No weights, no hub token: random weights take the same memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder
from core.spec.errors import InvalidSpec, NoSuchRun

DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}
GRAD = {"inference_mode": "torch.inference_mode()", "no_grad": "torch.no_grad()", "grad": "torch.enable_grad()"}
SAMPLING = ("temperature", "top_k", "top_p", "cache_implementation")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}")


def script_of(folder: RunFolder) -> str:
    """The script for the run in `folder`.

    Raises NoSuchRun without a readable run, InvalidSpec for one that a script of random weights cannot repeat.
    """
    document, config = read_json(folder.spec), read_json(folder.model_config)
    if document is None or config is None:
        raise NoSuchRun(f"{folder.run_id} has no readable spec and config; it is not a run")
    spec: dict[str, Any] = document["spec"]
    if spec["placement"] == "device_map":
        raise InvalidSpec(
            f"{folder.run_id} loaded weights with a device_map, which a script without weights cannot repeat"
        )
    result = read_json(folder.result) or {}
    on_card = spec["device"] != "cpu"
    lines = [_head(folder.run_id, spec, result), _settings(spec, on_card), _imports(spec)]
    lines += [_smaller_card(spec, on_card), _config(config)]
    lines += [_model(spec, on_card), _wrap(spec, on_card), _inputs(spec, on_card), _job(spec, on_card), _peaks(on_card)]
    return "\n".join(part for part in lines if part) + "\n"


def _head(run_id: str, spec: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    versions = result.get("versions") or {}
    said = ", ".join(
        f"{name} {versions[name]}"
        for name in ("python", "torch", "transformers", "deepspeed", "driver")
        if _VERSION.fullmatch(str(versions.get(name) or ""))
    )
    peak = result.get("peak") or {}
    lines = [
        f'"""Repeats run {run_id}: {spec["batch_size"]} x {spec["prompt_tokens"]} + {spec["new_tokens"]} tokens, '
        f"{spec['dtype']}, {spec['engine']}.",
        "",
        f"Recorded with {said or 'versions that were not recorded'}.",
        f"Peaks there: allocated {peak.get('allocated')}, reserved {peak.get('reserved')} bytes (torch's counters).",
    ]
    if spec.get("capacity_mib"):
        lines.append(f"A second process keeps the card so full that {spec['capacity_mib']} MiB are free at the start.")
    return "\n".join([*lines, '"""'])


def _settings(spec: Mapping[str, Any], on_card: bool) -> str:
    if not (spec.get("allocator") and on_card):
        return ""
    conf = json.dumps(str(spec["allocator"]))
    return f'import os\n\nos.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = {conf}\n'


HOLDER = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
kept = torch.empty(free - (int(sys.argv[1]) << 20), dtype=torch.uint8, device='cuda')
print('ready', flush=True)
sys.stdin.read()  # until the script has ended, however it ends
"""


def _smaller_card(spec: Mapping[str, Any], on_card: bool) -> str:
    if not (spec["capacity_mib"] and on_card):
        return ""
    lines = ["import subprocess", "", f'HOLDER = """{HOLDER}"""']
    command = f"[sys.executable, '-c', HOLDER, '{int(spec['capacity_mib'])}']"
    lines += [
        f"holder = subprocess.Popen({command}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)",
        "assert holder.stdout.readline() == b'ready\\n', 'the rest of the card could not be held'\n",
    ]
    return "\n".join(lines)


def _imports(spec: Mapping[str, Any]) -> str:
    lines = ["import json", "import sys", "", "import torch", "import transformers"]
    if spec["engine"] == "deepspeed":
        lines.append("import deepspeed")
    if spec["wrap"] == "ddp" or spec["engine"] == "deepspeed":
        lines.append("import os\nimport torch.distributed as dist")
    lines.append("from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig")
    return "\n".join(lines)


def _config(config: Mapping[str, Any]) -> str:
    model_type = json.dumps(str(config.get("model_type", "")))
    rest = {key: value for key, value in config.items() if key not in ("model_type", "auto_map", "_name_or_path")}
    text = json.dumps(json.dumps(rest))
    return f"\nconfig = AutoConfig.for_model({model_type}, **json.loads({text}))\n"


def _model(spec: Mapping[str, Any], on_card: bool) -> str:
    where = "torch.device('cuda:0')" if on_card and spec["placement"] == "device" else "torch.device('cpu')"
    lines = [
        f"torch.manual_seed({int(spec['seed'])})",
        "new = int(transformers.__version__.split('.')[0]) >= 5",
        f"how = {{'dtype' if new else 'torch_dtype': {DTYPES[spec['dtype']]}}}",
        "if tuple(int(n) for n in transformers.__version__.split('.')[:2]) >= (4, 36):",
        f"    how['attn_implementation'] = {json.dumps(spec['attn_implementation'])}",
    ]
    if on_card:
        lines += ["torch.cuda.set_device(0)", "torch.cuda.synchronize()"]
    lines += [f"with {where}:", "    model = AutoModelForCausalLM.from_config(config, **how)"]
    if on_card and spec["placement"] == "host" and spec["engine"] == "transformers":
        lines.append("model = model.to('cuda:0')")
    lines += [
        "model.eval()",
        "settings = GenerationConfig.from_model_config(model.config)",
        "settings.eos_token_id, settings.pad_token_id, settings.bos_token_id = None, 0, 1",
        "if hasattr(settings, 'disable_compile'):",
        "    settings.disable_compile = True",
        "model.generation_config = settings",
    ]
    return "\n".join(lines)


def _wrap(spec: Mapping[str, Any], on_card: bool) -> str:
    lines = []
    if spec["wrap"] == "ddp" or spec["engine"] == "deepspeed":
        lines += [
            "for name, value in (('RANK', '0'), ('LOCAL_RANK', '0'), ('WORLD_SIZE', '1')):",
            "    os.environ.setdefault(name, value)",
        ]
        if not on_card:
            lines.append("os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')")
        backend = "nccl" if on_card else "gloo"
        lines.append(f"dist.init_process_group('{backend}', store=dist.HashStore(), rank=0, world_size=1)")
    if spec["engine"] == "deepspeed":
        options = f"tensor_parallel={{'tp_size': 1}}, dtype={DTYPES[spec['dtype']]}, "
        options += f"replace_with_kernel_inject={bool(spec['kernel_inject'])}"
        if spec["max_out_tokens"] is not None:
            options += f", max_out_tokens={int(spec['max_out_tokens'])}"
        lines.append(f"model = deepspeed.init_inference(model, {options}).module")
    wrapped = "model"
    if spec["wrap"] == "ddp":
        wrapped = f"torch.nn.parallel.DistributedDataParallel(model, device_ids={'[0]' if on_card else 'None'})"
        if spec["engine"] == "deepspeed" and spec["job"] == "generate":
            wrapped += ".module"  # the worker lets go of this wrapper too
    lines.append(f"wrapped = {wrapped}")
    return "\n".join(lines)


def _inputs(spec: Mapping[str, Any], on_card: bool) -> str:
    device = "cuda:0" if on_card else "cpu"
    lines = []
    if on_card and spec["empty_cache_before_generate"]:
        lines.append("torch.cuda.empty_cache()")
    total = int(spec["prefill_cache_mib"])
    if on_card and total:
        sizes = [250] * (total // 250) + [total % 250] * bool(total % 250)
        lines += [f"pieces = [torch.empty(n << 20, dtype=torch.uint8, device='cuda:0') for n in {sizes}]", "del pieces"]
    shape = f"({int(spec['batch_size'])}, {int(spec['prompt_tokens'])})"
    lines += [
        f"ids = torch.full({shape}, min(7, model.config.vocab_size - 1), dtype=torch.long, device='{device}')",
        f"mask = torch.ones({shape}, dtype=torch.long, device='{device}')",
    ]
    if spec["padding"]:
        lines += [f"ids[0, :{int(spec['padding'])}] = 0", f"mask[0, :{int(spec['padding'])}] = 0"]
    return "\n".join(lines)


def _job(spec: Mapping[str, Any], on_card: bool) -> str:
    contexts = [GRAD[spec["grad_mode"]]]
    if spec["autocast"] != "none":
        contexts.append(f"torch.autocast('{'cuda' if on_card else 'cpu'}', dtype={DTYPES[spec['autocast']]})")
    work = {"generate": _generate(spec), "forward": _forward(spec), "loop": _loop(spec)}[spec["job"]]
    lines = ["output = None", "try:", f"    for _ in range({int(spec['repeats'])}):"]
    lines += ["        output = None", f"        torch.manual_seed({int(spec['seed'])})"]
    lines += [f"        with {', '.join(contexts)}:", *(f"            {line}" for line in work)]
    if on_card:
        lines.append("            torch.cuda.synchronize()")
    lines += ["except RuntimeError as error:", "    print(type(error).__name__, error, file=sys.stderr)"]
    return "\n".join(lines)


def _generate(spec: Mapping[str, Any]) -> list[str]:
    options = {name: spec[name] for name in SAMPLING if spec[name] is not None}
    if spec["num_beams"] != 1:
        options["num_beams"] = spec["num_beams"]
    said = "".join(f", {name}={value!r}" for name, value in options.items())
    return [
        f"output = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens={int(spec['new_tokens'])}, "
        f"do_sample={bool(spec['do_sample'])}, use_cache={bool(spec['use_cache'])}{said})"
    ]


def _forward(spec: Mapping[str, Any]) -> list[str]:
    return [f"output = wrapped(input_ids=ids, attention_mask=mask, use_cache={bool(spec['use_cache'])})"]


def _loop(spec: Mapping[str, Any]) -> list[str]:
    return [
        "past, current, grown = None, ids, mask",
        f"for _ in range({int(spec['new_tokens'])}):",
        "    output = wrapped(input_ids=current, attention_mask=grown, past_key_values=past, use_cache=True)",
        "    token = output.logits[:, -1:].argmax(-1)",
        "    past, current = output.past_key_values, token",
        "    grown = torch.cat([grown, grown.new_ones((grown.shape[0], 1))], dim=1)",
    ]


def _peaks(on_card: bool) -> str:
    if on_card:
        return (
            "print(json.dumps({'allocated': torch.cuda.max_memory_allocated(), "
            "'reserved': torch.cuda.max_memory_reserved()}))"
        )
    return (
        "import resource\n\nprint(json.dumps({'host_rss': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))"
    )
