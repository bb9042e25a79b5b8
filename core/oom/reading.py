"""Facts that the text itself tells: what its traceback was doing, and what command lines and banners say."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.oom.facts import Facts, facts_from
from core.oom.known import find_model
from core.oom.paste import Pasted

BEFORE, AFTER, MOST = 16_000, 2_000, 24_000
"""Characters around the errors that are read: a traceback and the command above it, and all that is read at most."""


@dataclass(frozen=True)
class Site:
    """Something a frame's line shows, in squeezed text, and the kind of tensor it makes."""

    mark: str
    kind: str


SITES = (
    Site("logits=logits.float()", "logits_all"),
    Site("lm_logits.float()", "logits_all"),
    Site("=self.lm_head(", "logits"),
    Site("lm_logits=self.lm_head", "logits"),
    Site(".float()#upcast", "logits_all"),
    Site("next_token_logits", "logits_last"),
    Site("softmax(attn_weights", "scores"),
    Site("attn_weights=torch.matmul", "scores"),
    Site("torch.matmul(query", "scores"),
    Site("attn_weights=attn_weights+", "scores"),
    Site("baddbmm(", "scores"),
    Site("scaled_dot_product_attention(", "scores"),
    Site("_prepare_4d_causal", "mask"),
    Site("_update_causal_mask", "mask"),
    Site("causal_mask=", "mask"),
    Site("torch.cat([self.key_cache", "kv"),
    Site("torch.cat([self.keys", "kv"),
    Site("torch.cat((past_key", "kv"),
    Site("cache_utils.py", "kv"),
    Site("repeat_kv(", "kv"),
    Site("self.act_fn(self.gate_proj", "activation"),
    Site("self.down_proj(", "activation"),
    Site("returnt.to(", "weights"),
    Site("module._apply(", "weights"),
    Site("self._apply(", "weights"),
    Site("load_state_dict(", "weights"),
    Site("_load_state_dict_into", "weights"),
    Site("set_module_tensor_to_device", "weights"),
    Site("nn.parameter(torch.empty(", "weights"),
    Site("torch.empty((out_features", "weights"),
    Site(".cuda()", "weights"),
    Site("create_weights(", "weights"),
    Site("from_pretrained(", "weights"),
    Site("caching_allocator_warmup", "weights"),
    Site("dequantize_4bit", "dequantised"),
    Site("dequantize_blockwise", "dequantised"),
    Site("matmul4bit", "dequantised"),
    Site("matmul_4bit", "dequantised"),
    Site("dequantize(", "dequantised"),
    Site("dequantize_awq", "dequantised"),
    Site("_sync_module_states", "ddp"),
    Site("_broadcast_coalesced", "ddp"),
    Site("distributeddataparallel(", "ddp"),
    Site("autocast_mode", "autocast"),
    Site(".backward(", "backward"),
    Site("genworkspace", "deepspeed"),
)

ENGINES = (
    ("vllm/", "vllm"),
    ("text_generation_server", "tgi"),
    ("llama.cpp", "llama.cpp"),
    ("ggml_", "llama.cpp"),
    ("mlx_lm", "mlx"),
    ("[metal::malloc]", "mlx"),
    ("comfyui", "comfyui"),
    ("tensorrt_llm", "tensorrt_llm"),
    ("deepspeed/inference", "deepspeed"),
    ("deepspeed.init_inference", "deepspeed"),
    ("openvino", "openvino"),
    ("transformers/", "transformers"),
)

_FLAGS = {
    "batch_size": r"batch[_-]?size[= :]{1,3}(\d{1,7})\b",
    "prompt_tokens": r"(?:prompt[_-](?:tokens|length)|input[_-]len|max_prompt_length)[= :]{1,3}(\d{1,8})\b",
    "new_tokens": r"(?:new[_-]tokens|max_new_tokens|output[_-]len)[= :]{1,3}(\d{1,8})\b",
    "max_seq_len": r"(?:max_seq_len|max-model-len|max_model_len|max_length|n_ctx)[= :]{1,3}(\d{1,8})\b",
    "tp_size": r"(?:tensor[_-]parallel[_-]size|tp[_-]size|mp_size)[= :]{1,3}(\d{1,4})\b",
    "num_beams": r"num[_-]beams[= :]{1,3}(\d{1,4})\b",
    "max_out_tokens": r"max_out_tokens[= :]{1,3}(\d{1,8})\b",
    "dtype": r"(?:torch_dtype|dtype)[= :]{1,3}[\"']?(?:torch\.)?(bfloat16|float16|float32|half|bf16|fp16|fp32)\b",
    "attn_implementation": r"attn_implementation[= :]{1,3}[\"']?(eager|sdpa|flash_attention_2)\b",
    "device_map": r"device_map[= :]{1,3}[\"']?(\w{1,20})",
}
_MODEL = re.compile(
    r"(?:from_pretrained\(\s{0,40}[\"']?|--model(?:_name_or_path|-path|_id)?[= ]\s{0,4}[\"']?"
    r"|\bmodel(?:_name|_id|_path|_name_or_path)?\s{0,4}[=:]\s{0,4}[\"'])([\w./\\:-]{2,200})"
)
_VERSION = re.compile(
    r"\b(torch|transformers|deepspeed)(?:[ _-]?version)?(?:==|[ :=]{1,3})v?(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)"
)
_COMPILED = {name: re.compile(pattern) for name, pattern in _FLAGS.items()}


def read_facts(pasted: Pasted, first: int, last: int) -> Facts:
    """What a text tells around its errors, which begin at `first` and end at `last`. The last word on a fact counts."""
    end = min(len(pasted.text), last + AFTER)
    start = max(0, first - BEFORE, end - MOST)
    part = pasted.text[start:end]
    close, lower = pasted.squeezed_between(start, end), part.lower()
    given: dict[str, object] = {}
    for name, pattern in _COMPILED.items():
        for match in pattern.finditer(lower):
            given[name] = match[1]
    models = [match[1] for match in _MODEL.finditer(part)]
    known = [name for name in models if find_model(name)]
    if known:
        given["model"] = known[-1]
    given["versions"] = {match[1]: match[2] for match in _VERSION.finditer(lower)}
    given["engine"] = next((engine for mark, engine in ENGINES if mark in close), None)
    if "kernel_inject=true" in close or "deepspeed/ops/transformer/inference" in close:
        given["kernel_inject"] = True
    if "load_in_4bit=true" in close:
        given["dtype"] = "int4"
    elif "load_in_8bit=true" in close:
        given["dtype"] = "int8"
    if re.search(r"[A-Za-z]:\\(?:Users|Program|AI|\w{1,30}\\)|site-packages\\", part):
        given["platform"] = "windows"
    elif "/mnt/c/" in close or "wsl" in close:
        given["platform"] = "wsl"
    return facts_from({name: value for name, value in given.items() if name != "model"} | {"model": given.get("model")})


def site_before(squeezed: str) -> Site | None:
    """The last of the known lines in `squeezed`, the text before an error: the frame that failed stands last."""
    window = squeezed[-6000:]
    start = window.rfind("traceback(mostrecentcalllast)")
    window = window[start:] if start >= 0 else window
    found = [(window.rfind(site.mark), site) for site in SITES]
    place, site = max(found, key=lambda pair: pair[0])
    return site if place >= 0 else None
