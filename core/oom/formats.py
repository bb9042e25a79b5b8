"""Every format with a fixed wording: CUDA's, host memory, Apple, DeepSpeed, other runtimes; and the summary table."""

from __future__ import annotations

import re

from core.oom.figures import size_group
from core.oom.format import INT, Format, looked_for
from core.oom.formats_cuda import CUDA_FORMATS

_GIB = r"\d{1,12}(?:\.\d{1,8})?"

OTHER_FORMATS: tuple[Format, ...] = (
    # host memory
    looked_for(
        "cpu",
        "cpu",
        r"defaultcpuallocator:(?:cantallocatememory|notenoughmemory):youtriedtoallocate"
        rf"(?P<requested>{INT}bytes)(?:\.errorcode12\(cannotallocatememory\)|\.)?",
        anchor="defaultcpuallocator:",
        before=r"\[enforcefailat\w{1,20}\.cpp:\d{1,6}\](?:err==0|data|\w{0,20})?\.",
    ),
    looked_for(
        "numpy",
        "cpu",
        rf"unabletoallocate{size_group('requested')}foranarraywithshape",
        anchor="unabletoallocate",
    ),
    looked_for("mmap", "cpu", rf"unabletommap(?P<requested>{INT}bytes)fromfile", anchor="unabletommap"),
    # Apple
    looked_for(
        "mps",
        "mps",
        rf"mpsbackendoutofmemory(?:\(mpsallocated:{size_group('allocated')},otherallocations:{size_group('mps_other')}"
        rf"(?:,maxallowed:(?:{size_group('allowed')}|\w{{1,12}}))?\))?\.?"
        rf"(?:triedtoallocate{size_group('requested')}(?:on\w{{1,10}}?pool)?\.?)?"
        r"(?:usepytorch_mps_high_watermark_ratio=0\.0todisableupperlimitformemoryallocations"
        r"(?:\(maycausesystemfailure\)\.?)?)?",
        anchor="mpsbackendoutofmemory",
    ),
    looked_for("mps_buffer", "mps", rf"invalidbuffersize:{size_group('requested')}", anchor="invalidbuffersize:"),
    looked_for(
        "metal",
        "metal",
        rf"\[metal::malloc\]attemptingtoallocate(?P<requested>{INT}bytes)"
        rf"(?:whichisgreaterthanthemaximumallowedbuffersizeof{INT}bytes\.?)?",
        anchor="[metal::malloc]attemptingtoallocate",
    ),
    looked_for(
        "metal_wait",
        "metal",
        rf"\[malloc_or_wait\]unabletoallocate(?P<requested>{INT}bytes)",
        anchor="[malloc_or_wait]",
    ),
    looked_for(
        "metal_buffer",
        "metal",
        r"insufficientmemory\(\d{1,8}:kiogpucommandbuffercallbackerroroutofmemory\)",
        anchor="insufficientmemory(",
    ),
    # DeepSpeed (csrc/transformer/inference/includes/inference_context.h)
    looked_for(
        "deepspeed_minimum",
        "deepspeed",
        rf"requested:(?P<requested>{INT})free:(?P<free>{INT})total:(?P<total>{INT})"
        r"(?:runtimeerror:)?(?:workspacecantbeallocated,no(?:t)?enoughmemory|workspaceisnull)?\.?",
        anchor="requested:",
    ),
    looked_for(
        "deepspeed_tokens",
        "deepspeed",
        r"allocatableworkspaceavailable\((?P<n_available>\d{1,12})tokens\)islessthanminimumrequestedworkspace"
        r"\((?P<n_minimum>\d{1,12})tokens\)(?:runtimeerror:)?(?:workspacecantbeallocated,no(?:t)?enoughmemory)?\.?",
        anchor="allocatableworkspaceavailable(",
    ),
    looked_for(
        "deepspeed_banner",
        "deepspeed",
        rf"freememory:(?P<free>{_GIB}\(gigabytes\))totalmemory:(?P<total>{_GIB}\(gigabytes\))"
        rf"requestedmemory:(?P<requested>{_GIB}\(gigabytes\))"
        r"(?:settingmaximumtotaltokens\(input\+output\)to(?P<n_tokens>\d{1,12}))?(?:workspace:(?:0x[0-9a-f]{1,16}|\(nil\)))?-{0,80}",
        anchor="freememory:",
        before=r"(?<!-)-{1,80}",
    ),
    looked_for(
        "deepspeed_banner_bytes",
        "deepspeed",
        rf"freememory:(?P<free>{INT}\(bytes\))totalmemory:(?P<total>{INT}\(bytes\))"
        r"(?:settingmaximumtotaltokens\(input\+output\)to(?P<n_tokens>\d{1,12}))?",
        anchor="freememory:",
        before=r"(?<!-)-{1,80}",
    ),
    looked_for("deepspeed_null", "deepspeed", r"workspaceisnull\.?", anchor="workspaceisnull"),
    looked_for(
        "deepspeed_workspace",
        "deepspeed",
        r"workspacecantbeallocated,no(?:t)?enoughmemory\.?",
        anchor="workspacecantbeallocated",
    ),
    # llama.cpp and ggml
    looked_for(
        "ggml",
        "cuda",
        rf"ggml_backend_cuda_buffer_type_alloc_buffer:allocating{size_group('requested')}ondevice(?P<device>\d{{1,4}}):"
        r"cudamalloc(?:managed)?failed:outofmemory",
        anchor="ggml_backend_cuda_buffer_type_alloc_buffer:",
    ),
    looked_for(
        "ggml_metal",
        "metal",
        r"ggml_backend_metal_\w{0,60}:error:failedtoallocatebuffer,"
        rf"size={size_group('requested')}",
        anchor="ggml_backend_metal_",
    ),
    looked_for("ggml_old", "cuda", r"cudaerror2at.{1,120}?:outofmemory", anchor="cudaerror2at"),
    looked_for(
        "ggml_buffer",
        "cuda",
        rf"failedtoallocatecuda(?P<device>\d{{1,3}})bufferofsize(?P<requested>{INT})",
        anchor="failedtoallocatecuda",
        before=r"[a-z]\w{1,60}:",
        weak=True,
    ),
    looked_for(
        "ggml_cpu",
        "cpu",
        rf"failedtoallocate(?:cpu)?bufferofsize(?P<requested>{INT})",
        anchor="failedtoallocate",
        before=r"[a-z]\w{1,60}:",
        weak=True,
    ),
    looked_for(
        "ggml_kv",
        "cuda",
        r"failedtoallocatebufferforkvcache",
        anchor="failedtoallocatebufferforkv",
        before=r"[a-z]\w{1,60}:",
        weak=True,
    ),
    # TensorRT
    looked_for(
        "tensorrt_amount",
        "tensorrt",
        rf"requestedamountofgpumemory\((?P<requested>{INT}bytes)\)couldnotbeallocated"
        r"(?:\.theremaynotbeenoughfreememoryforallocationtosucceed\.?)?",
        anchor="requestedamountofgpumemory",
        before=r"\[[wie]\]",
    ),
    looked_for(
        "tensorrt_size",
        "tensorrt",
        rf"errorcode2:outofmemory(?:\((?:requestedsizewas(?P<requested>{INT}bytes)\.?|nofurtherinformation)\))?",
        anchor="errorcode2:outofmemory",
        before=r"(?:\[trt\])?(?:\[e\])?\d{0,3}:?(?:\[[\w.:]{1,80}\])?",
    ),
    looked_for(
        "tensorrt_cuda",
        "tensorrt",
        r"errorcode1:cuda(?:runtime|driver)\([^()]{0,160}?outofmemory\)",
        anchor="errorcode1:cuda",
        before=r"(?:\[trt\])?(?:\[e\])?\d{0,3}:?(?:\[[\w.:]{1,80}\])?",
    ),
    looked_for(
        "tensorrt_tactic",
        "tensorrt",
        rf"tacticdevicerequest:(?P<requested>{INT}mb)available:(?P<free>{INT}mb)",
        anchor="tacticdevicerequest:",
        weak=True,
    ),
    # Gaudi, OpenVINO, XPU's runtime
    looked_for(
        "hpu",
        "hpu",
        rf"allocationfailedforsize::(?P<requested>{INT})(?:\([\d.]{{1,12}}\)mb)?",
        anchor="allocationfailedforsize::",
        before=r"(?:\[rank:\d{1,5}\])?(?:fatalerror::)?(?:module:\w{1,20})?",
    ),
    looked_for(
        "openvino",
        "openvino",
        rf"exceededmaxsizeofmemoryobjectallocation:requested(?P<requested>{INT}bytes)"
        rf"(?:,butmaxallocsizesupportedbydeviceis{INT}bytes\.?)?",
        anchor="exceededmaxsizeofmemoryobjectallocation:",
        before=r"\[gpu\]",
    ),
    looked_for(
        "openvino_total",
        "openvino",
        rf"exceededmaxsizeofmemoryallocation:required(?P<requested>{INT}bytes)"
        rf"(?:,alreadyoccupied:(?P<allocated>{INT}bytes))?(?:,butavailablememorysizeis(?P<total>{INT}bytes))?",
        anchor="exceededmaxsizeofmemoryallocation:",
        before=r"\[gpu\]",
    ),
    looked_for(
        "xpu_runtime",
        "xpu",
        r"ur_result_error_out_of_(?:device_memory|resources|host_memory)",
        anchor="ur_result_error_out_of_",
    ),
    looked_for(
        "xpu_runtime_old", "xpu", r"pi_error_out_of_(?:resources|host_memory|device_memory)", anchor="pi_error_out_of_"
    ),
)

FORMATS = (*CUDA_FORMATS, *OTHER_FORMATS)

SUMMARY_ANCHOR = "pytorchcudamemorysummary,deviceid"
SUMMARY_HEAD = re.compile(SUMMARY_ANCHOR + r"(?P<device>\d{1,4})")
SUMMARY_ROWS = {
    "allocated": re.compile(rf"\ballocatedmemory\|{size_group('size')}"),
    "reserved": re.compile(rf"gpureservedmemory\|{size_group('size')}"),
}
"""torch.cuda.memory_summary() (torch/cuda/memory.py). `Requested memory` there is no failed request."""
SUMMARY_BODY = re.compile(r"[\w|=:.,-]{0,6000}")
