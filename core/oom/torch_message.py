"""The message of PyTorch's caching allocators (CUDA, HIP, XPU): a head, and clauses that came and went with releases.

Sources: c10/cuda/CUDACachingAllocator.cpp, c10/xpu/XPUCachingAllocator.cpp of the releases 0.4 to 2.11. A text may lack
any clause: people cut them out, and releases have different ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.oom.figures import size_group

ANCHORS = ("outofmemory", "triedtoallocate", "hasatotalcapac", "(gpu", "platformcannotallocate")
"""Where such a message can be noticed, in squeezed text."""

CLAUSES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"triedtoallocate{size_group('requested')}",
        rf"gpu(?P<device>\d{{1,4}})hasatotalcapaci?tyof{size_group('total')}ofwhich{size_group('free')}isfree",
        rf"process(?P<pid>\d{{1,10}})has{size_group('other')}memoryinuse",
        rf"includingnon-pytorchmemory,thisprocesshas{size_group('process')}memoryinuse",
        rf"{size_group('allowed')}allowed",
        rf"oftheallocatedmemory{size_group('allocated')}isallocatedbypytorch",
        rf"with{size_group('private')}allocatedinprivatepools(?:\(e\.g\.,?cudagraphs\))?",
        rf"(?:and)?{size_group('cached')}isreservedbypytorchbutunallocated",
        # up to torch 2.0
        r"gpu(?P<device>\d{1,4})(?=[;)])",
        rf"{size_group('total')}totalcapacity",
        rf"{size_group('allocated')}alreadyallocated",
        rf"{size_group('free')}free(?=[;).])",
        rf"{size_group('reserved')}reservedintotalbypytorch",
        rf"{size_group('cached')}cached(?=[;).])",  # cached minus allocated, in the source of 1.0 to 1.4
        r"ifreserved(?:butunallocated)?memoryis(?:large|>{0,2}allocatedmemory)trysetting[\w=:]{1,80}?toavoidfragmentation",
        r"seedocumentationformemorymanagement(?:and\w{1,40}|\(https?://[\w./#-]{1,160}\))?",
        r"pleaseuseempty_cachetoreleaseallunoccupiedcachedmemory",
    )
)


def _begins(pattern: str, letter: str) -> bool:
    if pattern.startswith("(?P"):
        return letter == "0"
    if pattern.startswith("(?:and)?"):
        return letter in "a0"
    return pattern.startswith(letter)


_FILLER = re.compile(r"[.;,:()\[\]…]{0,8}")
_TAIL = re.compile(r"[.)]{0,2}")
_HEAD = re.compile(
    r"(?:(cuda|hip|xpu)outofmemory|outofmemory|platformcannotallocatememoryblockwithsizelargerthan\w{1,6}!)"
)
_CLASSES = tuple(
    f"{module}{name}error:"
    for module in ("torch.cuda.", "torch.distributed.", "torch.", "")
    for name in ("outofmemory", "runtime", "accelerator", "distbackend", "memory", "value", "")
)

_FIRST: dict[str, tuple[re.Pattern[str], ...]] = {
    letter: tuple(clause for clause in CLAUSES if _begins(clause.pattern, letter)) for letter in "tgpiowas0"
}
"""The clauses by their first letter, `0` for a digit: trying all of them at each place would take most of the time."""


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
    r"outofmemory[.;,:()\[\]…]{0,8}(?:tried|gpu\d|process\d|includ|\d|ofthe|with\d|and\d|ifres|seedoc|please)"
    r"|triedtoallocate\d|hasatotalcapac|\(gpu\d{1,4};\d|platformcannotallocate"
)
_RAISED = tuple(f"error:{device}" for device in ("cuda", "hip", "xpu", ""))


def may_be_message(squeezed: str, anchor: int) -> bool:
    """Whether a closer look at `anchor` is worth its time."""
    return _VIABLE.match(squeezed, anchor) is not None or squeezed.endswith(_RAISED, 0, anchor)


def class_before(squeezed: str, start: int) -> int:
    """Where an exception's name that ends at `start` begins; `start` where there is none."""
    at = start - len("current") if squeezed.endswith("current", 0, start) else start
    if not squeezed.endswith("error:", 0, at):
        return start
    return next(at - len(name) for name in _CLASSES if squeezed.endswith(name, 0, at))


def message_at(squeezed: str, anchor: int) -> Message | None:
    """The message that is noticed at `anchor`, or None for a mention of the words in something else."""
    device = next((word for word in ("cuda", "hip", "xpu") if squeezed.endswith(word, 0, anchor)), "")
    start = anchor - len(device) if squeezed.startswith("outofmemory", anchor) else anchor
    head = _HEAD.match(squeezed, start)
    begun = class_before(squeezed, start)
    found = Message(begun, head.end() if head else start, None, begun < start)
    if head:
        found.backend = head[1] or ("xpu" if "platform" in head[0] else None)
    at = found.end
    for match in _clauses(squeezed, at):
        _take(found, match)
        found.end = match.end()
    if found.end == at and not (head and found.classed):
        return None
    if not head and not found.groups.keys() - {"device"}:
        return None
    tail = _TAIL.match(squeezed, found.end)
    found.end = tail.end() if tail else found.end
    found.backend = found.backend or _backend_in(squeezed[found.start : found.end], bool(head))
    return found


def _clauses(squeezed: str, at: int) -> Iterator[re.Match[str]]:
    """Each clause that follows `at`, with nothing but punctuation between; none but a process comes twice."""
    seen: set[re.Pattern[str]] = set()
    while True:
        filler = _FILLER.match(squeezed, at)
        at = filler.end() if filler else at
        letter = squeezed[at : at + 1]
        clauses = _FIRST.get("0" if letter.isdigit() else letter, ())
        match = next((match for clause in clauses if (match := clause.match(squeezed, at))), None)
        if match is None or match.re in seen:
            return
        if "pid" not in match.re.groupindex:
            seen.add(match.re)
        yield match
        at = match.end()


def _take(found: Message, match: re.Match[str]) -> None:
    groups = match.groupdict()
    if "pid" in groups:
        found.others.append((int(groups["pid"]), groups["other"]))
        return
    for name, text in groups.items():
        found.groups.setdefault(name, text)


def _backend_in(message: str, headed: bool) -> str | None:
    """From the hint at the end, where the head names none. A head without a device is the device-generic text."""
    if "pytorch_hip_" in message:
        return "hip"
    if "pytorch_cuda_" in message or not headed:
        return "cuda"
    return None
