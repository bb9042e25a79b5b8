"""Finds every out-of-memory error in a text, whatever was pasted around it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from core.oom.error import OomError, OtherProcess
from core.oom.figures import ABSURD, NO_VALUE, figure, parse_size
from core.oom.format import Format
from core.oom.formats import FORMATS, SUMMARY_ANCHOR, SUMMARY_BODY, SUMMARY_HEAD, SUMMARY_ROWS
from core.oom.paste import Pasted
from core.oom.torch_message import ANCHORS, class_before, may_be_message, message_at


def most_errors(length: int) -> int:
    """How many errors are looked for in so many characters: real messages are this long, hostile ones may not be."""
    return 20 + length // 300


NEAR = 8_000
"""Characters of squeezed text between two parts of one error, such as a traceback between figures and message."""

QUOTED = 3
"""Backend, request and device: a text that says no more may be a quote from an error that stands elsewhere in it."""

SHORT = {
    "requested": "requested_bytes",
    "device": "device_index",
    "total": "total_bytes",
    "free": "free_bytes",
    "allocated": "allocated_bytes",
    "reserved": "reserved_bytes",
    "cached": "reserved_unallocated_bytes",
    "process": "process_bytes",
    "private": "private_pool_bytes",
    "allowed": "allowed_bytes",
}
"""Groups of the patterns, and the fields they are."""


def parse(pasted: Pasted) -> list[OomError]:
    """The errors in the order of the text; their spans are places in the original text."""
    found = [*_fixed(pasted), *_summaries(pasted)]
    taken = _Taken(error.span for error in found)
    found += _messages(pasted, taken)
    found.sort(key=lambda error: error.span)
    kept = _merged(_without_echoes(found))[: most_errors(len(pasted.text))]
    return sorted((error.at(pasted.span(*error.span)) for error in kept), key=lambda error: error.span)


class _Taken:
    """Stretches of squeezed text that belong to an error already."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self.spans = sorted(spans)
        self.starts = [start for start, _ in self.spans]

    def holds(self, at: int) -> bool:
        place = bisect_right(self.starts, at) - 1
        return place >= 0 and at < self.spans[place][1]


def _places(squeezed: str, word: str) -> Iterator[int]:
    at = squeezed.find(word)
    while at >= 0:
        yield at
        at = squeezed.find(word, at + 1)


def _fixed(pasted: Pasted) -> Iterator[OomError]:
    squeezed, most = pasted.squeezed, most_errors(len(pasted.text))
    for form in FORMATS:
        count, after = 0, 0
        for anchor in _places(squeezed, form.anchor):
            match = form.pattern.match(squeezed, anchor) if anchor >= after else None
            if match is None or (form.needs and not form.needs.search(match[0])):
                continue
            count, before, after = count + 1, after, match.end()
            if count > most:
                break
            start = max(before, class_before(squeezed, _before(squeezed, form, anchor)))
            yield _error(form.kind, form.backend, (start, match.end()), match.groupdict())


def _before(squeezed: str, form: Format, anchor: int) -> int:
    """Where the message begins, if something that belongs to it stands before the anchor."""
    if form.backend == "nccl":
        head = squeezed.rfind("ncclerrorin:", max(0, anchor - 600), anchor)
        return head if head >= 0 else anchor
    if form.before is None:
        return anchor
    window = squeezed[max(0, anchor - 160) : anchor]
    ahead = form.before.search(window)
    return anchor - (len(window) - ahead.start()) if ahead else anchor


def _summaries(pasted: Pasted) -> Iterator[OomError]:
    squeezed, most = pasted.squeezed, most_errors(len(pasted.text))
    for count, anchor in enumerate(_places(squeezed, SUMMARY_ANCHOR)):
        head = SUMMARY_HEAD.match(squeezed, anchor)
        following = squeezed.find(SUMMARY_ANCHOR, anchor + 1)
        body = SUMMARY_BODY.match(squeezed, anchor, following if following > 0 else len(squeezed))
        if head is None or body is None or count >= most:
            continue
        table = body[0].rpartition("|")[0]
        groups: dict[str, str | None] = {"device": head["device"]}
        for name, row in SUMMARY_ROWS.items():
            cells = row.search(table)
            groups[name] = cells["size"] if cells else None
        rule = len(squeezed[max(0, anchor - 90) : anchor]) - len(squeezed[max(0, anchor - 90) : anchor].rstrip("=|"))
        yield _error("memory_summary", "cuda", (anchor - rule, anchor + max(len(table) + 1, len(head[0]))), groups)


