"""The words of CUDA, HIP and their libraries, where they are not the caching allocator's own message."""

from __future__ import annotations

from core.oom.figures import size_group
from core.oom.format import INT, Format, looked_for

_ASYNC = (
    r"(?:searchfor.{0,40}?in.{0,120}?formoreinformation\.)?"
    r"(?:cudakernelerrorsmightbe.{0,160}?(?:cuda|hip)_launch_blocking=1\.?)?"
    r"(?:compilewithtorch_use_(?:cuda|hip)_dsatoenabledevice-sideassertions\.?)?"
)
_CALLING = r"(?:whencalling[\w:<>&,.]{1,80}\([^()]{0,200}\))?"

CUDA_FORMATS: tuple[Format, ...] = (
    # CUDA runtime and driver: no figures
    looked_for(
        "cuda_runtime_old",
        "cuda",
        r"cudaruntimeerror\(2\):outofmemory"
        r"(?:at[\w./:-]{1,200}?\.(?:cu|cpp|cuh|h):\d{1,6})?",
        anchor="cudaruntimeerror(2):outofmemory",
    ),
    looked_for(
        "cuda_check", "cuda", r"thcudacheckfail.{0,200}?error=2:outofmemory", anchor="thcudacheckfail", weak=True
    ),
    looked_for(
        "cuda_runtime",
        "cuda",
        r"cudaerror:outofmemory(?:currentdevice:(?P<device>\d{1,4}))?" + _ASYNC,
        anchor="cudaerror:outofmemory",
    ),
    looked_for("cuda_driver", "cuda_driver", r"cudadrivererror:outofmemory", anchor="cudadrivererror:outofmemory"),
    looked_for("hip_runtime", "hip", r"hiperror:outofmemory" + _ASYNC, anchor="hiperror:outofmemory"),
    looked_for(
        "nvml_assert",
        "cuda",
        r"nvml_success==.{1,80}?internalassertfailedat.{1,120}?\.cpp:\d{1,6}(?:,pleasereportabugtopytorch\.?)?",
        anchor="nvml_success==",
    ),
    # cudaMallocAsync (c10/cuda/CUDAMallocAsyncAllocator.cpp)
    looked_for(
        "cuda_malloc_async",
        "cuda",
        r"allocationondevice(?P<device>\d{1,4})wouldexceedallowedmemory\.?\(outofmemory\)"
        rf"(?:currentlyallocated:{size_group('allocated')})?(?:requested:{size_group('requested')})?"
        rf"(?:devicelimit:{size_group('total')})?(?:free\(accordingtocuda\):{size_group('free')})?"
        rf"(?:pytorchlimit\(setbyuser-suppliedmemoryfraction\):{size_group('allowed')})?",
        anchor="allocationondevice",
    ),
    # libraries
    looked_for(
        "cublas",
        "cublas",
        r"cublas_status_(?:alloc_failed|not_initialized)" + _CALLING,
        anchor="cublas_status_",
        before=r"cudaerror:",
    ),
    looked_for(
        "hipblas",
        "hip",
        r"hipblas_status_(?:alloc_failed|not_initialized)" + _CALLING,
        anchor="hipblas_status_",
        before=r"(?:cuda|hip)error:",
    ),
    looked_for(
        "cudnn", "cudnn", r"cudnn_status_(?:alloc_failed|not_initialized)", anchor="cudnn_status_", before="cudnnerror:"
    ),
    looked_for(
        "nccl_calloc",
        "nccl",
        rf"failedtocuda(?:host)?(?:calloc|malloc|alloc)(?:async)?(?P<requested>{INT}bytes)",
        anchor="failedtocuda",
        before=r"ncclerrorin:[^\n]{0,500}",
    ),
    looked_for(
        "nccl",
        "nccl",
        r"cudafailure:?\d{0,3}:?outofmemory",
        anchor="cudafailure",
        before=r"ncclerrorin:[^\n]{0,500}",
    ),
)
