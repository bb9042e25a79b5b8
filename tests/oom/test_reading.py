"""What a text tells of the job: versions, sizes, the model, and what is set already."""

from __future__ import annotations

import pytest

from core.oom import Facts, diagnose
from core.oom.dims import dims_of

ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 642.00 MiB."


def told(text: str) -> Facts:
    return diagnose(f"{text}\n{ERROR}").facts


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        (
            "- `transformers` version: 4.51.3\n- Platform: Linux\n- PyTorch version (GPU?): 2.6.0+cu124 (True)",
            {"transformers": "4.51.3", "torch": "2.6.0"},
        ),
        (
            "torch              2.6.0+cu124\ntorchvision  0.21.0\ndeepspeed    0.14.2",
            {"torch": "2.6.0", "deepspeed": "0.14.2"},
        ),
        ("transformers==4.45.2 torch==2.3", {"transformers": "4.45.2", "torch": "2.3"}),
        ("| torch | 2.6.0 |", {"torch": "2.6.0"}),
        ("PyTorch version: 2.1.0+cu118", {"torch": "2.1.0"}),
        ("DeepSpeed info: version=0.14.2, git-hash=unknown", {"deepspeed": "0.14.2"}),
        ("torch.__version__ = 2.4.1", {"torch": "2.4.1"}),
        ('"transformers_version": "4.31.0"', {}),
        ("torchvision 0.15.2", {}),
    ],
)
def test_versions(text: str, versions: dict[str, str]) -> None:
    assert dict(told(text).versions) == versions


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("batch size of 8", "batch_size", 8),
        ("input_ids.shape: torch.Size([8, 530])", "prompt_tokens", 530),
        ("llama_context: n_ctx         = 8192", "max_seq_len", 8192),
        ("--tensor-parallel-size 4", "tp_size", 4),
        ("text-generation-launcher --num-shard 2", "tp_size", 2),
        ("dtype=torch.bfloat16", "dtype", "bf16"),
        ("--dtype f16", "dtype", "fp16"),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python run.py", "allocator", "expandable_segments:True"),
        ("try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation", "allocator", None),
        ("max_length=512", "max_seq_len", None),
    ],
)
def test_facts(text: str, name: str, value: object) -> None:
    assert getattr(told(text), name) == value


@pytest.mark.parametrize(
    ("text", "vocabulary"),
    [
        ("vllm serve Qwen/Qwen2.5-7B-Instruct --port 8000", 152064),
        ("base_model: NousResearch/Llama-2-7b-hf", 32000),
        ("I run Llama 3 8B on a card of 24 GB", 128256),
        ("llama_model_loader: loaded meta data with 20 pairs from ./models/llama-2-7b.Q4_0.gguf", 32000),
        ("Is Qwen2.5-7B larger than Llama-3-8B?", None),
    ],
)
def test_the_model(text: str, vocabulary: int | None) -> None:
    assert dims_of(told(text).model, None).vocab == vocabulary
