"""Model folders, configs and weights that somebody else made, on a server that others reach."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest

from core.oom import facts_from
from core.spec.document import read_document
from core.spec.errors import InvalidSpec, VramscopeError
from core.spec.matrix import expand
from core.spec.model_source import resolve
from core.spec.roots import limit_models, readable
from core.spec.run_spec import RunSpec, parse_spec
from core.spec.safetensors import parameter_count
from tests.spec.folders import entry, model_folder, safetensors_bytes, tiny_config, whole_file


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder below which this server takes models."""
    root = tmp_path / "offered"
    root.mkdir()
    monkeypatch.setenv("VRAMSCOPE_MODEL_ROOTS", "")  # so that it is taken back afterwards
    limit_models([str(root)])
    return root


def refusal(model: str | Path, **fields: Any) -> str:
    with pytest.raises(InvalidSpec) as caught:
        resolve(parse_spec({"model": str(model), **fields}))
    return str(caught.value)


def test_what_is_offered_is_taken(offered: Path) -> None:
    folder = model_folder(offered)
    (folder / "model.safetensors").write_bytes(whole_file())
    assert resolve(parse_spec({"model": str(folder)})).parameters == 10
    assert resolve(parse_spec({"model": "gpt2"})).kind == "preset"


def test_climbing_out_is_refused_in_words_that_do_not_tell_what_is_there(offered: Path, tmp_path: Path) -> None:
    there = model_folder(tmp_path, name="secret")
    ways = [
        str(there), f"{offered}/../secret", f"{offered}/x/../../secret", "/etc", "/", "~", "~root", "../secret",
        "/proc/self/cwd", str(tmp_path / "not-there"), f"{offered}/../not-there", f"{offered}-beside/x",
    ]  # fmt: skip
    said = {refusal(way).replace(repr(way), "'…'") for way in ways}
    assert said == {
        f"model folder '…' is none of those that this server offers (below {offered}); "
        "give one of them, a preset or a hub id"
    }


def test_links_that_lead_out_are_refused(offered: Path, tmp_path: Path) -> None:
    there = model_folder(tmp_path, name="secret")
    (there / "model.safetensors").write_bytes(whole_file())
    (offered / "link").symlink_to(there)
    assert "none of those that this server offers" in refusal(offered / "link")
    inside = offered / "config-link"
    inside.mkdir()
    (inside / "config.json").symlink_to(there / "config.json")
    assert "config.json is a link to outside" in refusal(inside)
    weights = model_folder(offered, name="weights-link")
    (weights / "model.safetensors").symlink_to(there / "model.safetensors")
    assert "model.safetensors is a link to outside" in refusal(weights, weights="load")
    index = model_folder(offered, name="index-link")
    (index / "model.safetensors.index.json").symlink_to(there / "config.json")
    assert "model.safetensors.index.json is a link to outside" in refusal(index, weights="load")
    (offered / "loop").symlink_to(offered / "loop")
    assert not readable(Path("a\0b"))
    assert "none of those" in refusal(offered / "loop") or "has no config" in refusal(offered / "loop")


def test_a_link_inside_of_what_is_offered_is_fine(offered: Path) -> None:
    """The cache of the hub is made of such links."""
    folder = model_folder(offered, name="blobs")
    (folder / "model.safetensors").write_bytes(whole_file())
    snapshot = offered / "snapshot"
    snapshot.mkdir()
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).symlink_to(folder / name)
    assert resolve(parse_spec({"model": str(snapshot)})).parameters == 10


def test_diagnose_reads_no_file_outside(offered: Path, tmp_path: Path) -> None:
    there = model_folder(tmp_path, name="secret")
    assert facts_from({"model": str(there)}).config is None
    assert facts_from({"config": str(there / "config.json")}).config is None
    assert facts_from({"model": str(model_folder(offered))}).config


HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**63, 2**64, 10**400, 1.5, float("nan"), float("inf"), "", "F32", "BF16",
    "x" * 10_000, [], [0], [-1], [2**63], [2, 2, 2], [[]], [None], ["2"], [1.0], [10**400] * 50, list(range(1000)), {},
    {"a": 1}, [0, 2**63], [12, 0], [0, 12, 24],
)  # fmt: skip


