"""Every known message parses to its fields, whatever pasting did to it; its span is a place in the original text."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core.oom.error import FIELDS, OomError
from core.oom.parse import parse
from core.oom.paste import Pasted
from tests.oom.mangle import LEARNT, MANGLES, PREFIXES, hard_wrap, prefixed

DATA = Path(__file__).parent / "data"
FORMATS: list[dict[str, Any]] = json.loads((DATA / "oom_formats.json").read_text(encoding="utf-8"))
MESSAGES = {row["id"]: row["message"] for row in FORMATS}


def errors_in(text: str) -> list[OomError]:
    return parse(Pasted(text))


def check(row: dict[str, Any], error: OomError) -> None:
    fields = error.document()
    wanted = dict(row["parsed"])
    if "backend_any_of" in row:
        assert fields["backend"] in row["backend_any_of"]
        wanted["backend"] = fields["backend"]
    assert {name: fields[name] for name in FIELDS} == wanted


@pytest.mark.parametrize("row", FORMATS, ids=[row["id"] for row in FORMATS])
def test_every_message_parses_exactly(row: dict[str, Any]) -> None:
    (error,) = errors_in(row["message"])
    check(row, error)
    start, end = error.span
    assert not row["message"][:start].strip("|="), "nothing of the message is before its span"
    assert not row["message"][end:].strip()


@pytest.mark.parametrize("mangle", MANGLES)
def test_what_pasting_does_changes_nothing(mangle: str) -> None:
    for row in FORMATS:
        text = MANGLES[mangle](row["message"])
        found = errors_in(text)
        assert len(found) == 1, (row["id"], text)
        check(row, found[0])
        start, end = found[0].span
        inside = errors_in(text[start:end])
        assert len(inside) == 1, (row["id"], text[start:end])
        check(row, inside[0])


@pytest.mark.parametrize("prefix", [*PREFIXES, *LEARNT])
@pytest.mark.parametrize("width", [2000, 80, 37])
def test_a_prefix_before_each_line_changes_nothing(prefix: str, width: int) -> None:
    for row in FORMATS:
        text = prefixed(hard_wrap(row["message"], width), prefix)
        found = errors_in(text)
        assert len(found) == 1, (row["id"], text)
        check(row, found[0])


def test_lines_of_several_ranks_that_are_mixed() -> None:
    first, second = MESSAGES["F9-1"].split("\n"), MESSAGES["F9-2"].split("\n")
    for one, two in (("[rank0]: ", "[rank1]: "), ("server-1  | ", "server-2  | "), ("0: ", "1: ")):
        mixed = [one + a + "\n" + two + b for a, b in zip(first, second, strict=True)]
        found = errors_in("\n".join(mixed))
        assert [error.requested_bytes for error in found] == [448 * 2**20, 512 * 2**20]
        assert [error.device_index for error in found] == [0, 1]


def test_ranks_glued_together_are_found_in_order() -> None:
    rows = [row for row in FORMATS if row["id"] in ("F2-1", "F6-2", "F14-3", "F8-2", "F19-1", "F18-3")]
    text = "".join(f"[rank{n}]: {row['message']}" for n, row in enumerate(rows))
    found = errors_in(text)
    assert len(found) == len(rows)
    for row, error in zip(rows, found, strict=True):
        check(row, error)
    assert all(first.span[1] <= second.span[0] for first, second in pairwise(found))


@pytest.mark.parametrize(
    ("text", "backend", "requested", "device"),
    [
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 1: "
            "cudaMalloc failed: out of memory\n"
            "alloc_tensor_range: failed to allocate CUDA1 buffer of size 4294967296\n"
            "llama_model_load: error loading model: unable to allocate CUDA1 buffer",
            "cuda",
            4 * 2**30,
            1,
        ),
        ("ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 2348810240", "cuda", 2348810240, 0),
        ("CUDA error: out of memory\n  current device: 0, in function alloc at ggml-cuda.cu:291", "cuda", None, 0),
        ("CUDA error 2 at ggml-cuda.cu:7233: out of memory", "cuda", None, None),
        (
            "[metal::malloc] Attempting to allocate 137438953472 bytes which is greater than the maximum "
            "allowed buffer size of 77309411328 bytes.",
            "metal",
            2**37,
            None,
        ),
        ("[malloc_or_wait] Unable to allocate 2147483648 bytes.", "metal", 2**31, None),
        (
            "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::144] Error Code 2: OutOfMemory (Requested size was "
            "18253675008 bytes.)",
            "tensorrt",
            18253675008,
            None,
        ),
        (
            "[E] 1: [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)\n"
            "[W] Requested amount of GPU memory (4429185024 bytes) could not be allocated. There may not be enough "
            "free memory for allocation to succeed.",
            "tensorrt",
            4429185024,
            None,
        ),
        (
            "[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::234881024 (224)MB",
            "hpu",
            234881024,
            None,
        ),
        ("Exceeded max size of memory object allocation: requested 32095728896 bytes", "openvino", 32095728896, None),
        ("RuntimeError: Invalid buffer size: 15.26 GB", "mps", 16385300234, None),
        ("RuntimeError: HIP error: out of memory", "hip", None, None),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cudnn", None, None),
        ("Tried to allocate 642.00 MiB", "cuda", 642 * 2**20, None),
        ("[malloc] Unable to allocate 2147483648 bytes.", "metal", 2**31, None),
        ("[metal::malloc] Resource limit (499000) exceeded.", "metal", None, None),
        (
            "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), "
            "mCudaStream->get()): out of memory (/src/tensorrt_llm/cpp/include/tensorrt_llm/runtime/tllmBuffers.h:112)",
            "tensorrt",
            None,
            None,
        ),
        (
            "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 96.00 MiB. GPU 1 has a total capacity of "
            "15.56 GiB. Of the allocated memory 14.02 GiB is allocated by PyTorch, and 200.14 MiB is reserved by "
            "PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.",
            "xpu",
            96 * 2**20,
            1,
        ),
        (
            "RuntimeError: $ Torch: not enough memory: you tried to allocate 2GB. Buy new RAM! at THGeneral.cpp:201",
            "cpu",
            2**31,
            None,
        ),
        ("RuntimeError: HIP driver error: out of memory", "hip", None, None),
        ("NCCL WARN HIP failure 'out of memory'", "nccl", None, None),
        ("NCCL WARN Cuda failure 2 'out of memory'", "nccl", None, None),
        ("Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY", "cuda_driver", None, None),
        (
            "failed to allocate 7.43G (7977592320 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            "cuda_driver",
            7977592320,
            None,
        ),
        ("hipErrorOutOfMemory", "hip", None, None),
        ("RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `f(h)`", "cusolver", None, None),
        ("RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED", "cufft", None, None),
        ("CUSPARSE_STATUS_ALLOC_FAILED when calling `cusparseCreate(handle)`", "cusparse", None, None),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "cudnn", None, None),
        (
            "ggml_vulkan: Device memory allocation of size 1073741824 failed.\n"
            "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
            "vulkan",
            2**30,
            None,
        ),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.", "xla", 2**32, None),
        (
            "OOM when allocating tensor with shape[32,512,512] and type float on "
            "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc",
            "tensorflow",
            None,
            1,
        ),
        ("Error out of memory at line 380 in file /src/csrc/pythonInterface.c", "cuda", None, None),
        ("RuntimeError: CUDA failed with error out of memory", "cuda", None, None),
        ("[FT][ERROR] CUDA runtime error: out of memory /src/allocator.h:181", "cuda", None, None),
        ("Out of memory allocating 1,073,741,824 bytes (allocated so far: 512 bytes).", "cuda", 2**30, None),
        ("torch.OutOfMemoryError: Allocation on device \nGot an OOM, unloading all loaded models.", "cuda", None, None),
        ("OSError: The paging file is too small for this operation to complete. (os error 1455)", "cpu", None, None),
        ("model requires more system memory (32.0 GiB) than is available (15.4 GiB)", "cpu", 2**35, None),
        ("ValueError: No available memory for the cache blocks.", "vllm", None, None),
    ],
)
def test_other_runtimes(text: str, backend: str, requested: int | None, device: int | None) -> None:
    (error,) = errors_in(text)
    assert (error.backend, error.requested_bytes, error.device_index) == (backend, requested, device)


def test_an_engine_that_counts_before_it_starts() -> None:
    (error,) = errors_in(
        "ValueError: Free memory on device (10.50/24.00 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 21.60 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    assert (error.free_bytes, error.total_bytes) == (21 * 2**29, 24 * 2**30)
    assert error.requested_bytes == round(21.6 * 2**30)
    (error,) = errors_in(
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored "
        "in KV cache (12352). Try increasing `gpu_memory_utilization`."
    )
    assert error.numbers == {"minimum": 32768, "available": 12352}


def test_the_path_of_an_allocator_belongs_to_the_message() -> None:
    text = (
        r"RuntimeError: [enforce fail at C:\actions-runner\_work\pytorch\builder\c10\core\impl\alloc_cpu.cpp:72] "
        "data. DefaultCPUAllocator: not enough memory: you tried to allocate 8388608 bytes."
    )
    (error,) = errors_in(text)
    assert text[slice(*error.span)] == text


def test_decimal_commas() -> None:
    (error,) = errors_in(
        "CUDA out of memory. Tried to allocate 3,17 GiB (GPU 0; 23,65 GiB total capacity; 20,11 GiB already allocated)"
    )
    assert (error.requested_bytes, error.total_bytes) == (3403761582, 25393994138)


@pytest.mark.parametrize(
    "text",
    [
        "I tried to allocate 10 GB and it failed",
        "error: git error: out of memory",
        "fatal: Out of memory, malloc failed (tried to allocate 524288000 bytes)",
        "ggml_vulkan: Found 1 Vulkan devices",
        "Your notebook tried to allocate more memory than is available. It has restarted.",
    ],
)
def test_what_is_no_error_of_a_device(text: str) -> None:
    assert errors_in(text) == []


def test_a_message_without_its_first_sentence() -> None:
    (error,) = errors_in(
        "(GPU 0; 15.75 GiB total capacity; 79.11 MiB already allocated; 3.62 MiB free; 86.00 MiB reserved in "
        "total by PyTorch)"
    )
    assert (error.total_bytes, error.reserved_bytes, error.requested_bytes) == (16911433728, 86 * 2**20, None)


def test_prose_is_no_error_and_a_quoted_size_is_none_of_its_own() -> None:
    assert not errors_in("I run out of memory. CUDA out of memory is what I get; how much is free? GPU 0 has 24 GiB.")
    assert len(errors_in(f"I get CUDA out of memory, 'Tried to allocate 34.00 MiB'.\n{MESSAGES['F2-1']}")) == 1


@pytest.mark.parametrize("text", ["", "\n\n", "\x00\x01\xff" * 500, "all is well\n" * 100, "9" * 5000, "(GPU 0; )"])
def test_no_error(text: str) -> None:
    assert errors_in(text) == []


def test_two_to_the_64_is_no_size() -> None:
    (error,) = errors_in(
        "CUDA out of memory. Tried to allocate 2.00 GiB. Including non-PyTorch memory, this process has "
        "17179869184.00 GiB memory in use. Process 7 has 17179869184.00 GiB memory in use."
    )
    assert error.process_bytes is None
    assert error.document()["other_processes"] == [{"pid": 7, "bytes": None}]
    assert error.not_values == ("process_bytes", "other_processes")
