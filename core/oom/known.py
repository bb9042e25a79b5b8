"""Sizes of public models that people paste errors of, beyond the presets: as published in their config.json files.

A row: model_type, hidden, layers, heads, kv heads, feed-forward, vocabulary. They are only used to recognise sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from core.spec.config_check import read_config
from core.spec.presets import preset_folder, preset_names

_ROWS: dict[str, tuple[str, int, int, int, int, int, int]] = {
    "llama-13b": ("llama", 5120, 40, 40, 40, 13824, 32000),
    "llama-30b": ("llama", 6656, 60, 52, 52, 17920, 32000),
    "llama-65b": ("llama", 8192, 80, 64, 64, 22016, 32000),
    "llama-2-70b": ("llama", 8192, 80, 64, 8, 28672, 32000),
    "llama-3-8b": ("llama", 4096, 32, 32, 8, 14336, 128256),
    "llama-3-70b": ("llama", 8192, 80, 64, 8, 28672, 128256),
    "llama-3.1-405b": ("llama", 16384, 126, 128, 8, 53248, 128256),
    "llama-3.2-3b": ("llama", 3072, 28, 24, 8, 8192, 128256),
    "llama-3.3-70b": ("llama", 8192, 80, 64, 8, 28672, 128256),
    "codellama-7b": ("llama", 4096, 32, 32, 32, 11008, 32016),
    "codellama-13b": ("llama", 5120, 40, 40, 40, 13824, 32016),
    "codellama-34b": ("llama", 8192, 48, 64, 8, 22016, 32000),
    "vicuna-7b": ("llama", 4096, 32, 32, 32, 11008, 32000),
    "vicuna-13b": ("llama", 5120, 40, 40, 40, 13824, 32000),
    "internlm-7b": ("llama", 4096, 32, 32, 32, 11008, 103168),
    "baichuan-7b": ("llama", 4096, 32, 32, 32, 11008, 64000),
    "baichuan2-7b": ("llama", 4096, 32, 32, 32, 11008, 125696),
    "yi-6b": ("llama", 4096, 32, 32, 4, 11008, 64000),
    "yi-34b": ("llama", 7168, 60, 56, 8, 20480, 64000),
    "deepseek-llm-7b": ("llama", 4096, 30, 32, 32, 11008, 102400),
    "deepseek-coder-33b": ("llama", 7168, 62, 56, 8, 19200, 32256),
    "llama-4-scout": ("llama4", 5120, 48, 40, 8, 16384, 202048),
    "mistral-nemo": ("mistral", 5120, 40, 32, 8, 14336, 131072),
    "qwen-7b": ("qwen", 4096, 32, 32, 32, 11008, 151936),
    "qwen2-0.5b": ("qwen2", 896, 24, 14, 2, 4864, 151936),
    "qwen2-7b": ("qwen2", 3584, 28, 28, 4, 18944, 152064),
    "qwen2-72b": ("qwen2", 8192, 80, 64, 8, 29568, 152064),
    "qwen2.5-3b": ("qwen2", 2048, 36, 16, 2, 11008, 151936),
    "qwen2.5-14b": ("qwen2", 5120, 48, 40, 8, 13824, 152064),
    "qwen2.5-32b": ("qwen2", 5120, 64, 40, 8, 27648, 152064),
    "qwen2.5-72b": ("qwen2", 8192, 80, 64, 8, 29568, 152064),
    "qwen3-4b": ("qwen3", 2560, 36, 32, 8, 9728, 151936),
    "qwen3-14b": ("qwen3", 5120, 40, 40, 8, 17408, 151936),
    "qwen3-32b": ("qwen3", 5120, 64, 64, 8, 25600, 151936),
    "gemma-7b": ("gemma", 3072, 28, 16, 16, 24576, 256000),
    "gemma-2-9b": ("gemma2", 3584, 42, 16, 8, 14336, 256000),
    "gemma-2-27b": ("gemma2", 4608, 46, 32, 16, 36864, 256000),
    "opt-2.7b": ("opt", 2560, 32, 32, 32, 10240, 50272),
    "opt-13b": ("opt", 5120, 40, 40, 40, 20480, 50272),
    "opt-30b": ("opt", 7168, 48, 56, 56, 28672, 50272),
    "opt-66b": ("opt", 9216, 64, 72, 72, 36864, 50272),
    "opt-175b": ("opt", 12288, 96, 96, 96, 49152, 50272),
    "bloom-1b7": ("bloom", 2048, 24, 16, 16, 8192, 250880),
    "bloom-3b": ("bloom", 2560, 30, 32, 32, 10240, 250880),
    "bloom-176b": ("bloom", 14336, 70, 112, 112, 57344, 250880),
    "bloom": ("bloom", 14336, 70, 112, 112, 57344, 250880),
    "gpt-j-6b": ("gptj", 4096, 28, 16, 16, 16384, 50400),
    "gpt-neox-20b": ("gpt_neox", 6144, 44, 64, 64, 24576, 50432),
    "pythia-410m": ("gpt_neox", 1024, 24, 16, 16, 4096, 50304),
    "pythia-6.9b": ("gpt_neox", 4096, 32, 32, 32, 16384, 50432),
    "pythia-12b": ("gpt_neox", 5120, 36, 40, 40, 20480, 50688),
    "gpt2-medium": ("gpt2", 1024, 24, 16, 16, 4096, 50257),
    "gpt2-large": ("gpt2", 1280, 36, 20, 20, 5120, 50257),
    "falcon-7b": ("falcon", 4544, 32, 71, 1, 18176, 65024),
    "falcon-40b": ("falcon", 8192, 60, 128, 8, 32768, 65024),
    "chatglm2-6b": ("chatglm", 4096, 28, 32, 2, 13696, 65024),
    "chatglm3-6b": ("chatglm", 4096, 28, 32, 2, 13696, 65024),
    "starcoder": ("gpt_bigcode", 6144, 40, 48, 1, 24576, 49152),
    "mpt-7b": ("mpt", 4096, 32, 32, 32, 16384, 50432),
    "mpt-30b": ("mpt", 7168, 48, 64, 64, 28672, 50432),
    "phi-3-mini": ("phi3", 3072, 32, 32, 32, 8192, 32064),
    "phi-3-medium": ("phi3", 5120, 40, 40, 10, 17920, 32064),
    "stablelm-3b": ("stablelm", 2560, 32, 32, 32, 6912, 50304),
}

_ALIASES = {
    "bloomz": "bloom",
    "gpt-j": "gpt-j-6b",
    "gptj-6b": "gpt-j-6b",
    "gptj": "gpt-j-6b",
    "meta-llama-3-8b": "llama-3-8b",
    "gpt-neox": "gpt-neox-20b",
    "alpaca-7b": "llama-7b",
    "llama2-7b": "llama-2-7b",
    "llama2-13b": "llama-2-13b",
    "llama2-70b": "llama-2-70b",
    "llama3-8b": "llama-3-8b",
    "llama3-70b": "llama-3-70b",
    "llama1-7b": "llama-7b",
    "zephyr-7b": "mistral-7b",
    "llava-1.5-7b": "vicuna-7b",
    "llava-v1.5-7b": "vicuna-7b",
    "codellama-70b": "llama-2-70b",
}

TIED = {"opt", "bloom", "gpt2", "gemma", "gemma2"}
TIED_NAMES = {"qwen2-0.5b", "qwen2.5-3b", "qwen3-4b", "llama-3.2-3b"}


@cache
def known_configs() -> Mapping[str, Mapping[str, Any]]:
    """Configs by name: the presets, then the table above."""
    found: dict[str, Mapping[str, Any]] = {
        name: read_config(preset_folder(name) / "config.json") for name in preset_names()
    }
    for name, (model_type, hidden, layers, heads, kv_heads, intermediate, vocab) in _ROWS.items():
        config: dict[str, Any] = {
            "model_type": model_type,
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "intermediate_size": intermediate,
            "vocab_size": vocab,
            "tie_word_embeddings": model_type in TIED or name in TIED_NAMES,
        }
        if model_type in ("qwen3", "gemma", "gemma2"):
            config["head_dim"] = 256 if model_type == "gemma" or name == "gemma-2-9b" else 128
        found.setdefault(name, config)
    return found


@cache
def known_vocabularies() -> tuple[int, ...]:
    """The sizes of vocabulary that public models have."""
    sizes = {config.get("vocab_size") for config in known_configs().values()}
    return tuple(sorted(size for size in sizes if isinstance(size, int) and size > 10_000))


def _words(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()[:300])


@cache
def _names() -> tuple[tuple[str, str], ...]:
    """What a name may contain, longest first, and the config it stands for."""
    pairs = [(_words(name), name) for name in known_configs() if name != "tiny-llama"] + list(_ALIASES.items())
    return tuple(sorted(pairs, key=lambda pair: -len(pair[0])))


def find_model(name: str) -> tuple[str, Mapping[str, Any]] | None:
    """The model that `name` (a preset, a hub id, a file's name) speaks of, if it is one that is known here."""
    if name in known_configs():
        return name, known_configs()[name]
    words = f"-{_words(name)}-"
    for part, known in _names():
        if f"-{part}-" in words:
            return known, known_configs()[known]
    return None


TYPES = (
    "llama",
    "vicuna",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma",
    "gpt2",
    "opt",
    "bloom",
    "phi3",
    "phi",
    "gptj",
    "falcon",
    "gpt_neox",
)
_TYPE_WORDS = {
    "vicuna": "llama",
    "internlm": "llama",
    "alpaca": "llama",
    "pythia": "gpt_neox",
    "neox": "gpt_neox",
    "qwen2.5": "qwen2",
    "gpt-j": "gptj",
}


def type_in_name(name: str) -> str | None:
    """The model type that a name hints at: `opt-30b` is an opt, whatever its sizes."""
    words = _words(name)
    hints: Iterator[tuple[str, str]] = iter([*_TYPE_WORDS.items(), *((word, word) for word in TYPES)])
    return next((model_type for word, model_type in hints if re.search(rf"(?:^|[-.]){re.escape(word)}", words)), None)
