"""What is refused or warned of before a run starts."""

from __future__ import annotations

from typing import Any

import pytest

from core.spec.architecture import Architecture
from core.spec.checks import Machine, check, least_bytes
from core.spec.errors import InvalidSpec, NotAvailable
from core.spec.model_source import ModelSource, resolve
from core.spec.run_spec import parse_spec
from tests.spec.folders import tiny_config

GIB = 2**30
LARGE = Machine(host_memory_bytes=2**60)


def checked(machine: Machine = LARGE, force: bool = False, **fields: Any) -> list[str]:
    spec = parse_spec({"model": "tiny-llama", "device": "cpu", **fields})
    return check(spec, resolve(spec), machine, force=force)


@pytest.mark.parametrize("model", ["gpt2", "opt-1.3b"])
def test_beyond_a_table_of_positions_is_refused(model: str) -> None:
    most = {"gpt2": 1024, "opt-1.3b": 2048}[model]
    assert checked(model=model, prompt_tokens=most - 16, new_tokens=16) == []
    with pytest.raises(InvalidSpec, match=rf"{most - 16} \+ 17 tokens are more than the {most} positions of {model}"):
        checked(model=model, prompt_tokens=most - 16, new_tokens=17)
    assert checked(model=model, job="forward", prompt_tokens=most) == []
    with pytest.raises(InvalidSpec, match=rf"{most + 1} tokens are more than .* stay within {most}"):
        checked(model=model, job="forward", prompt_tokens=most + 1)


@pytest.mark.parametrize("model", ["llama-7b", "bloom-560m", "pythia-1.4b"])
def test_beyond_rotary_or_alibi_positions_is_a_warning(model: str) -> None:
    (warning,) = checked(model=model, prompt_tokens=2048, new_tokens=1)
    assert warning.startswith("2048 + 1 tokens are more than the 2048 positions of")
    assert checked(model=model, prompt_tokens=2047, new_tokens=1) == []


def test_generate_with_gradients_is_a_warning() -> None:
    (warning,) = checked(grad_mode="grad")
    assert "always no_grad" in warning
    assert checked(grad_mode="grad", job="loop") == checked(grad_mode="grad", job="forward") == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"attn_implementation": "flash_attention_2"}, "flash_attention_2 is not simulated yet"),
        ({"cache_implementation": "quantized"}, "cache_implementation=quantized is not simulated yet"),
    ],
)
def test_what_is_not_simulated_yet_says_so(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(NotAvailable, match=message):
        checked(device="sim:rtx-a6000", **fields)


def test_flash_attention_has_no_cpu_kernels() -> None:
    with pytest.raises(InvalidSpec, match="flash_attention_2 has no CPU kernels; use sdpa or eager"):
        checked(attn_implementation="flash_attention_2")
    assert checked(attn_implementation="flash_attention_2", device="cuda:0") == []
    assert checked(dtype="fp16") == []


def test_a_job_larger_than_the_machine_says_by_how_much_and_force_lets_it_through() -> None:
    weights = 6_738_415_616 * 2
    inputs = 2 * 8 * 150 * 35
    cache = 150 * (35 + 36) * 2 * 32 * 32 * 128 * 2
    job: dict[str, Any] = {"model": "llama-7b", "batch_size": 150, "prompt_tokens": 35, "new_tokens": 37}
    assert checked(Machine(weights + inputs + cache), **job) == []
    with pytest.raises(InvalidSpec, match=r"alone take 17.8 GiB, 0.0 GiB more than the 17.8 GiB of this machine"):
        checked(Machine(weights + inputs + cache - 1), **job)
    with pytest.raises(
        InvalidSpec, match=r"1.8 GiB more than the 16.0 GiB of this machine; make it smaller, or --force"
    ):
        checked(Machine(16 * GIB), **job)
    assert checked(Machine(16 * GIB), force=True, **job) == []
    assert checked(Machine(16 * GIB), **{**job, "device": "cuda:0"}) == []


def least(config: dict[str, Any], parameters: int | None = None, **fields: Any) -> int | None:
    spec = parse_spec({"model": "tiny-llama", "batch_size": 2, "prompt_tokens": 10, "new_tokens": 5, **fields})
    architecture = Architecture.from_config(config)
    assert architecture is not None
    return least_bytes(spec, ModelSource("folder", "x", None, config, parameters), architecture)


def test_least_bytes_follows_the_job() -> None:
    config = tiny_config()
    per_token = 2 * 4 * 4 * 32 * 2
    base = 4_540_672 * 2 + 2 * 8 * 2 * 10
    assert least(config) == base + 2 * 14 * per_token
    assert least(config, num_beams=3) == base + 6 * 14 * per_token
    assert least(config, job="forward") == base + 2 * 10 * per_token
    assert least(config, use_cache=False) == base
    assert least(config, dtype="fp32") == 4_540_672 * 4 + 320 + 2 * 14 * per_token * 2
    assert least({**config, "sliding_window": 8}) == base + 2 * 7 * per_token
    # files may hold buffers too: what the model is built from decides where it is known
    assert least(config, parameters=99_999_999) == least(config)


def test_least_bytes_of_an_unknown_family_needs_its_files() -> None:
    config = tiny_config(model_type="brandnew")
    assert least(config) is None
    per_token = 2 * 4 * 4 * 32 * 2
    assert least(config, parameters=1000) == 2000 + 320 + 2 * 14 * per_token


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kernel_inject": True}, "kernel_inject=true needs a GPU"),
        ({"tp_size": 2}, "tp_size=2 needs as many GPUs"),
        ({"num_beams": 2}, "DeepSpeed generates with num_beams=1 only"),
    ],
)
def test_what_deepspeed_cannot_do_is_refused(fields: dict[str, Any], message: str) -> None:
    assert checked(engine="deepspeed") == []
    with pytest.raises((InvalidSpec, NotAvailable), match=message):
        checked(engine="deepspeed", **fields)


def test_a_card_can_only_be_made_smaller() -> None:
    card = Machine(2**60, 48 * GIB)
    assert checked(card, device="cuda:0", capacity_mib=48 * 1024) == []
    with pytest.raises(InvalidSpec, match="capacity_mib=49153 is more than the card's 49152 MiB"):
        checked(card, device="cuda:0", capacity_mib=48 * 1024 + 1)
    with pytest.raises(InvalidSpec, match="capacity_mib=500 leaves nothing: the CUDA context alone"):
        checked(card, device="cuda:0", capacity_mib=500)
