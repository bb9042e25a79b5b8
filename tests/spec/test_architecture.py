"""Architecture against the models that transformers builds, on the meta device."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from math import prod
from typing import Any

import pytest

from core.spec.architecture import Architecture
from core.spec.families import FAMILIES
from core.spec.presets import preset_folder, preset_names
from tests.spec.folders import tiny_config

Shapes = dict[str, tuple[int, ...]]


@pytest.fixture(scope="module")
def real_shapes() -> Callable[[dict[str, Any]], Shapes]:
    """Names and shapes of the parameters of the model that transformers builds from a config."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    def build(config: dict[str, Any]) -> Shapes:
        given = {key: value for key, value in config.items() if key != "model_type"}
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **given))
        return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}

    return build


def architecture(config: dict[str, Any]) -> Architecture:
    found = Architecture.from_config(config)
    assert found is not None
    return found


def preset(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((preset_folder(name) / "config.json").read_text())
    return config


SMALL = {"num_hidden_layers": 2}
VARIANTS: dict[str, dict[str, Any]] = {
    "llama biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True, **SMALL},
    "llama tied": {"model_type": "llama", "tie_word_embeddings": True, **SMALL},
    "llama head_dim": {"model_type": "llama", "head_dim": 96, "num_key_value_heads": 4, **SMALL},
    "qwen2 null kv heads": {"model_type": "qwen2", "num_key_value_heads": None, "num_attention_heads": 8, **SMALL},
    "qwen2 no kv heads": {"model_type": "qwen2", "num_attention_heads": 64, **SMALL},
    "qwen3 bias": {"model_type": "qwen3", "attention_bias": True, **SMALL},
    "gemma bias": {"model_type": "gemma", "attention_bias": True, **SMALL},
    "gemma untied": {"model_type": "gemma", "tie_word_embeddings": False, **SMALL},
    "gemma2 bias": {"model_type": "gemma2", "attention_bias": True, **SMALL},
    "gpt_neox no bias": {"model_type": "gpt_neox", "attention_bias": False, **SMALL},
    "gpt2 untied": {"model_type": "gpt2", "tie_word_embeddings": False, "n_inner": 100, "n_layer": 2},
    "bloom by its old names": {"model_type": "bloom", "n_embed": 128, "num_attention_heads": 4, "n_layer": 2},
    "phi3 grouped": {"model_type": "phi3", "num_key_value_heads": 8, **SMALL},
    "opt": {"model_type": "opt", "word_embed_proj_dim": 768, "do_layer_norm_before": True, **SMALL},
}
CONFIGS = (
    {f"preset {name}": preset(name) for name in preset_names()}
    | {f"default {name}": {"model_type": name} for name in FAMILIES}
    | VARIANTS
)


@pytest.mark.xdist_group("transformers on the meta device")  # so that one process imports torch
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_names_shapes_and_count_are_those_of_the_model(
    config: dict[str, Any], real_shapes: Callable[[dict[str, Any]], Shapes]
) -> None:
    real = real_shapes(config)
    found = architecture(config)
    assert found.parameter_shapes() == real
    assert found.parameter_count() == sum(prod(shape) for shape in real.values())


def test_every_family_has_a_preset_or_a_default_that_is_built() -> None:
    assert {preset(name)["model_type"] for name in preset_names()} <= set(FAMILIES)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-7b", 6_738_415_616),
        ("gpt2", 124_439_808),
        ("mistral-7b", 7_241_732_096),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("qwen2.5-0.5b", 494_032_768),
        ("bloom-560m", 559_214_592),
        ("gemma-2b", 2_506_172_416),
        ("phi-2", 2_779_683_840),
        ("opt-6.7b", 6_658_473_984),
    ],
)
def test_published_parameter_counts(name: str, parameters: int) -> None:
    assert architecture(preset(name)).parameter_count() == parameters


def test_dimensions_under_one_set_of_names() -> None:
    llama = architecture(preset("llama-3.1-8b"))
    assert (llama.hidden, llama.layers, llama.heads, llama.kv_heads, llama.head_dim) == (4096, 32, 32, 8, 128)
    assert (llama.intermediate, llama.vocab, llama.max_positions, llama.window) == (14_336, 128_256, 131_072, None)
    assert (llama.gated_mlp, llama.tied, llama.learned_positions) == (True, False, False)
    assert llama.kv_bytes_per_token(2) == 2 * 32 * 8 * 128 * 2
    gpt2 = architecture(preset("gpt2"))
    assert (gpt2.hidden, gpt2.layers, gpt2.heads, gpt2.kv_heads, gpt2.intermediate) == (768, 12, 12, 12, 3072)
    assert (gpt2.gated_mlp, gpt2.tied, gpt2.learned_positions, gpt2.max_positions) == (False, True, True, 1024)
    assert architecture(preset("opt-1.3b")).learned_positions
    assert architecture(preset("mistral-7b")).window == 4096
    assert architecture(preset("qwen2.5-7b")).window is None
    assert architecture({**preset("mistral-7b"), "sliding_window": None}).window is None


def test_a_family_without_a_table_gives_only_what_its_config_says() -> None:
    config = tiny_config(model_type="brandnew")
    del config["tie_word_embeddings"], config["intermediate_size"]
    found = architecture(config)
    assert (found.hidden, found.layers, found.kv_heads, found.head_dim) == (256, 4, 4, 32)
    assert (found.gated_mlp, found.tied, found.intermediate) == (None, None, None)
    assert found.parameter_shapes() is None and found.parameter_count() is None
    assert architecture(tiny_config(model_type="brandnew")).parameter_shapes() is None


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "opt", "hidden_size": 1024, "num_attention_heads": 16, "word_embed_proj_dim": 512},  # opt-350m
        {"model_type": "opt", "do_layer_norm_before": False},
        {"model_type": "phi", "qk_layernorm": True},
        {"model_type": "gpt2", "add_cross_attention": True},
    ],
)
def test_a_variant_that_the_table_does_not_hold_for_is_unknown(config: dict[str, Any]) -> None:
    assert architecture(config).parameter_count() is None


def test_a_config_without_dimensions_is_no_architecture() -> None:
    assert Architecture.from_config({}) is None
    assert Architecture.from_config({"model_type": "brandnew", "hidden_size": 4}) is None
