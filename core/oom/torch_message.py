"""The message of PyTorch's caching allocators (CUDA, HIP, XPU): a head, and clauses that came and went with releases.

Sources: c10/cuda/CUDACachingAllocator.cpp, c10/xpu/XPUCachingAllocator.cpp of the releases 0.4 to 2.11. A text may lack
any clause: people cut them out, and releases have different ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.oom.figures import size_group

ANCHORS = ("outofmemory", "triedtoallocate", "hasatotalcapac", "(gpu", "(npu", "platformcannotallocate")
"""Where such a message can be noticed, in squeezed text."""

_CLAUSE = re.compile(
    r"[.;,:()\[\]…]{0,8}(?:"
    + "|".join(
        (
            rf"triedtoallocate{size_group('requested')}",
            rf"[gn]pu(?P<device>\d{{1,4}})(?:hasatotalcapaci?tyof{size_group('total')}(?:ofwhich{size_group('free')}isfree)?"
            r"|(?=[;)]))",
            rf"process(?P<pid>\d{{1,10}})has{size_group('other')}memoryinuse",
            rf"includingnon-pytorchmemory,thisprocesshas{size_group('process')}memoryinuse",
            rf"oftheallocatedmemory{size_group('allocated')}isallocatedbypytorch",
            rf"with{size_group('private')}allocatedinprivatepools(?:\(e\.g\.,?cudagraphs\))?",
            rf"(?:and)?{size_group('figure')}(?P<words>allowed|currentactive|isreservedbypytorchbutunallocated"
            # up to torch 2.0
            r"|totalcapacity|alreadyallocated|free(?=[;).])|reservedintotalbypytorch|cached(?=[;).]))",
            r"(?P<hint>ifreserved(?:butunallocated)?memoryis(?:large|>{0,2}allocatedmemory)trysetting[\w=:]{1,80}?toavoidfragmentation)",
            r"(?P<manual>seedocumentationformemorymanagement(?:and\w{1,40}|\(https?://[\w./#-]{1,160}\))?)",
            r"(?P<empty>pleaseuseempty_cachetoreleaseallunoccupiedcachedmemory)",
        )
    )
    + ")"
)
_WORDS = {
    "allowed": "allowed",
    "isreservedbypytorchbutunallocated": "cached",
    "totalcapacity": "total",
    "alreadyallocated": "allocated",
    "free": "free",
    "reservedintotalbypytorch": "reserved",
    "currentactive": "active",
    "cached": "cached",  # cached minus allocated, in the source of 1.0 to 1.4
}
"""What the figure before these words is."""

_AS_PRINTED = re.compile(r"\d{1,20}[.,]\d\d[kmgt]ib|\d{1,20}bytes?")
"""How the allocators print a size; people who write of one seldom do."""
_TAIL = re.compile(r"[.)]{0,2}")
_HEAD = re.compile(
    r"(?:(cuda|hip|xpu|npu)outofmemory|outofmemory|platformcannotallocatememoryblockwithsizelargerthan\w{1,6}!)"
)
_CLASS = re.compile(
    r"(?:torch\.(?:cuda\.|distributed\.)?)?(?:outofmemory|runtime|accelerator|distbackend|memory|value)?error:(?:current)?\Z"
)


@dataclass
class Message:
    """A message in squeezed text, with an exception's name before it or not (`classed`).

    `groups`: the first text of each figure, as printed; `others`: pid and size.
    """

    start: int
    end: int
    backend: str | None
    classed: bool
    groups: dict[str, str] = field(default_factory=dict)
    others: list[tuple[int, str]] = field(default_factory=list)


_VIABLE = re.compile(
    r"outofmemory[.;,:()\[\]…]{0,8}(?:tried|[gn]pu\d|process\d|includ|\d|ofthe|with\d|and\d|ifres|seedoc|please)"
    r"|triedtoallocate\d|hasatotalcapac|\([gn]pu\d{1,4};\d|platformcannotallocate"
)
_RAISED = ("outofmemoryerror:", *(f"error:{device}" for device in ("cuda", "hip", "xpu", "npu")))


def may_be_message(squeezed: str, anchor: int) -> bool:
    """Whether a closer look at `anchor` is worth its time."""
    return _VIABLE.match(squeezed, anchor) is not None or squeezed.endswith(_RAISED, 0, anchor)


def class_before(squeezed: str, start: int) -> int:
    """Where an exception's name that ends at `start` begins; `start` where there is none."""
    if not squeezed.endswith(("error:", "current"), 0, start):
        return start
    found = _CLASS.search(squeezed, max(0, start - 60), start)
    return found.start() if found else start


def message_at(squeezed: str, anchor: int) -> Message | None:
    """The message that is noticed at `anchor`, or None for a mention of the words in something else."""
    start = anchor
    if squeezed.startswith("outofmemory", anchor):
        start -= next((len(word) for word in ("cuda", "hip", "xpu", "npu") if squeezed.endswith(word, 0, anchor)), 0)
    head = _HEAD.match(squeezed, start)
    begun = class_before(squeezed, start)
    found = Message(begun, head.end() if head else start, None, begun < start)
    if head:
        found.backend = head[1] or ("xpu" if "platform" in head[0] else None)
    at = found.end
    for match in _clauses(squeezed, at):
        _take(found, match)
        found.end = match.end()
    if found.end == at and not (head and found.classed and (head[1] or "outofmemoryerror:" in squeezed[begun:start])):
        return None  # `git error: out of memory` names no device
    if not head and not found.groups.keys() - {"device"}:
        return None
    if not head and found.groups.keys() == {"requested"} and not _AS_PRINTED.fullmatch(found.groups["requested"]):
        return None  # `I tried to allocate 10 GB`
    if not head and squeezed.endswith(("mallocfailed(", "$torch:notenoughmemory:you"), 0, start):
        return None  # git's, and an older one that is a format of its own
    tail = _TAIL.match(squeezed, found.end)
    found.end = tail.end() if tail else found.end
    found.backend = found.backend or _backend_in(squeezed[found.start : found.end], bool(head))
    return found


def _clauses(squeezed: str, at: int) -> Iterator[re.Match[str]]:
    """Each clause that follows `at`, with nothing but punctuation between; none but a process comes twice."""
    seen: set[str | None] = set()
    while match := _CLAUSE.match(squeezed, at):
        last = match.lastgroup
        if last != "other":
            key = match["words"] if last == "words" else last
            if key in seen:
                return
            seen.add(key)
        yield match
        at = match.end()


def _take(found: Message, match: re.Match[str]) -> None:
    last = match.lastgroup
    if last == "other":
        found.others.append((int(match["pid"]), match["other"]))
    elif last == "words":
        found.groups.setdefault(_WORDS[match["words"]], match["figure"])
    elif last in ("free", "total", "device"):
        for name in ("device", "total", "free"):
            if match[name] is not None:
                found.groups.setdefault(name, match[name])
    elif last in ("requested", "process", "allocated", "private"):
        found.groups.setdefault(last, match[last])


def _backend_in(message: str, headed: bool) -> str | None:
    """From the hint at the end, where the head names none. A head without a device is the device-generic text."""
    if "pytorch_hip_" in message:
        return "hip"
    if "pytorch_cuda_" in message or not headed:
        return "cuda"
    return None
