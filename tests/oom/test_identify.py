"""Which tensor a size is, solved backwards; and what no size can tell by itself."""

from __future__ import annotations

import pytest

from core.oom import diagnose, facts_from
from core.oom.diagnosis import Explanation

HEAD = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. "
METAL = (
    "[metal::malloc] Attempting to allocate {} bytes which is greater than the maximum allowed buffer size of 9 bytes."
)


def first(text: str, **facts: object) -> Explanation:
    return diagnose(text, facts_from(facts)).explanations[0]


@pytest.mark.parametrize(
    ("size", "facts", "shape"),
    [
        ("642.00 MiB", {"model": "llama-7b", "batch_size": 150, "prompt_tokens": 34}, (150, 35, 32000)),
        ("2.40 GiB", {"model": "qwen2.5-7b", "batch_size": 8, "prompt_tokens": 512}, (8, 530, 152064)),
        ("9.63 GiB", {"model": "gemma-2b", "batch_size": 10, "prompt_tokens": 1000}, (10, 1010, 256000)),
    ],
)
def test_a_template_adds_a_few_tokens_to_each_prompt(
    size: str, facts: dict[str, object], shape: tuple[int, ...]
) -> None:
    found = first(HEAD.format(size), **facts)
    assert found.cause == "logits_all_positions_fp32"
    assert found.tensors[0].shape == shape
    assert found.confidence == "medium"
    assert "rows more than the" in found.why


def test_many_more_rows_than_were_named_are_said_with_less_confidence() -> None:
    found = first(HEAD.format("2.39 GiB"), model="llama-3-8b", batch_size=1, prompt_tokens=2000)
    assert abs(found.tensors[0].shape[1] - 5000) < 15
    assert found.confidence == "low"


def test_rows_without_a_prompt() -> None:
    found = first(HEAD.format("2.39 GiB"), model="llama-3-8b")
    assert (found.cause, found.confidence) == ("logits_all_positions_fp32", "low")
    assert any(tensor.shape == (1, 5000, 128256) for tensor in found.tensors) or found.tensors[0].solved


def test_thousands_of_sequences_are_no_reading_of_the_last_positions_logits() -> None:
    for tensor in first(HEAD.format("642.00 MiB"), model="llama-7b").tensors:
        assert tensor.kind != "logits_last"


def test_a_cache_of_nearly_any_length_is_no_evidence() -> None:
    """Whatever is asked for between the first and the last token, some length fits."""
    for mib in range(44, 86, 2):
        found = first(
            HEAD.format(f"{mib}.00 MiB"),
            model="llama-7b",
            batch_size=150,
            prompt_tokens=35,
            new_tokens=37,
            dtype="bf16",
        )
        assert found.confidence == "low" or found.cause != "kv_cache" or not found.tensors[0].solved


@pytest.mark.parametrize("size", [8388608, 123_456_789, 1_000_000_007, 2**31, 524288000])
@pytest.mark.parametrize("text", ["{}", "mlx"])
def test_no_vocabulary_and_prompt_are_solved_for_at_once(size: int, text: str) -> None:
    cpu = f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {size} bytes."
    found = diagnose(METAL.format(size) if text == "mlx" else cpu).explanations
    assert all(tensor.kind != "logits_all" for explanation in found for tensor in explanation.tensors)


def test_weights_in_float32_by_their_size_alone_are_not_certain() -> None:
    for size in ("172.00 MiB", "500.00 MiB", "448.00 MiB"):
        for model in ("llama-7b", "llama-2-7b", "mistral-7b"):
            for found in diagnose(HEAD.format(size), facts_from({"model": model})).explanations:
                assert (found.cause, found.confidence) != ("weights_in_float32", "high")
    assert first(HEAD.format("172.00 MiB"), model="llama-7b", dtype="float32").cause == "weights_in_float32"


GGML = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating {} MiB on device 0: cudaMalloc failed: out of memory\n"
    "alloc_tensor_range: failed to allocate CUDA0 buffer of size {}\n{}"
)


