"""Facts that the text itself tells: what its traceback was doing, and what command lines and banners say."""

from __future__ import annotations

import re

from core.oom.facts import Facts, facts_from
from core.oom.known import find_model
from core.oom.paste import Pasted

BEFORE, AFTER, MOST = 16_000, 2_000, 24_000
"""Characters around the errors that are read: a traceback and the command above it, and all that is read at most."""


ENGINES = (
    ("vllm/", "vllm"),
    ("vllmserve", "vllm"),
    ("sglang/", "sglang"),
    ("text_generation_server", "tgi"),
    ("text_generation_launcher", "tgi"),
    ("llama.cpp", "llama.cpp"),
    ("ggml_", "llama.cpp"),
    ("llama_model_load", "llama.cpp"),
    ("llama_kv_cache", "llama.cpp"),
    ("ollama", "llama.cpp"),
    ("mlx_lm", "mlx"),
    ("[metal::malloc]", "mlx"),
    ("comfyui", "comfyui"),
    ("tensorrt_llm", "tensorrt_llm"),
    ("tensorrt-llm", "tensorrt_llm"),
    ("deepspeed/inference", "deepspeed"),
    ("deepspeed.init_inference", "deepspeed"),
    ("openvino", "openvino"),
    ("transformers/", "transformers"),
)

_IS = r"(?: of| is)?[\"']?[= :]{1,12}"
_FLAGS = {
    "batch_size": (("batch",), rf"batch[_ -]?size{_IS}(\d{{1,7}})\b"),
    "prompt_tokens": (
        ("prompt", "input", "seq", "cutoff"),
        rf"(?:(?<!max_)(?:prompt|input)[_ -](?:tokens|length|len)|max_prompt_length|cutoff_len|max_seq_length"
        rf"|seq(?:uence)?_len(?:gth)?){_IS}(\d{{1,8}})\b",
    ),
    "new_tokens": (("new", "output"), rf"(?:new[_ -]tokens|output[_ -]len){_IS}(\d{{1,8}})\b"),
    "max_seq_len": (
        ("max", "ctx"),
        rf"(?:max_seq_len|max-model-len|max_model_len|n_ctx(?:_per_seq)?|num_ctx|ctx[_-]size){_IS}(\d{{1,8}})\b",
    ),
    "tp_size": (
        ("paral", "tp", "shard"),
        rf"(?:tensor[_-]parallel[_-]size|tp[_-]size|mp_size|num[_-]shard|--tp){_IS}(\d{{1,4}})\b",
    ),
    "num_beams": (("beams",), rf"num[_ -]beams{_IS}(\d{{1,4}})\b"),
    "max_out_tokens": (("max_out",), rf"max_out_tokens{_IS}(\d{{1,8}})\b"),
    "dtype": (
        ("dtype",),
        rf"(?:torch_)?dtype{_IS}[\"']?(?:torch\.)?(bfloat16|float16|float32|half|bf16|fp16|fp32|f16|f32)\b",
    ),
    "attn_implementation": (("attn_",), rf"attn_implementation{_IS}[\"']?(eager|sdpa|flash_attention_2)\b"),
    "device_map": (("device_map",), rf"device_map{_IS}[\"']?(\w{{1,20}})"),
}
"""Words, one of which must be there for the pattern to be worth its time, and the pattern."""

_SHAPE = re.compile(r"input_ids.{0,40}?torch\.size\(\[(\d{1,6}), ?(\d{1,8})\]\)")
_MODEL = re.compile(
    r"(?:from_pretrained\(\s{0,40}[\"']?|--model(?:_name_or_path|-path|_id|-id)?[= ]\s{0,4}[\"']?|vllm serve "
    r"|ollama (?:run|pull) |\b(?:base_)?model(?:_name|_id|_path|_name_or_path)?(?:\s{0,4}[=:]\s{0,4}[\"']|: )"
    r"|_name_or_path[\"']: [\"']|loaded meta data .{0,80}? from |\s-m )([\w./\\:-]{2,200})"
)
_SIZE_SAID = re.compile(r"(?<=\d)[bm]\d?(?![a-z0-9])")
SENTENCE = 60
"""Characters before a size such as 7b in which the model's name is looked for."""
_VERSION = re.compile(
    r"(?<![\w.])(pytorch|torch|transformers|deepspeed)(?:`|__)?(?:[ ._-]{0,2}(?:info: )?(?:__)?version(?:__)?)?`?"
    r"(?: \(gpu\?\))?(?:[ \t]{0,60}(?:==|[:=|@(-])[ \t]{0,60}|[ \t]{1,60})[\"'`v]{0,2}(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)"
)
_QUANTISED = re.compile(r"(?<![a-z0-9])(?:gptq|awq|nf4|bnb-4bit|i?q[2-8]_[0-9k](?:_[a-z0-9]{1,2})?)(?![a-z0-9])")
_SEGMENTS = re.compile(r"expandable_segments:true(?!toavoid)")
_WINDOWS = re.compile(r"[A-Za-z]:\\(?:Users|Program|AI|\w{1,30}\\)|site-packages\\")
_COMPILED = {name: (words, re.compile(pattern)) for name, (words, pattern) in _FLAGS.items()}


def read_facts(pasted: Pasted, first: int, last: int) -> Facts:
    """What a text tells around its errors, which begin at `first` and end at `last`. The last word on a fact counts."""
    end = min(len(pasted.text), last + AFTER)
    start = max(0, first - BEFORE, end - MOST)
    part = pasted.text[start:end]
    close, lower = pasted.squeezed_between(start, end), part.lower()
    given: dict[str, object] = {}
    for match in _SHAPE.finditer(lower):
        given["batch_size"], given["prompt_tokens"] = match[1], match[2]
    for name, (words, pattern) in _COMPILED.items():
        if any(word in lower for word in words):
            for match in pattern.finditer(lower):
                given[name] = match[1]
    given["model"] = _model(part, lower)
    given["versions"] = {"torch" if m[1] == "pytorch" else m[1]: m[2] for m in _VERSION.finditer(lower)}
    given["engine"] = next((engine for mark, engine in ENGINES if mark in close), None)
    if "kernel_inject=true" in close or "deepspeed/ops/transformer/inference" in close:
        given["kernel_inject"] = True
    if "load_in_4bit=true" in close:
        given["dtype"] = "int4"
    elif "load_in_8bit=true" in close:
        given["dtype"] = "int8"
    elif "dtype" not in given:
        given["dtype"] = next((match[0] for match in _QUANTISED.finditer(lower)), None)
    if _SEGMENTS.search(close):
        given["allocator"] = "expandable_segments:True"
    if re.search(r"\bmig\b.{0,40}?\dg\.\d{1,3}gb", lower):
        given["mig"] = True
    if _WINDOWS.search(part):
        given["platform"] = "windows"
    elif "/mnt/c/" in close or "wsl" in close:
        given["platform"] = "wsl"
    return facts_from(given)


def _model(part: str, lower: str) -> str | None:
    """The last one that is loaded by name, else the only one that the text speaks of: two may be a comparison."""
    named = [match[1] for match in _MODEL.finditer(part)]
    known = [name for name in named if find_model(name)]
    if known:
        return known[-1]
    said = {lower[max(0, m.end() - SENTENCE) : m.end()].rpartition("\n")[2] for m in _SIZE_SAID.finditer(lower)}
    spoken = {found[0] for words in sorted(said)[:50] if (found := find_model(words))}
    return spoken.pop() if len(spoken) == 1 else None