def _messages(pasted: Pasted, taken: _Taken) -> list[OomError]:
    """Messages of the caching allocators. A size that is only quoted beside a whole message is no error of its own."""
    squeezed = pasted.squeezed
    anchors = sorted({place for word in ANCHORS for place in _places(squeezed, word)})
    whole: list[OomError] = []
    quoted: list[OomError] = []
    after = 0
    for anchor in anchors:
        if anchor < after or not may_be_message(squeezed, anchor) or taken.holds(anchor):
            continue
        message = message_at(squeezed, anchor)
        if message is None:
            continue
        start, after = max(after, message.start), message.end
        error = _error("torch", message.backend, (start, message.end), message.groups, message.others)
        (whole if message.classed or error.said() > QUOTED else quoted).append(error)
        if len(whole) + len(quoted) > most_errors(len(pasted.text)):
            break
    requests = {error.requested_bytes for error in whole}
    for error in quoted:
        if error.requested_bytes not in requests:
            requests.add(error.requested_bytes)
            whole.append(error)
    return whole


def _error(
    kind: str,
    backend: str | None,
    span: tuple[int, int],
    groups: Mapping[str, str | None],
    others: Iterable[tuple[int, str]] = (),
) -> OomError:
    values: dict[str, int] = {}
    numbers: dict[str, int] = {}
    not_values = []
    step = 0
    for name, text in groups.items():
        if text is None:
            continue
        if name == "device":
            values["device_index"] = int(text)
        elif name in SHORT:
            size = text.replace("(", "").replace(")", "") if text[-1] == ")" else text
            value, printed = figure(size)
            if value == NO_VALUE or (value >= ABSURD and name != "requested"):
                not_values.append(SHORT[name])
                continue
            values[SHORT[name]] = value
            if name == "requested":
                step = printed
        elif name == "free_bare":  # in the unit of the total
            values["free_bytes"] = parse_size(text + (groups["total"] or "").lstrip("0123456789."))
        elif name.startswith("n_"):
            numbers[name[2:]] = int(text)
        else:
            numbers[name] = parse_size(text)
    processes = []
    for pid, text in others:
        value = parse_size(text)
        if value >= ABSURD:
            not_values.append("other_processes")
        processes.append(OtherProcess(pid, None if value >= ABSURD else value))
    return OomError(
        kind,
        span,
        backend,
        step_bytes=step,
        other_processes=tuple(processes) or None,
        not_values=tuple(not_values),
        numbers=numbers,
        **values,
    )


WEAK = {form.kind for form in FORMATS if form.weak}


def _without_echoes(errors: list[OomError]) -> list[OomError]:
    """Without what repeats a better message of the same backend in other words, or the same in fewer."""
    most: dict[str, int] = {}
    for error in errors:
        backend = _maker(error)
        most[backend] = max(most.get(backend, 0), error.said() if error.kind in WEAK else STRONG)
    return [error for error in errors if error.kind not in WEAK or error.said() >= most[_maker(error)]]


def _maker(error: OomError) -> str:
    return (error.backend or "").removesuffix("_driver")


STRONG = 100


PARTS = {"deepspeed": "deepspeed_", "tensorrt": "tensorrt_"}
"""Backends that print the figures of a failure apart from its message."""


def _merged(errors: list[OomError]) -> list[OomError]:
    """Figures and the bare message that follows them, as one error from the first to the last of its text."""
    merged: list[OomError] = []
    for error in errors:
        last = merged[-1] if merged else None
        if last and error.backend in PARTS and last.backend == error.backend and _is_part(last, error):
            first = last if last.said() >= error.said() else error
            merged[-1] = replace(first, span=(last.span[0], error.span[1]))
        else:
            merged.append(error)
    return merged


def _is_part(last: OomError, error: OomError) -> bool:
    bare = {"deepspeed_null", "deepspeed_workspace", "tensorrt_cuda", "tensorrt_size"}
    one_is_bare = (error.kind in bare and error.said() == 1) or (last.kind in bare and last.said() == 1)
    both = error.said() == 1 and last.said() == 1
    informed = last.kind not in ("deepspeed_banner", "deepspeed_banner_bytes")
    return one_is_bare and not (both and not last.numbers) and informed and error.span[0] - last.span[1] < NEAR