def test_llama_cpp_weights_are_one_buffer() -> None:
    text = "llama_model_loader: loaded meta data with 20 key-value pairs from ./models/llama-2-7b.Q8_0.gguf\n" + GGML
    found = first(
        text.format("6828.64", 7160348160, "llama_model_load: error loading model: unable to allocate CUDA0 buffer")
    )
    assert found.cause == "weights_exceed_card"
    assert "8.5 bits for each of 6.74 billion" in found.why
    assert "fewer_layers_on_device" in [
        advice.tag
        for other in diagnose(text.format("1.00", 2**20, "error loading model")).explanations
        for advice in other.advice
    ]


def test_llama_cpp_cache_follows_from_the_context() -> None:
    text = "llama_new_context_with_model: n_ctx      = 8192\n" + GGML.format(
        "4096.00", 4294967296, "llama_kv_cache_init: failed to allocate buffer for kv cache"
    )
    found = first(text, model="llama-2-7b")
    assert found.cause == "kv_cache_preallocated"
    assert found.tensors[0].shape == (32, 2, 1, 32, 8192, 128)
    bare = first(text)
    assert (bare.cause, bare.confidence) == ("kv_cache_preallocated", "medium")


def test_a_mixture_of_experts_is_recognised_by_all_experts_of_a_layer() -> None:
    found = first(HEAD.format("1.75 GiB"), model="mistralai/Mixtral-8x7B-v0.1", engine="vllm", dtype="bfloat16")
    assert found.tensors[0].shape == (8, 28672, 4096)


SEGMENTS = (
    HEAD + "GPU 0 has a total capacity of 23.65 GiB of which 2.52 GiB is free. Of the allocated memory 17.72 GiB is "
    "allocated by PyTorch, and 2.94 GiB is reserved by PyTorch but unallocated."
)
HINT = " If reserved but unallocated memory is large try setting {}=expandable_segments:True to avoid fragmentation."


def advised(text: str, **facts: object) -> list[str]:
    return [advice.tag for found in diagnose(text, facts_from(facts)).explanations for advice in found.advice]


def test_expandable_segments_only_where_they_exist_and_are_not_set() -> None:
    text = SEGMENTS.format("3.17 GiB") + HINT.format("PYTORCH_CUDA_ALLOC_CONF")
    assert "expandable_segments" in advised(text)
    assert "expandable_segments" not in advised("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" + text)
    assert "expandable_segments" not in advised(text, allocator="expandable_segments:True")
    assert "expandable_segments" not in advised(text, versions={"torch": "2.0.1"})
    assert "max_split_size_mb" in advised(text, platform="windows")
    assert "expandable_segments" not in advised(SEGMENTS.format("3.17 GiB").replace("CUDA out", "XPU out"))
    old = (
        "CUDA out of memory. Tried to allocate 3.17 GiB (GPU 0; 23.65 GiB total capacity; 17.72 GiB already allocated; "
        "2.52 GiB free; 20.66 GiB reserved in total by PyTorch)"
    )
    assert "max_split_size_mb" in advised(old)
    assert "expandable_segments" not in advised(old)


@pytest.mark.parametrize("variable", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_the_variable_is_the_one_that_the_message_names(variable: str) -> None:
    found = first(SEGMENTS.format("3.17 GiB") + HINT.format(variable))
    (text,) = [advice.text for advice in found.advice if advice.tag == "expandable_segments"]
    assert f"Set {variable}=" in text


def test_transformers_is_not_to_blame_for_what_another_runtime_computes() -> None:
    size = 39658 * 151936 * 4
    for text in (
        f"Exceeded max size of memory object allocation: requested {size} bytes",
        f"[TRT] [E] 2: Error Code 2: OutOfMemory (Requested size was {size} bytes.)",
    ):
        tags = advised(text, model="qwen2.5-1.5b", batch_size=1, prompt_tokens=39658)
        assert "last_position_logits_only" in tags
        assert not [tag for tag in tags if tag.startswith("use_transformers")]
