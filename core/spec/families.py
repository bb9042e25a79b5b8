"""Families of models as tables, in transformers 5's names; `core/spec/family.py` says what the letters mean.

Source: transformers 5.17, models/<type>/{modeling,configuration}_<type>.py. Tests build every preset and every family's
default on the meta device and compare names and shapes.
"""

from __future__ import annotations

from core.spec.family import Family, Row, Switch, linear, norm, sizes

_HEAD: tuple[Row, ...] = (("lm_head.weight", ("v", "d")),)

_LLAMA_OUTER: tuple[Row, ...] = (("model.embed_tokens.weight", ("v", "d")), ("model.norm.weight", ("d",)))

_LLAMA_LAYER: tuple[Row, ...] = (
    ("self_attn.q_proj.weight", ("q", "d")),
    ("self_attn.k_proj.weight", ("kv", "d")),
    ("self_attn.v_proj.weight", ("kv", "d")),
    ("self_attn.o_proj.weight", ("d", "q")),
    ("mlp.gate_proj.weight", ("f", "d")),
    ("mlp.up_proj.weight", ("f", "d")),
    ("mlp.down_proj.weight", ("d", "f")),
    ("input_layernorm.weight", ("d",)),
    ("post_attention_layernorm.weight", ("d",)),
)

_QKV_BIAS: tuple[Row, ...] = (
    ("self_attn.q_proj.bias", ("q",)),
    ("self_attn.k_proj.bias", ("kv",)),
    ("self_attn.v_proj.bias", ("kv",)),
)
_ATTENTION_BIAS = Switch("attention_bias", False, (*_QKV_BIAS, ("self_attn.o_proj.bias", ("d",))))
_MLP_BIAS = Switch(
    "mlp_bias", False, (("mlp.gate_proj.bias", ("f",)), ("mlp.up_proj.bias", ("f",)), ("mlp.down_proj.bias", ("d",)))
)
_QK_NORM: tuple[Row, ...] = (("self_attn.q_norm.weight", ("hd",)), ("self_attn.k_norm.weight", ("hd",)))
_GEMMA2_NORMS: tuple[Row, ...] = (
    ("pre_feedforward_layernorm.weight", ("d",)),
    ("post_feedforward_layernorm.weight", ("d",)),
)

