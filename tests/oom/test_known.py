"""Names of public models, as people write them, and the sizes that follow."""

from __future__ import annotations

import pytest

from core.oom.dims import dims_of
from core.oom.known import find_model, known_configs


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("bigscience/bloomz-7b1", "bloom-7b1"),
        ("bigscience/bloom", "bloom-176b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"),
        ("Qwen2.5-Coder-32B", "qwen2.5-32b"),
        ("Qwen/Qwen2-VL-7B-Instruct", "qwen2-7b"),
        ("Qwen1.5-7B-Chat", "qwen1.5-7b"),
        ("Qwen/Qwen-7B", "qwen-7b"),
        ("01-ai/Yi-1.5-9B-Chat", "yi-9b"),
        ("Yi-34B-200K", "yi-34b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"),
        ("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo"),
        ("llama3", "llama-3-8b"),
        ("llama3:70b", "llama-3-70b"),
        ("Llama 2 70B", "llama-2-70b"),
        ("llama-2-7b.Q4_K_M.gguf", "llama-2-7b"),
        ("/opt/models/llama-30b", "llama-30b"),
        ("models--meta-llama--Llama-2-7b-hf", "llama-2-7b"),
        ("internlm/internlm2_5-7b-chat", "internlm2-7b"),
        ("stabilityai/stablelm-2-1_6b", "stablelm-2-1.6b"),
        ("google/gemma-2b", "gemma-2b"),
        ("google/gemma-2-2b", "gemma-2-2b"),
        ("openai-community/gpt2-medium", "gpt2-medium"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b"),
    ],
)
def test_a_name_as_people_write_it(name: str, model: str) -> None:
    found = find_model(name)
    assert found is not None
    assert found[0] == model


@pytest.mark.parametrize(
    "name",
    [
        "llama-3-13b",
        "llama.cpp",
        "llama",
        "some/own-model-7b",
        "Qwen/Qwen2-Audio-7B",
        "deepseek-v3",
        "mamba-2.8b",
        "opt",
    ],
)
def test_what_is_not_known_is_not_guessed(name: str) -> None:
    assert find_model(name) is None


MILLIONS = {
    "qwen2.5-7b": 7616,
    "mixtral-8x7b": 46703,
    "mixtral-8x22b": 140630,
    "qwen3-30b": 30532,
    "gemma-2-9b": 9242,
    "gpt-oss-20b": 20915,
    "internlm2-1.8b": 1889,
    "granite-3-2b": 2534,
    "falcon-180b": 179522,
    "yi-34b": 34389,
    "phi-4-mini": 3836,
    "mistral-nemo": 12248,
    "command-r-plus": 103811,
    "starcoder": 15517,
    "bloom-176b": 176247,
    "llama-3.1-405b": 405853,
}
"""As the models' own pages count them."""


@pytest.mark.parametrize("name", MILLIONS)
def test_sizes_add_up_to_the_published_number_of_parameters(name: str) -> None:
    assert (dims_of(name, None).parameters or 0) / 1e6 == pytest.approx(MILLIONS[name], rel=0.02)


def test_a_name_that_holds_its_size_is_about_that_large() -> None:
    """A slip in a row of the table would show as another number of parameters than the name says."""
    for name in known_configs():
        sizes = [word for word in name.split("-") if word[:1].isdigit() and word[-1:] in "bm" and "x" not in word]
        if sizes:
            said = float(sizes[0][:-1]) * (1e9 if sizes[0].endswith("b") else 1e6)
            assert (dims_of(name, None).parameters or 0) == pytest.approx(said, rel=0.4), name


def test_keys_that_are_compressed_are_not_computed() -> None:
    config = {
        "hidden_size": 7168,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "kv_lora_rank": 512,
        "vocab_size": 129280,
    }
    dims = dims_of(None, config)
    assert (dims.kv_heads, dims.kv_bytes(1, 1, 2), dims.vocab) == (None, None, 129280)