@pytest.mark.parametrize("field", ["dtype", "shape", "data_offsets", "whole entry", "metadata", "name"])
def test_every_field_of_a_safetensors_header_replaced(tmp_path: Path, field: str) -> None:
    path = tmp_path / "model.safetensors"
    for value in HOSTILE_VALUES:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}, "a": entry(0, 12, [2, 3])}
        if field == "metadata":
            header["__metadata__"] = value
        elif field == "name":
            header[str(value)] = header.pop("a")
        elif field == "whole entry":
            header["a"] = value
        else:
            header["a"][field] = value
        path.write_bytes(safetensors_bytes(header, bytes(12)))
        try:
            count = parameter_count(path)
        except InvalidSpec as error:
            assert len(str(error)) < 300
            assert "\n" not in str(error)
        else:
            assert count in (0, 6), f"{field}={value!r}"


@pytest.mark.parametrize("length", [0, 1, 7, 10**6, 2**31, 2**63, 2**64 - 1])
def test_every_length_of_the_header(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + whole_file()[8:])
    with pytest.raises(InvalidSpec, match="is damaged or cut off"):
        parameter_count(path)


def test_a_shape_of_very_many_or_very_large_axes_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_bytes({"a": {**entry(0, 12, [10**4000] * 5000)}}, bytes(12)))
    with pytest.raises(InvalidSpec, match="has no proper entry"):
        parameter_count(path)


class Payload:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch /tmp/vramscope-was-here",)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "adapter.bin", "weights.ckpt", "consolidated.00.pth"]
)
def test_pickled_weights_are_refused_unread(tmp_path: Path, name: str) -> None:
    folder = model_folder(tmp_path)
    (folder / name).write_bytes(pickle.dumps(Payload()))
    said = refusal(folder, weights="load")
    assert "pickled weights, which can run code" in said
    assert not Path("/tmp/vramscope-was-here").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"auto_map": {"AutoModelForCausalLM": "evil.Model"}},
        {"_attn_implementation_internal": "evil/kernel"},
        {"text_config": {"_attn_implementation_internal": "evil/kernel"}},
        {"vision_config": {"text_config": {"auto_map": {"AutoConfig": "evil.C"}}}},
        {"_experts_implementation": "evil/kernel"},
    ],
)
def test_configs_that_name_code_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    assert "code" in refusal(model_folder(tmp_path, tiny_config(**change)))


NUMBERS: tuple[Any, ...] = (
    -1,
    0,
    -(10**30),
    10**30,
    2**63,
    float("nan"),
    float("inf"),
    -0.5,
    "1e9",
    "-1",
    "٣",
    True,
    None,
    [],
    {},
)


@pytest.mark.parametrize("name", [name for name, info in RunSpec.model_fields.items() if name not in ("model",)])
def test_absurd_numbers_in_a_spec_are_refused_or_harmless(name: str) -> None:
    for value in NUMBERS:
        try:
            spec = parse_spec({"model": "gpt2", name: value})
        except InvalidSpec as error:
            assert len(str(error)) < 600
            assert "\n" not in str(error)
        else:
            assert parse_spec(spec.to_dict()) == spec
            assert json.loads(json.dumps(spec.to_dict(), allow_nan=False)) == spec.to_dict()


def test_a_matrix_of_billions_is_refused_before_it_is_made() -> None:
    many = [str(n) for n in range(1, 3000)]
    with pytest.raises(InvalidSpec, match="500"):
        expand({"model": ["gpt2"], "batch_size": many, "prompt_tokens": many, "new_tokens": many})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.json", "[" * 100_000),
        ("deep.json", '{"a":' * 100_000),
        ("deep.yaml", "[" * 100_000),
        ("deep.yaml", "- " * 100_000 + "x"),
        ("aliases.yaml", "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n"),
        ("merge.yaml", "a: &a {x: 1}\nb:\n  <<: *a\n"),
        ("python.yaml", "!!python/object/apply:os.system ['touch /tmp/vramscope-was-here']\n"),
        ("tag.yaml", "!!python/name:os.system ''\n"),
        ("digits.json", '{"a": ' + "9" * 100_000 + "}"),
        ("twice.json", '{"model": "gpt2", "model": "gpt2"}'),
    ],
)
def test_documents_that_explode_or_execute_are_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(VramscopeError) as caught:
        read_document(path)
    assert "\n" not in str(caught.value)
    assert not Path("/tmp/vramscope-was-here").exists()
