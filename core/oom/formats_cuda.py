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
    looked_for(
        "cuda_driver_code",
        "cuda_driver",
        r"cuda_error_out_of_memory(?::outofmemory)?",
        weak=True,
        anchor="cuda_error_out_of_memory",
    ),
    looked_for("cuda_driver_call", "cuda_driver", r"cumem\w{0,20}failed:outofmemory", anchor="cumem", weak=True),
    looked_for("triton", "cuda_driver", r"tritonerror\[cuda\]:outofmemory", weak=True),
    looked_for("triton_hip", "hip", r"tritonerror\[hip\]:code:2,messs?age:outofmemory", weak=True),
    looked_for(
        "cuda_from_device",
        "cuda_driver",
        rf"failedtoallocate[\d.]{{1,12}}[kmgt]?i?b?\((?P<requested>{INT}bytes)\)fromdevice:cuda_error_out_of_memory"
        r"(?::outofmemory)?",
        anchor="failedtoallocate",
    ),
    looked_for("cuda_code", "cuda", r"cudaerrormemoryallocation(?::?outofmemory)?", anchor="cudaerrorm", weak=True),
    *(
        looked_for(kind, "cuda", pattern, anchor=anchor, weak=weak)
        for kind, pattern, anchor, weak in (
            ("cuda_engine", r"cudaruntimeerror:outofmemory", "cudaruntimeerror:", False),
            ("ctranslate", r"cudafailedwitherroroutofmemory", "cudafailedwitherror", False),
            (
                "bitsandbytes",
                r"erroroutofmemoryatline\d{1,5}infile[\w./-]{1,200}?\.(?:cu|cpp|c)\b",
                "erroroutofmemory",
                False,
            ),
            ("cuda_malloc", r"cudamalloc\w{0,10}(?:\([^()]{0,120}\))?failed:outofmemory", "cudamalloc", True),
            ("cuda_host", r"cudahost\w{0,10}(?:\([^()]{0,120}\))?failed:outofmemory", "cudahost", True),
        )
    ),
    looked_for("hip_runtime", "hip", r"hiperror:outofmemory" + _ASYNC, anchor="hiperror:outofmemory"),
    looked_for("hip_driver", "hip", r"hipdrivererror:outofmemory", anchor="hipdrivererror:"),
    looked_for("hip_code", "hip", r"hiperroroutofmemory", weak=True),
    looked_for(
        "hip_malloc", "hip", r"hipmalloc\w{0,10}(?:\([^()]{0,120}\))?failed:outofmemory", anchor="hipmalloc", weak=True
    ),
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
    # ComfyUI keeps the first line
    looked_for(
        "cuda_malloc_short",
        "cuda",
        r"outofmemoryerror:allocationondevice(?P<device>\d{1,4})?",
        anchor="outofmemoryerror:allocation",
        weak=True,
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
        "cudnn",
        "cudnn",
        r"cudnn_status_(?:alloc_failed|not_initialized|internal_error_(?:host|device)_allocation_failed)",
        anchor="cudnn_status_",
        before="cudnnerror:",
    ),
    *(
        looked_for(
            name,
            name,
            rf"{name}_(?:status_)?(?:alloc_failed|not_initialized|insufficient_resources)"
            + _CALLING.replace("(?:when", "(?:,?when"),
            anchor=f"{name}_",
            before=rf"(?:cudaerror:|{name}error:)",
        )
        for name in ("cusolver", "cusparse", "cufft")
    ),
    looked_for(
        "nccl_calloc",
        "nccl",
        rf"failedto(?:cuda|hip)(?:host)?(?:calloc|malloc|alloc)(?:async)?(?P<requested>{INT}bytes)",
        anchor="failedto",
        before=r"ncclerrorin:[^\n]{0,500}",
    ),
    looked_for(
        "nccl",
        "nccl",
        r"cudafailure\d{0,3}outofmemory",
        anchor="cudafailure",
        before=r"ncclerrorin:[^\n]{0,500}",
    ),
    looked_for(
        "rccl", "nccl", r"hipfailure\d{0,3}:?outofmemory", anchor="hipfailure", before=r"ncclerrorin:[^\n]{0,500}"
    ),
)
