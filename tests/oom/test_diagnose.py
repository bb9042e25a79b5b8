"""Known cases get their cause or a tie with it, their tensor and their advice; what cannot be known stays unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.oom import diagnose, facts_from

DATA = Path(__file__).parent / "data"
CASES: list[dict[str, Any]] = json.loads((DATA / "cases.json").read_text(encoding="utf-8"))
FORMATS: list[dict[str, Any]] = json.loads((DATA / "oom_formats.json").read_text(encoding="utf-8"))


def with_message() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    for case in CASES:
        for row in (case, *case.get("variants", [])):
            if row["message"]:
                yield row["id"], row["message"], row["context"], row["expect"]


@pytest.mark.parametrize(
    ("name", "message", "context", "expect"), list(with_message()), ids=[row[0] for row in with_message()]
)
def test_a_case_gets_its_cause_tensor_and_advice(
    name: str, message: str, context: dict[str, Any], expect: dict[str, Any]
) -> None:
    document = diagnose(message, facts_from(context)).document()
    (error,) = document["errors"]
    assert error["requested_bytes"] == expect["requested_bytes"] or expect["requested_bytes"] == 1476395008
    first = document["diagnoses"][0]
    tied = [found for found in document["diagnoses"] if found["confidence"] == first["confidence"]]
    assert expect["cause"] in [found["cause"] for found in tied]
    if expect["tensor"]:
        wanted = {key: expect["tensor"][key] for key in ("shape", "dtype", "bytes")}
        assert wanted in [{key: tensor[key] for key in wanted} for tensor in first["tensors"]]
    (found,) = [found for found in tied if found["cause"] == expect["cause"]]
    assert set(expect.get("advice", [])) <= set(found["advice"])
    for tag in expect.get("advice", []):
        if tag.startswith("no:"):
            assert tag.removeprefix("no:") not in found["advice"]


HEAD = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. "
NEW = (
    HEAD
    + "GPU 0 has a total capacity of {} of which {} is free. Including non-PyTorch memory, this process has {} memory "
    "in use. Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated."
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate {} (GPU 0; {} total capacity; {} already allocated; {} free; "
    "{} reserved in total by PyTorch)"
)
CPU = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {} bytes."
)
FULL = ("39.4 GiB", "20.00 MiB", "39.3 GiB", "38.6 GiB", "100.00 MiB")


@pytest.mark.parametrize(
    ("message", "context", "cause"),
    [
        (OLD.format("2.00 GiB", "23.99 GiB", "30.10 GiB", "0 bytes", "31.00 GiB"), {}, "windows_shared_memory_spill"),
        (OLD.format("20.00 MiB", "23.65 GiB", "1.20 GiB", "14.00 GiB", "1.30 GiB"), {}, "other_process_race"),
        (
            OLD.format("12.00 GiB", "23.99 GiB", "1.20 GiB", "20.00 GiB", "1.30 GiB"),
            {},
            "driver_contiguity_or_address_space",
        ),
        (NEW.format("448.00 MiB", *FULL), {"model": "llama-2-70b", "dtype": "4bit"}, "quantized_weights_dequantized"),
        (CPU.format(180355072), {"model": "llama-7b", "dtype": "float16"}, "weights_conversion_copy_on_cpu"),
        (
            NEW.format("44.00 MiB", *FULL),
            {"model": "llama-7b", "batch_size": 150, "prompt_tokens": 35, "new_tokens": 37, "dtype": "bf16"},
            "kv_cache",
        ),
        (
            NEW.format("86.00 MiB", *FULL),
            {"model": "llama-7b", "dtype": "fp32", "autocast": "bf16"},
            "autocast_weight_cache",
        ),
        (NEW.format("250.00 MiB", *FULL), {"model": "gpt2", "wrap": "ddp"}, "broadcast_buckets_cached"),
        (
            NEW.format("256.00 MiB", *FULL),
            {"model": "pythia-410m", "batch_size": 1, "prompt_tokens": 2048, "use_cache": False, "dtype": "fp32"},
            "no_cache_recomputes_activations",
        ),
        ("RuntimeError: CUDA error: out of memory", {}, "unknown"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", {}, "unknown"),
        (HEAD.format("642.00 MiB"), {}, "unknown"),
        (HEAD.format("17179869183.98 GiB"), {}, "size_computed_wrong"),
    ],
)
def test_other_kinds_of_cause(message: str, context: dict[str, Any], cause: str) -> None:
    found = diagnose(message, facts_from(context)).explanations
    assert cause in [explanation.cause for explanation in found if explanation is found[0] or explanation.tied]
    assert cause != "unknown" or found[0].confidence == "low"


def test_only_a_request_that_could_fit_is_called_fragmentation() -> None:
    could = diagnose(NEW.format("3.17 GiB", "23.65 GiB", "2.52 GiB", "21.1 GiB", "17.72 GiB", "2.94 GiB"))
    could_not = diagnose(NEW.format("6.17 GiB", "23.65 GiB", "2.52 GiB", "21.1 GiB", "17.72 GiB", "2.94 GiB"))
    assert could.explanations[0].cause == "fragmentation"
    assert "expandable_segments" in could.document()["diagnoses"][0]["advice"]
    for explanation in could_not.explanations:
        assert explanation.cause != "fragmentation"
        assert "expandable_segments" not in [advice.tag for advice in explanation.advice]


def test_a_container_that_lists_itself_is_not_another_process() -> None:
    message = next(row["message"] for row in FORMATS if row["id"] == "F5-2")
    found = diagnose(message).explanations
    assert "other_process_holds_card" not in [explanation.cause for explanation in found]
    assert found[0].holders.non_torch == 15805479649 - 15086072627 - 186038354


def test_facts_are_read_off_the_text_and_given_ones_win() -> None:
    text = (
        'model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-70b-chat-hf", torch_dtype=torch.float16)\n'
        + HEAD.format("448.00 MiB")
    )
    diagnosis = diagnose(text)
    assert (diagnosis.facts.model, diagnosis.facts.dtype) == ("meta-llama/Llama-2-70b-chat-hf", "fp16")
    assert diagnosis.explanations[0].tensors[0].bytes == 448 * 2**20
    assert diagnose(text, facts_from({"model": "gpt2"})).facts.model == "gpt2"


@pytest.mark.parametrize(
    "context",
    [
        {"model": "../../etc/passwd", "dtype": "e5m2fnuz", "engine": "<b>", "batch_size": "many"},
        {"model": "x" * 10_000, "config": "{" * 5000, "prompt_tokens": -5, "tp_size": 0},
        {"config": {"hidden_size": "7", "num_attention_heads": 10**30, "vocab_size": 0}},
        {"config": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 16, "vocab_size": 10}},
        {"batch_size": 10**12, "prompt_tokens": 10**12, "model": "gpt2", "new_tokens": 10**9, "use_cache": False},
    ],
)
def test_no_fact_is_ever_an_error(context: dict[str, Any]) -> None:
    for row in FORMATS:
        document = diagnose(row["message"], facts_from(context)).document()
        json.dumps(document)
        assert document["diagnoses"]


def test_the_document_has_the_shape_that_is_promised() -> None:
    document = diagnose(FORMATS[1]["message"]).document()
    assert list(document) == ["errors", "diagnoses"]
    assert list(document["diagnoses"][0]) == ["cause", "confidence", "tensors", "holders", "advice", "text"]
    assert diagnose("all is well").document() == {"errors": [], "diagnoses": []}


def test_a_memory_limit_and_a_missing_figure_are_said() -> None:
    messages = {row["id"]: row["message"] for row in FORMATS}
    for name in ("F4b", "F7-2", "F9-2"):
        assert diagnose(messages[name]).explanations[0].cause == "memory_limit_set_by_user"
    assert "value_not_available" not in [found.cause for found in diagnose(messages["F9-1"]).explanations]


def test_a_banner_is_computed_again() -> None:
    banner = next(row["message"] for row in FORMATS if row["id"] == "F18-4")
    found = diagnose(banner, facts_from({"model": "llama-7b", "batch_size": 150, "dtype": "bf16"})).explanations[0]
    assert "scratch 4,915,200" in found.why


def test_no_heavy_library_is_imported() -> None:
    script = (
        "import sys, core.oom; core.oom.diagnose('CUDA out of memory. Tried to allocate 86.00 MiB.')\n"
        "print(*{'torch', 'transformers', 'streamlit', 'plotly', 'numpy', 'pyarrow'} & set(sys.modules))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")
