"""The formats with a fixed wording, as a table: what is looked for in squeezed text, and the fields it fills.

A group is named like the short form of its field; `n_…` are counts that belong to no field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.oom.figures import size_group

_INT = r"\d{1,20}"


@dataclass(frozen=True)
class Format:
    """`anchor` is where `pattern` is tried. `before`: text that may stand ahead of it and belongs to the message.

    A `weak` one repeats another error in other words, or warns: it counts only where that backend has nothing better.
    """

    kind: str
    backend: str | None
    anchor: str
    pattern: re.Pattern[str]
    before: re.Pattern[str] | None = None
    weak: bool = False


def _format(
    kind: str, backend: str | None, pattern: str, *, anchor: str = "", before: str = "", weak: bool = False
) -> Format:
    literal = anchor or pattern.replace("\\", "")
    assert pattern.replace("\\", "").startswith(literal), kind
    ahead = re.compile(rf"(?:{before})\Z") if before else None
    return Format(kind, backend, literal, re.compile(pattern), ahead, weak)


_ASYNC = (
    r"(?:searchfor.{0,40}?in.{0,120}?formoreinformation\.)?"
    r"(?:cudakernelerrorsmightbe.{0,160}?(?:cuda|hip)_launch_blocking=1\.?)?"
    r"(?:compilewithtorch_use_(?:cuda|hip)_dsatoenabledevice-sideassertions\.?)?"
)
_CALLING = r"(?:whencalling[\w:<>&,.]{1,80}\([^()]{0,200}\))?"
_GIB = r"\d{1,12}(?:\.\d{1,8})?"

FORMATS: tuple[Format, ...] = (
    # CUDA runtime and driver: no figures
    _format(
        "cuda_runtime_old",
        "cuda",
        r"cudaruntimeerror\(2\):outofmemory"
        r"(?:at[\w./:-]{1,200}?\.(?:cu|cpp|cuh|h):\d{1,6})?",
        anchor="cudaruntimeerror(2):outofmemory",
    ),
    _format("cuda_check", "cuda", r"thcudacheckfail.{0,200}?error=2:outofmemory", anchor="thcudacheckfail", weak=True),
    _format(
        "cuda_runtime",
        "cuda",
        r"cudaerror:outofmemory(?:currentdevice:(?P<device>\d{1,4}))?" + _ASYNC,
        anchor="cudaerror:outofmemory",
    ),
    _format("cuda_driver", "cuda_driver", r"cudadrivererror:outofmemory", anchor="cudadrivererror:outofmemory"),
    _format("hip_runtime", "hip", r"hiperror:outofmemory" + _ASYNC, anchor="hiperror:outofmemory"),
    _format(
        "nvml_assert",
        "cuda",
        r"nvml_success==.{1,80}?internalassertfailedat.{1,120}?\.cpp:\d{1,6}(?:,pleasereportabugtopytorch\.?)?",
        anchor="nvml_success==",
    ),
    # cudaMallocAsync (c10/cuda/CUDAMallocAsyncAllocator.cpp)
    _format(
        "cuda_malloc_async",
        "cuda",
        r"allocationondevice(?P<device>\d{1,4})wouldexceedallowedmemory\.?\(outofmemory\)"
        rf"(?:currentlyallocated:{size_group('allocated')})?(?:requested:{size_group('requested')})?"
        rf"(?:devicelimit:{size_group('total')})?(?:free\(accordingtocuda\):{size_group('free')})?"
        rf"(?:pytorchlimit\(setbyuser-suppliedmemoryfraction\):{size_group('allowed')})?",
        anchor="allocationondevice",
    ),
    # libraries
    _format(
        "cublas",
        "cublas",
        r"cublas_status_(?:alloc_failed|not_initialized)" + _CALLING,
        anchor="cublas_status_",
        before=r"cudaerror:",
    ),
    _format(
        "hipblas",
        "hip",
        r"hipblas_status_(?:alloc_failed|not_initialized)" + _CALLING,
        anchor="hipblas_status_",
        before=r"(?:cuda|hip)error:",
    ),
    _format(
        "cudnn", "cudnn", r"cudnn_status_(?:alloc_failed|not_initialized)", anchor="cudnn_status_", before="cudnnerror:"
    ),
    _format(
        "nccl_calloc",
        "nccl",
        rf"failedtocuda(?:host)?(?:calloc|malloc|alloc)(?:async)?(?P<requested>{_INT}bytes)",
        anchor="failedtocuda",
        before=r"ncclerrorin:[^\n]{0,500}",
    ),
    _format(
        "nccl",
        "nccl",
        r"cudafailure:?\d{0,3}:?outofmemory",
        anchor="cudafailure",
        before=r"ncclerrorin:[^\n]{0,500}",
    ),
    # host memory
    _format(
        "cpu",
        "cpu",
        r"defaultcpuallocator:(?:cantallocatememory|notenoughmemory):youtriedtoallocate"
        rf"(?P<requested>{_INT}bytes)(?:\.errorcode12\(cannotallocatememory\)|\.)?",
        anchor="defaultcpuallocator:",
        before=r"\[enforcefailat\w{1,20}\.cpp:\d{1,6}\](?:err==0|data|\w{0,20})?\.",
    ),
    _format(
        "numpy",
        "cpu",
        rf"unabletoallocate{size_group('requested')}foranarraywithshape",
        anchor="unabletoallocate",
    ),
    _format("mmap", "cpu", rf"unabletommap(?P<requested>{_INT}bytes)fromfile", anchor="unabletommap"),
    # Apple
    _format(
        "mps",
        "mps",
        rf"mpsbackendoutofmemory(?:\(mpsallocated:{size_group('allocated')},otherallocations:{size_group('mps_other')}"
        rf"(?:,maxallowed:(?:{size_group('allowed')}|\w{{1,12}}))?\))?\.?"
        rf"(?:triedtoallocate{size_group('requested')}(?:on\w{{1,10}}?pool)?\.?)?"
        r"(?:usepytorch_mps_high_watermark_ratio=0\.0todisableupperlimitformemoryallocations"
        r"(?:\(maycausesystemfailure\)\.?)?)?",
        anchor="mpsbackendoutofmemory",
    ),
    _format("mps_buffer", "mps", rf"invalidbuffersize:{size_group('requested')}", anchor="invalidbuffersize:"),
    _format(
        "metal",
        "metal",
        rf"\[metal::malloc\]attemptingtoallocate(?P<requested>{_INT}bytes)"
        rf"(?:whichisgreaterthanthemaximumallowedbuffersizeof{_INT}bytes\.?)?",
        anchor="[metal::malloc]attemptingtoallocate",
    ),
    _format(
        "metal_wait",
        "metal",
        rf"\[malloc_or_wait\]unabletoallocate(?P<requested>{_INT}bytes)",
        anchor="[malloc_or_wait]",
    ),
    _format(
        "metal_buffer",
        "metal",
        r"insufficientmemory\(\d{1,8}:kiogpucommandbuffercallbackerroroutofmemory\)",
        anchor="insufficientmemory(",
    ),
    # DeepSpeed (csrc/transformer/inference/includes/inference_context.h)
    _format(
        "deepspeed_minimum",
        "deepspeed",
        rf"requested:(?P<requested>{_INT})free:(?P<free>{_INT})total:(?P<total>{_INT})"
        r"(?:runtimeerror:)?(?:workspacecantbeallocated,no(?:t)?enoughmemory|workspaceisnull)?\.?",
        anchor="requested:",
    ),
    _format(
        "deepspeed_tokens",
        "deepspeed",
        r"allocatableworkspaceavailable\((?P<n_available>\d{1,12})tokens\)islessthanminimumrequestedworkspace"
        r"\((?P<n_minimum>\d{1,12})tokens\)(?:runtimeerror:)?(?:workspacecantbeallocated,no(?:t)?enoughmemory)?\.?",
        anchor="allocatableworkspaceavailable(",
    ),
    _format(
        "deepspeed_banner",
        "deepspeed",
        rf"freememory:(?P<free>{_GIB}\(gigabytes\))totalmemory:(?P<total>{_GIB}\(gigabytes\))"
        rf"requestedmemory:(?P<requested>{_GIB}\(gigabytes\))"
        r"(?:settingmaximumtotaltokens\(input\+output\)to(?P<n_tokens>\d{1,12}))?(?:workspace:(?:0x[0-9a-f]{1,16}|\(nil\)))?-{0,80}",
        anchor="freememory:",
        before=r"-{1,80}",
    ),
    _format(
        "deepspeed_banner_bytes",
        "deepspeed",
        rf"freememory:(?P<free>{_INT}\(bytes\))totalmemory:(?P<total>{_INT}\(bytes\))"
        r"(?:settingmaximumtotaltokens\(input\+output\)to(?P<n_tokens>\d{1,12}))?",
        anchor="freememory:",
        before=r"-{1,80}",
    ),
    _format("deepspeed_null", "deepspeed", r"workspaceisnull\.?", anchor="workspaceisnull"),
    _format(
        "deepspeed_workspace",
        "deepspeed",
        r"workspacecantbeallocated,no(?:t)?enoughmemory\.?",
        anchor="workspacecantbeallocated",
    ),
    # llama.cpp and ggml
    _format(
        "ggml",
        "cuda",
        rf"ggml_backend_cuda_buffer_type_alloc_buffer:allocating{size_group('requested')}ondevice(?P<device>\d{{1,4}}):"
        r"cudamalloc(?:managed)?failed:outofmemory",
        anchor="ggml_backend_cuda_buffer_type_alloc_buffer:",
    ),
    _format(
        "ggml_metal",
        "metal",
        r"ggml_backend_metal_\w{0,60}:error:failedtoallocatebuffer,"
        rf"size={size_group('requested')}",
        anchor="ggml_backend_metal_",
    ),
    _format("ggml_old", "cuda", r"cudaerror2at.{1,120}?:outofmemory", anchor="cudaerror2at"),
    _format(
        "ggml_buffer",
        "cuda",
        rf"failedtoallocatecuda(?P<device>\d{{1,3}})bufferofsize(?P<requested>{_INT})",
        anchor="failedtoallocatecuda",
        before=r"[a-z]\w{1,60}:",
        weak=True,
    ),
    _format(
        "ggml_cpu",
        "cpu",
        rf"failedtoallocate(?:cpu)?bufferofsize(?P<requested>{_INT})",
        anchor="failedtoallocate",
        before=r"[a-z]\w{1,60}:",
        weak=True,
    ),
    _format(
        "ggml_kv",
        "cuda",
        r"failedtoallocatebufferforkvcache",
        anchor="failedtoallocatebufferforkv",
        before=r"[a-z]\w{1,60}:",
        weak=True,
    ),
    # TensorRT
    _format(
        "tensorrt_amount",
        "tensorrt",
        rf"requestedamountofgpumemory\((?P<requested>{_INT}bytes)\)couldnotbeallocated"
        r"(?:\.theremaynotbeenoughfreememoryforallocationtosucceed\.?)?",
        anchor="requestedamountofgpumemory",
        before=r"\[[wie]\]",
    ),
    _format(
        "tensorrt_size",
        "tensorrt",
        rf"errorcode2:outofmemory(?:\((?:requestedsizewas(?P<requested>{_INT}bytes)\.?|nofurtherinformation)\))?",
        anchor="errorcode2:outofmemory",
        before=r"(?:\[trt\])?(?:\[e\])?\d{0,3}:?(?:\[[\w.:]{1,80}\])?",
    ),
    _format(
        "tensorrt_cuda",
        "tensorrt",
        r"errorcode1:cuda(?:runtime|driver)\([^()]{0,160}?outofmemory\)",
        anchor="errorcode1:cuda",
        before=r"(?:\[trt\])?(?:\[e\])?\d{0,3}:?(?:\[[\w.:]{1,80}\])?",
    ),
    _format(
        "tensorrt_tactic",
        "tensorrt",
        rf"tacticdevicerequest:(?P<requested>{_INT}mb)available:(?P<free>{_INT}mb)",
        anchor="tacticdevicerequest:",
        weak=True,
    ),
    # Gaudi, OpenVINO, XPU's runtime
    _format(
        "hpu",
        "hpu",
        rf"allocationfailedforsize::(?P<requested>{_INT})(?:\([\d.]{{1,12}}\)mb)?",
        anchor="allocationfailedforsize::",
        before=r"(?:\[rank:\d{1,5}\])?(?:fatalerror::)?(?:module:\w{1,20})?",
    ),
    _format(
        "openvino",
        "openvino",
        rf"exceededmaxsizeofmemoryobjectallocation:requested(?P<requested>{_INT}bytes)"
        rf"(?:,butmaxallocsizesupportedbydeviceis{_INT}bytes\.?)?",
        anchor="exceededmaxsizeofmemoryobjectallocation:",
        before=r"\[gpu\]",
    ),
    _format(
        "openvino_total",
        "openvino",
        rf"exceededmaxsizeofmemoryallocation:required(?P<requested>{_INT}bytes)"
        rf"(?:,alreadyoccupied:(?P<allocated>{_INT}bytes))?(?:,butavailablememorysizeis(?P<total>{_INT}bytes))?",
        anchor="exceededmaxsizeofmemoryallocation:",
        before=r"\[gpu\]",
    ),
    _format(
        "xpu_runtime",
        "xpu",
        r"ur_result_error_out_of_(?:device_memory|resources|host_memory)",
        anchor="ur_result_error_out_of_",
    ),
    _format(
        "xpu_runtime_old", "xpu", r"pi_error_out_of_(?:resources|host_memory|device_memory)", anchor="pi_error_out_of_"
    ),
)

SUMMARY_ANCHOR = "pytorchcudamemorysummary,deviceid"
SUMMARY_HEAD = re.compile(SUMMARY_ANCHOR + r"(?P<device>\d{1,4})")
SUMMARY_ROWS = {
    "allocated": re.compile(rf"\ballocatedmemory\|{size_group('size')}"),
    "reserved": re.compile(rf"gpureservedmemory\|{size_group('size')}"),
}
"""torch.cuda.memory_summary() (torch/cuda/memory.py). `Requested memory` there is no failed request."""
SUMMARY_BODY = re.compile(r"[\w|=:.,-]{0,6000}")
