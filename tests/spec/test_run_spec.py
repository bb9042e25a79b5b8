"""RunSpec: spellings, defaults, refusals, and what is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.spec.errors import InvalidSpec
from core.spec.fields import FIELDS
from core.spec.run_spec import RunSpec, parse_spec


def spec(**fields: Any) -> RunSpec:
    return parse_spec({"model": "tiny-llama", **fields})


@pytest.mark.parametrize(
    ("field", "given", "stored"),
    [
        ("dtype", "bfloat16", "bf16"),
        ("dtype", "torch.bfloat16", "bf16"),
        ("dtype", "half", "fp16"),
        ("dtype", "Float16", "fp16"),
        ("dtype", "torch.float32", "fp32"),
        ("autocast", "bfloat16", "bf16"),
        ("autocast", None, "none"),
        ("autocast", False, "none"),
        ("autocast", "off", "none"),
        ("wrap", "DDP", "ddp"),
        ("wrap", False, "none"),
        ("grad_mode", "no-grad", "no_grad"),
        ("attn_implementation", "FA2", "flash_attention_2"),
        ("cache_implementation", "none", None),
        ("cache_implementation", "Static", "static"),
        ("revision", "none", None),
        ("top_k", "", None),
        ("record_history", "yes", True),
        ("record_modules", "1", True),
        ("record_history", "off", False),
        ("record_history", 0, False),
        ("batch_size", "8", 8),
        ("device", "CUDA:0", "cuda:0"),
        ("device", "cuda:GPU-0aB1-c2", "cuda:GPU-0aB1-c2"),
        ("device", "sim:RTX-A6000", "sim:rtx-a6000"),
        ("weights", "none", "random"),
        ("placement", None, "device"),
    ],
)
def test_other_spellings_are_stored_once(field: str, given: Any, stored: Any) -> None:
    assert getattr(spec(**{field: given}), field) == stored


FAR_FROM_DEFAULT = {
    "model": "some/model",
    "revision": "v1",
    "weights": "load",
    "placement": "device_map",
    "dtype": "fp16",
    "attn_implementation": "eager",
    "device": "cuda:GPU-1",
    "capacity_mib": 48_676,
    "environment": "old",
    "engine": "deepspeed",
    "kernel_inject": True,
    "tp_size": 2,
    "max_out_tokens": 100,
    "wrap": "ddp",
    "autocast": "bf16",
    "grad_mode": "grad",
    "cache_implementation": "static",
    "allocator": "expandable_segments:True,max_split_size_mb:128",
    "empty_cache_before_generate": True,
    "prefill_cache_mib": 10_000,
    "batch_size": 150,
    "prompt_tokens": 35,
    "new_tokens": 37,
    "padding": 3,
    "num_beams": 2,
    "do_sample": True,
    "temperature": 0.7,
    "top_k": 50,
    "top_p": 0.95,
    "seed": 2**63 - 1,
    "repeats": 3,
    "record_interval_ms": 0.1 + 1.2,
    "record_stacks": True,
    "record_modules": True,
    "timeout_s": 1e-3,
}


@pytest.mark.parametrize("fields", [{"model": "gpt2"}, FAR_FROM_DEFAULT], ids=["defaults", "everything set"])
def test_json_round_trip_is_exact(fields: dict[str, Any]) -> None:
    first = parse_spec(fields)
    text = json.dumps(first.to_dict())
    again = parse_spec(json.loads(text))
    assert again == first
    assert json.dumps(again.to_dict()) == text
    assert list(first.to_dict()) == list(FIELDS)
    assert {name: first.to_dict()[name] for name in fields} == fields


def test_a_spec_is_frozen_and_replace_checks_again() -> None:
    first = spec(batch_size=2)
    with pytest.raises(Exception, match="frozen"):
        first.batch_size = 3
    assert first.replace(batch_size=3).batch_size == 3
    assert first.batch_size == 2
    with pytest.raises(InvalidSpec, match="batch_size=0"):
        first.replace(batch_size=0)


def test_weights_and_placement_follow_the_model_and_the_engine(tmp_path: Path) -> None:
    bare, saved, pickled = tmp_path / "bare", tmp_path / "saved", tmp_path / "pickled"
    for folder in (bare, saved, pickled):
        folder.mkdir()
    (bare / "training_args.bin").touch()
    (saved / "model.safetensors").touch()
    (pickled / "pytorch_model.bin").touch()

    def defaults(**fields: Any) -> tuple[str, str]:
        given = parse_spec(fields)
        return given.weights, given.placement

    assert defaults(model="gpt2") == ("random", "device")
    assert defaults(model="gpt2", engine="deepspeed") == ("random", "host")
    assert defaults(model=str(bare)) == ("random", "device")
    assert defaults(model=str(saved)) == ("load", "host")
    assert defaults(model=str(saved), weights="random") == ("random", "device")
    assert defaults(model=str(pickled)) == ("load", "host")  # refused when resolved, not replaced in silence
    assert defaults(model="org/name") == ("load", "host")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"bach_size": 1}, "unknown field 'bach_size'; did you mean batch_size?"),
    ({"zzz": 1}, "unknown field 'zzz'; see"),
    ({"batch_size": 0}, "batch_size=0 will not do; it has to be at least 1"),
    ({"batch_size": -4}, "at least 1"),
    ({"batch_size": 10**18}, "at most 10,000,000"),
    ({"batch_size": "9" * 5000}, "whole number"),
    ({"batch_size": 1.5}, "whole number"),
    ({"batch_size": True}, "batch_size=true will not do"),
    ({"batch_size": [1, 4]}, "a list belongs into a matrix"),
    ({"do_sample": "maybe"}, "true or false"),
    ({"dtype": "int8"}, "dtype=int8 will not do; it is one of bf16, fp16 or fp32"),
    ({"model": ""}, "length has to be at least 1"),
    ({"model": 7}, "text"),
    ({"new_tokens": 0}, "at least 1 .job=forward"),
    ({"padding": 32}, "padding of 32 leaves nothing of 32 prompt tokens"),
    ({"tp_size": 0, "engine": "deepspeed"}, "tp_size=0"),
    ({"do_sample": True, "temperature": 0}, "temperature=0 will not do; it has to be more than 0"),
    ({"do_sample": True, "temperature": "nan"}, "temperature"),
    ({"do_sample": True, "top_p": 1.5}, "at most 1"),
    ({"temperature": 0.5}, "set do_sample=true"),
    ({"top_k": 5}, "set do_sample=true"),
    ({"num_beams": 0}, "num_beams"),
    ({"job": "loop", "num_beams": 2}, "belong to job=generate"),
    ({"job": "forward", "do_sample": True}, "belong to job=generate"),
    ({"job": "loop", "use_cache": False}, "job=loop needs one"),
    ({"use_cache": False, "cache_implementation": "static"}, "leaves no cache"),
    ({"kernel_inject": True}, "engine=deepspeed"),
    ({"tp_size": 2}, "engine=deepspeed"),
    ({"max_out_tokens": 100}, "engine=deepspeed"),
    (
        {"engine": "deepspeed", "kernel_inject": True, "prompt_tokens": 1000, "new_tokens": 25},
        "1025 tokens do not fit DeepSpeed's max_out_tokens of 1024; set max_out_tokens=1025",
    ),
    (
        {"engine": "deepspeed", "kernel_inject": True, "prompt_tokens": 35, "new_tokens": 37, "max_out_tokens": 71},
        "set max_out_tokens=72",
    ),
    ({"placement": "device_map"}, "use placement=device or host"),
    ({"device": "cpu", "capacity_mib": 1000}, "on the CPU leave it out"),
    ({"device": "cpu", "allocator": "expandable_segments:True"}, "CUDA allocator"),
    ({"device": "cpu", "prefill_cache_mib": 1}, "CUDA allocator"),
    ({"device": "gpu0"}, "device 'gpu0' is not one"),
    ({"device": "cuda:x"}, "cuda:GPU-<uuid>"),
    ({"attn_implementation": "flash_attention_2", "dtype": "fp32"}, "bf16 or fp16 only"),
    ({"record_stacks": True, "record_history": False}, "record_history=true"),
    ({"record_interval_ms": 0.5}, "record_interval_ms"),
    ({"timeout_s": 0}, "timeout_s"),
    ({"allocator": "expandable_segment:True"}, "did you mean expandable_segments?"),
    ({"allocator": "expandable_segments:yes"}, "not a value torch takes"),
    ({"allocator": "max_split_size_mb"}, "write max_split_size_mb:<value>"),
    ({"allocator": "qqqq:1"}, "there are backend, max_split_size_mb"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=lambda value: str(value)[:50])
def test_refused_in_one_line_that_says_what_to_do(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec, match=message) as caught:
        spec(**fields)
    said = str(caught.value)
    assert "\n" not in said
    assert "pydantic" not in said and "Input should" not in said and len(said) < 600


def test_a_model_has_to_be_named() -> None:
    with pytest.raises(InvalidSpec, match="model is missing; give --model"):
        parse_spec({})
    with pytest.raises(InvalidSpec, match="not by list"):
        parse_spec([])  # type: ignore[arg-type]  # what a file can hold


@pytest.mark.parametrize("model", ["~no-such-user/x", "a\0b", "x" * 300, "a/" * 500])
def test_names_that_cannot_be_a_folder_do_no_harm(model: str) -> None:
    assert parse_spec({"model": model}).weights == "load"


def test_what_is_sensible_is_accepted() -> None:
    assert spec(job="forward", new_tokens=0).total_tokens == 32
    assert spec(job="forward", new_tokens=9).total_tokens == 32
    assert spec(prompt_tokens=10, new_tokens=5).total_tokens == 15
    assert spec(capacity_mib=48_676, device="cuda:0").capacity_mib == 48_676
    assert spec(capacity_mib=48_676, device="sim:rtx-a6000").capacity_mib == 48_676
    assert spec(attn_implementation="flash_attention_2", dtype="fp32", autocast="bf16").dtype == "fp32"
    exact = {"engine": "deepspeed", "kernel_inject": True, "prompt_tokens": 35, "new_tokens": 37, "max_out_tokens": 72}
    assert spec(**exact).max_out_tokens == 72


@pytest.mark.parametrize(
    "text",
    [
        "",
        "expandable_segments:True",
        "backend:cudaMallocAsync",
        "max_split_size_mb:128, garbage_collection_threshold:0.8",
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],max_split_size_mb:64",
        "pinned_use_cuda_host_register:True,pinned_num_register_threads:8",
    ],
)
def test_allocator_settings_of_torch_are_kept_as_written(text: str) -> None:
    assert spec(allocator=text).allocator == text


def test_fields_describe_every_field_of_the_spec() -> None:
    assert list(FIELDS) == list(RunSpec.model_fields)
    assert all(len(field.help) > 10 for field in FIELDS.values())
    assert FIELDS["dtype"].choices == ("bf16", "fp16", "fp32")
    assert FIELDS["do_sample"].choices == ("false", "true")
    assert FIELDS["cache_implementation"].optional and "static" in FIELDS["cache_implementation"].choices
    assert FIELDS["batch_size"].kind is int and FIELDS["batch_size"].unit == "rows" and FIELDS["batch_size"].common
    assert "tiny-llama" in FIELDS["model"].help
    for field in FIELDS.values():
        if field.name != "model":
            assert getattr(spec(), field.name) == field.default
