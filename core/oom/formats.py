"""Every format with a fixed wording: host memory, Apple, DeepSpeed, Intel, Gaudi here; CUDA and engines beside it."""

from __future__ import annotations

import re

from core.oom.figures import size_group
from core.oom.format import INT, Format, looked_for
from core.oom.formats_cuda import CUDA_FORMATS
from core.oom.formats_engines import ENGINE_FORMATS

_GIB = r"\d{1,12}(?:\.\d{1,8})?"

OTHER_FORMATS: tuple[Format, ...] = (
    # host memory
    looked_for(
        "cpu",
        "cpu",
        r"defaultcpuallocator:(?:cantallocatememory|notenoughmemory):youtriedtoallocate"
        rf"(?P<requested>{INT}bytes)(?:\.errorcode12\(cannotallocatememory\)|\.)?",
        anchor="defaultcpuallocator:",
        before=r"\[enforcefailat[\w.:/-]{1,200}\.cpp:\d{1,6}\](?:err==0|data|\w{0,20})?\.",
    ),
    looked_for(
        "numpy",
        "cpu",
        rf"unabletoallocate{size_group('requested')}foranarraywithshape",
        anchor="unabletoallocate",
    ),
    looked_for(
        "torch_th",
        "cpu",
        rf"torch:notenoughmemory:youtriedtoallocate{size_group('requested')}\.?(?:buynewram!?)?",
        anchor="torch:notenoughmemory:",
        before=r"\$",
    ),
    looked_for(
        "paging_file",
        "cpu",
        r"thepagingfileistoosmallforthisoperationtocomplete\.?(?:\(oserror1455\))?",
        anchor="thepaging",
    ),
    looked_for(
        "oom_killer",
        "cpu",
        rf"outofmemory:kill(?:ed)?process\d{{1,9}}(?:\([^()]{{1,40}}\))?(?:[\w:,.-]{{0,120}}?anon-rss:(?P<allocated>{INT}kb))?",
        anchor="outofmemory:kill",
    ),
    looked_for("bad_alloc", "cpu", r"std::bad_alloc(?!:(?:out_of_memory:)?cuda)", anchor="std::bad_alloc", weak=True),
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
        rf"\[malloc(?:_or_wait)?\]unabletoallocate(?P<requested>{INT}bytes)\.?",
        anchor="[malloc",
    ),
    looked_for(
        "metal_resources",
        "metal",
        r"\[metal::malloc\]resourcelimit\((?P<n_resources>\d{1,12})\)exceeded\.?",
        anchor="[metal::malloc]resourcelimit",
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
        "opencl",
        "opencl",
        r"cl_(?:out_of_resources|out_of_host_memory|mem_object_allocation_failure)",
        anchor="cl_",
    ),
    looked_for(
        "xpu_runtime_old",
        "xpu",
        r"pi_error_out_of_(?:resources|host_memory|device_memory)(?:\)-\d{1,4}\(pi_error_out_of_\w{1,20}\))?",
        anchor="pi_error_out_of_",
    ),
)

FORMATS = (*CUDA_FORMATS, *ENGINE_FORMATS, *OTHER_FORMATS)

SUMMARY_ANCHOR = "pytorchcudamemorysummary,deviceid"
SUMMARY_HEAD = re.compile(SUMMARY_ANCHOR + r"(?P<device>\d{1,4})")
SUMMARY_ROWS = {
    "allocated": re.compile(rf"\ballocatedmemory\|{size_group('size')}"),
    "reserved": re.compile(rf"gpureservedmemory\|{size_group('size')}"),
}
"""torch.cuda.memory_summary() (torch/cuda/memory.py). `Requested memory` there is no failed request."""
SUMMARY_BODY = re.compile(r"[\w|=:.,-]{0,6000}")