FAMILIES: dict[str, Family] = {
    "llama": Family(
        _LLAMA_OUTER,
        "model.layers",
        _LLAMA_LAYER,
        _HEAD,
        sizes(4096, 32, 32, 32_000, 2048, intermediate=11_008),
        switches=(_ATTENTION_BIAS, _MLP_BIAS),
        gated_mlp=True,
    ),
    "mistral": Family(
        _LLAMA_OUTER,
        "model.layers",
        _LLAMA_LAYER,
        _HEAD,
        sizes(4096, 32, 32, 32_000, 131_072, intermediate=14_336, kv_heads=8, window=4096),
        gated_mlp=True,
    ),
    "qwen2": Family(
        _LLAMA_OUTER,
        "model.layers",
        (*_LLAMA_LAYER, *_QKV_BIAS),
        _HEAD,
        sizes(4096, 32, 32, 151_936, 32_768, intermediate=22_016, kv_heads=32),
        gated_mlp=True,
    ),
    "qwen3": Family(
        _LLAMA_OUTER,
        "model.layers",
        (*_LLAMA_LAYER, *_QK_NORM),
        _HEAD,
        sizes(4096, 32, 32, 151_936, 32_768, intermediate=22_016, kv_heads=32, head_dim=128),
        switches=(_ATTENTION_BIAS,),
        gated_mlp=True,
    ),
    "gemma": Family(
        _LLAMA_OUTER,
        "model.layers",
        _LLAMA_LAYER,
        _HEAD,
        sizes(3072, 28, 16, 256_000, 8192, intermediate=24_576, kv_heads=16, head_dim=256),
        switches=(_ATTENTION_BIAS,),
        gated_mlp=True,
        tied=True,
    ),
    "gemma2": Family(
        _LLAMA_OUTER,
        "model.layers",
        (*_LLAMA_LAYER, *_GEMMA2_NORMS),
        _HEAD,
        sizes(2304, 26, 8, 256_000, 8192, intermediate=9216, kv_heads=4, head_dim=256, window=4096),
        switches=(_ATTENTION_BIAS,),
        gated_mlp=True,
        tied=True,
    ),
    "phi3": Family(
        _LLAMA_OUTER,
        "model.layers",
        (
            ("self_attn.o_proj.weight", ("d", "q")),
            ("self_attn.qkv_proj.weight", ("qkv", "d")),
            ("mlp.gate_up_proj.weight", ("ff", "d")),
            ("mlp.down_proj.weight", ("d", "f")),
            ("input_layernorm.weight", ("d",)),
            ("post_attention_layernorm.weight", ("d",)),
        ),
        _HEAD,
        sizes(3072, 32, 32, 32_064, 4096, intermediate=8192),
        gated_mlp=True,
    ),
    "gpt2": Family(
        (
            ("transformer.wte.weight", ("v", "d")),
            ("transformer.wpe.weight", ("p", "d")),
            *norm("transformer.ln_f"),
        ),
        "transformer.h",
        (
            *norm("ln_1"),
            # Conv1D holds its weight transposed: (in, out)
            ("attn.c_attn.weight", ("d", "qkv")),
            ("attn.c_attn.bias", ("qkv",)),
            ("attn.c_proj.weight", ("q", "d")),
            ("attn.c_proj.bias", ("d",)),
            *norm("ln_2"),
            ("mlp.c_fc.weight", ("d", "f")),
            ("mlp.c_fc.bias", ("f",)),
            ("mlp.c_proj.weight", ("f", "d")),
            ("mlp.c_proj.bias", ("d",)),
        ),
        _HEAD,
        sizes(768, 12, 12, 50_257, 1024),
        assumes={"add_cross_attention": False},
        tied=True,
        learned_positions=True,
    ),
    "opt": Family(
        (
            ("model.decoder.embed_tokens.weight", ("v", "d")),
            ("model.decoder.embed_positions.weight", ("p", "d")),
            *norm("model.decoder.final_layer_norm"),
        ),
        "model.decoder.layers",
        (
            *linear("self_attn.k_proj", "q", "d"),
            *linear("self_attn.v_proj", "q", "d"),
            *linear("self_attn.q_proj", "q", "d"),
            *linear("self_attn.out_proj", "d", "q"),
            *norm("self_attn_layer_norm"),
            *linear("fc1", "f", "d"),
            *linear("fc2", "d", "f"),
            *norm("final_layer_norm"),
        ),
        _HEAD,
        sizes(768, 12, 12, 50_272, 2048, intermediate=3072),
        assumes={
            "word_embed_proj_dim": "hidden",
            "do_layer_norm_before": True,
            "_remove_final_layer_norm": False,
            "enable_bias": True,
            "layer_norm_elementwise_affine": True,
        },
        tied=True,
        learned_positions=True,
        extra_positions=2,  # OPTLearnedPositionalEmbedding: the first two rows are for padding
    ),
    "gpt_neox": Family(
        (("gpt_neox.embed_in.weight", ("v", "d")), *norm("gpt_neox.final_layer_norm")),
        "gpt_neox.layers",
        (
            *norm("input_layernorm"),
            *norm("post_attention_layernorm"),
            ("attention.query_key_value.weight", ("qkv", "d")),
            ("attention.dense.weight", ("d", "q")),
            *linear("mlp.dense_h_to_4h", "f", "d"),
            *linear("mlp.dense_4h_to_h", "d", "f"),
        ),
        _HEAD,
        sizes(6144, 44, 64, 50_432, 2048, intermediate=24_576),
        switches=(
            Switch(
                "attention_bias",
                True,
                (("attention.query_key_value.bias", ("qkv",)), ("attention.dense.bias", ("d",))),
            ),
        ),
    ),
    "phi": Family(
        (("model.embed_tokens.weight", ("v", "d")), *norm("model.final_layernorm")),
        "model.layers",
        (
            *linear("self_attn.q_proj", "q", "d"),
            *linear("self_attn.k_proj", "kv", "d"),
            *linear("self_attn.v_proj", "kv", "d"),
            *linear("self_attn.dense", "d", "q"),
            *linear("mlp.fc1", "f", "d"),
            *linear("mlp.fc2", "d", "f"),
            *norm("input_layernorm"),
        ),
        (("lm_head.weight", ("v", "d")), ("lm_head.bias", ("v",))),
        sizes(2048, 24, 32, 51_200, 2048, intermediate=8192),
        assumes={"qk_layernorm": False, "tie_word_embeddings": False},
    ),
    "bloom": Family(
        (
            ("transformer.word_embeddings.weight", ("v", "d")),
            *norm("transformer.word_embeddings_layernorm"),
            *norm("transformer.ln_f"),
        ),
        "transformer.h",
        (
            *norm("input_layernorm"),
            *linear("self_attention.query_key_value", "qkv", "d"),
            *linear("self_attention.dense", "d", "q"),
            *norm("post_attention_layernorm"),
            *linear("mlp.dense_h_to_4h", "f", "d"),
            *linear("mlp.dense_4h_to_h", "d", "f"),
        ),
        _HEAD,
        sizes(64, 2, 8, 250_880),
        tied=True,
    ),
}
