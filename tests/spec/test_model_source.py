"""Presets and folders: what is found, and what is refused before anything is queued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.spec.errors import InvalidSpec, NotAvailable, VramscopeError
from core.spec.model_source import ModelSource, resolve
from core.spec.presets import preset_names
from core.spec.run_spec import parse_spec
from tests.spec.folders import model_folder, tiny_config, whole_file


def found(model: str | Path, **fields: Any) -> ModelSource:
    return resolve(parse_spec({"model": str(model), **fields}))


def refusal(model: str | Path, error: type[VramscopeError] = InvalidSpec, **fields: Any) -> str:
    with pytest.raises(error) as caught:
        found(model, **fields)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_every_preset_is_found() -> None:
    assert len(preset_names()) >= 18
    for name in preset_names():
        source = found(name)
        assert (source.kind, source.name, source.parameters) == ("preset", name, None)
        assert source.path is not None and (source.path / "config.json").is_file()


def test_a_preset_has_no_weights_and_no_revision() -> None:
    assert "preset gpt2 is a config without weights; use weights=random" in refusal("gpt2", weights="load")
    assert "revision belongs to a hub id, and gpt2 is none" in refusal("gpt2", revision="main")


def test_near_names_are_offered_for_an_unknown_preset() -> None:
    assert "there is no preset 'lama-7b'; did you mean llama-7b" in refusal("lama-7b")
    assert "mistral-7b" in refusal("Mistral7B")
    assert "did you mean" in refusal("zzzzzz")


@pytest.mark.parametrize("model", ["/no/such/folder", "./none", "~/none-such", "~no-such-user/x", "a/b/c", "C:\\none"])
def test_a_folder_that_is_missing(model: str) -> None:
    assert "does not exist; give a folder with config.json" in refusal(model)


def test_a_folder_with_a_config_is_random_and_one_with_weights_loads(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    source = found(folder)
    assert (source.kind, source.path, source.parameters) == ("folder", folder.resolve(), None)
    assert source.config == tiny_config()
    (folder / "model.safetensors").write_bytes(whole_file())
    assert found(folder).parameters == 10
    assert found(folder, weights="random").parameters is None


def test_a_config_without_architectures_will_do(tmp_path: Path) -> None:
    config = tiny_config()
    del config["architectures"]
    assert found(model_folder(tmp_path, config)).config["model_type"] == "llama"


CONFIGS: dict[str, tuple[Any, str]] = {
    "not json": ("{nope", "is not JSON"),
    "empty": ("", "is not JSON"),
    "deep": ('{"a":' * 100_000, "nested too deep"),
    "a list": ("[]", "has no model_type"),
    "no type": ({"hidden_size": 4}, "has no model_type"),
    "number of digits": ('{"model_type": "llama", "hidden_size": ' + "9" * 5000 + "}", "is not JSON"),
    "large": (" " * (4 * 2**20 + 1), "larger than 4 MiB"),
    "negative": (tiny_config(num_hidden_layers=-3), "num_hidden_layers is -3; it has to be a whole number up to 2,000"),
    "zero": (tiny_config(num_attention_heads=0), "num_attention_heads is 0"),
    "absurd": (tiny_config(hidden_size=10**15), "hidden_size is 1000000000000000"),
    "text": (tiny_config(vocab_size="32000"), "vocab_size is 32000; it has to be a whole number"),
    "true": (tiny_config(num_hidden_layers=True), "num_hidden_layers is True"),
    "fraction": (tiny_config(intermediate_size=1.5), "intermediate_size is 1.5"),
    "not a number": ('{"model_type": "llama", "hidden_size": NaN}', "hidden_size is nan"),
    "null": (tiny_config(hidden_size=None), "hidden_size is None"),
    "inside": ({"model_type": "gemma3", "text_config": {"num_hidden_layers": 10**9}}, "num_hidden_layers is 10000"),
    "remote code": (tiny_config(auto_map={"AutoModelForCausalLM": "m.M"}), "does not execute"),
    "remote code inside": (tiny_config(text_config={"auto_map": {"AutoConfig": "m.C"}}), "does not execute"),
    "kernel": (tiny_config(_attn_implementation_internal="org/kernel"), "_internal, which can name"),
    "experts": (tiny_config(_experts_implementation_internal="x"), "_experts_implementation_internal"),
    "public kernel": (tiny_config(attn_implementation="org/kernel"), "sets attn_implementation"),
    "private": (tiny_config(_attn_implementation="eager"), "remove it, use --attn-implementation"),
}  # fmt: skip


@pytest.mark.parametrize(("config", "message"), CONFIGS.values(), ids=CONFIGS.keys())
def test_configs_that_are_refused(tmp_path: Path, config: Any, message: str) -> None:
    assert message in refusal(model_folder(tmp_path, config))


def test_what_published_configs_have_is_not_refused(tmp_path: Path) -> None:
    config = tiny_config(_attn_implementation_autoset=True, num_key_value_heads=None, n_inner=None, auto_map={})
    assert found(model_folder(tmp_path, config)).config == config
    listed = {"model_type": "gemma3n", "text_config": {"intermediate_size": [8192, 16384]}}
    assert found(model_folder(tmp_path, listed, "listed")).kind == "folder"


def test_a_quantised_config_is_not_available_yet(tmp_path: Path) -> None:
    folder = model_folder(tmp_path, tiny_config(quantization_config={"quant_method": "gptq", "bits": 4}))
    assert "is quantised, which is not supported yet" in refusal(folder, NotAvailable)


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    assert "has no config.json; a model folder needs one" in refusal(tmp_path)
    (tmp_path / "config.json").mkdir()
    assert "has no config.json" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "consolidated.00.pth", "m.pt"]
)
def test_pickled_weights_are_refused_unless_weights_are_random(tmp_path: Path, name: str) -> None:
    folder = model_folder(tmp_path)
    (folder / name).write_bytes(b"\x80\x04.")
    said = refusal(folder)
    assert name in said and "convert them to safetensors" in said and "weights=random" in said
    assert found(folder, weights="random").parameters is None


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    assert "no safetensors to load; use weights=random" in refusal(model_folder(tmp_path), weights="load")


def test_safetensors_that_transformers_would_not_load(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    (folder / "consolidated.safetensors").write_bytes(whole_file())
    assert "has consolidated.safetensors but neither model.safetensors nor" in refusal(folder)


def test_damaged_weights_are_found(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    (folder / "model.safetensors").write_bytes(whole_file()[:-1])
    assert "model.safetensors is damaged or cut off" in refusal(folder)


def sharded(tmp_path: Path, index: Any) -> Path:
    folder = model_folder(tmp_path)
    for number in (1, 2):
        (folder / f"model-0000{number}-of-00002.safetensors").write_bytes(whole_file())
    text = index if isinstance(index, str) else json.dumps(index)
    (folder / "model.safetensors.index.json").write_text(text)
    return folder


def test_shards_that_the_index_names_are_counted(tmp_path: Path) -> None:
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    folder = sharded(tmp_path, {"weight_map": names})
    assert found(folder).parameters == 20
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "lacks 'model-00002-of-00002.safetensors', which its index names" in refusal(folder)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "does not list the shards"),
        ("[" * 100_000, "does not list the shards"),
        ({}, "does not list the shards"),
        ({"weight_map": []}, "does not list the shards"),
        ({"weight_map": {}}, "names no shard"),
        ({"weight_map": {"a": "../../etc/passwd"}}, "lacks '../../etc/passwd'"),
        ({"weight_map": {"a": "x" * 5000}}, "lacks 'xxx"),
        ({"weight_map": {"a": "a\0b"}}, "lacks"),
    ],
    ids=["cut", "deep", "empty", "list", "none", "outside", "long", "null"],
)
def test_an_index_that_will_not_do(tmp_path: Path, index: Any, message: str) -> None:
    assert message in refusal(sharded(tmp_path, index))
