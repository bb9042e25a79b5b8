"""Where an error was raised: lines of code, or of an engine's own log, that show what kind of tensor was made."""

from __future__ import annotations

from dataclasses import dataclass


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
    Site("einsum(bid,bjd->bij", "scores"),
    Site("get_attention_scores(", "scores"),
    Site("auto_gptq/", "dequantised"),
    Site("gptqmodel/", "dequantised"),
    Site("qlinear", "dequantised"),
    Site("awq/modules", "dequantised"),
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
    Site("caching_allocator_warmup", "warmup"),
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
    Site("llama_kv_cache", "kv_cache"),
    Site("kv_cache_unified", "kv_cache"),
    Site("ggml_gallocr_reserve", "compute"),
    Site("load_tensors:", "weights_all"),
    Site("_initialize_kv_caches", "kv_cache"),
    Site("_allocate_kv_cache", "kv_cache"),
    Site("determine_num_available_blocks", "profile"),
    Site("determine_available_memory", "profile"),
    Site("profile_run", "profile"),
    Site("capture_model(", "graphs"),
)

AFTER = (
    Site("bufferforkvcache", "kv_cache"),
    Site("failedforself-attentioncache", "kv_cache"),
    Site("gallocr_reserve", "compute"),
    Site("computeppbuffers", "compute"),
    Site("computebuffers", "compute"),
    Site("unabletoallocatecuda", "weights_all"),
    Site("unabletoallocaterocm", "weights_all"),
    Site("unabletoallocatevulkan", "weights_all"),
    Site("unabletoallocatesycl", "weights_all"),
    Site("unabletoallocatebackendbuffer", "weights_all"),
    Site("errorloadingmodel", "weights_all"),
)
"""What llama.cpp says after a buffer was refused: what it was for. The first that is found counts."""


def site_before(squeezed: str) -> Site | None:
    """The last of the known lines in `squeezed`, the text before an error: the frame that failed stands last."""
    window = squeezed[-6000:]
    start = window.rfind("traceback(mostrecentcalllast)")
    window = window[start:] if start >= 0 else window
    found = [(window.rfind(site.mark), site) for site in SITES]
    place, site = max(found, key=lambda pair: pair[0])
    return site if place >= 0 else None


def site_after(squeezed: str) -> Site | None:
    """What an engine says in `squeezed`, the text that an error begins, about what it was for."""
    window = squeezed[:2500]
    return next((site for site in AFTER if site.mark in window), None)
