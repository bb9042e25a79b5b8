"""Pasted text without what pasting adds, and the way back from there to the text as it was pasted.

Terminals wrap lines inside words and numbers, forums quote and escape, loggers put a prefix before each line. So the
formats are looked for in a *squeezed* text: no white space, quotes, colours or prefixes, in small ASCII letters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import compress, islice
from typing import NamedTuple

from core.oom.prefix import FIRST, LABEL, LINE_START, learnt_prefixes

_SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\xad" + "".join(map(chr, [*range(9), *range(14, 32), 127]))
_QUOTES = "'\"`*´‘’“”│┃║\\"
_GONE = frozenset(_SPACES + _INVISIBLE + _QUOTES)
_TABLE: dict[int, str | None] = {ord(c): None for c in _GONE} | {
    ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
}
_ASCII_TABLE = bytes(range(256)).lower()
_ASCII_GONE = "".join(c for c in _GONE if c.isascii()).encode("ascii")

_COLOUR = r"[0-9;:?]{0,40}[A-Za-z]"
_DROP = (
    rf"(?<=\x1b)(?:\[{_COLOUR}|\][^\x07\x1b]{{0,400}}(?:\x07|\x1b\\)|[ -/]{{0,4}}[0-Z^-~])|(?<=\x9b){_COLOUR}"
    rf"|(?<=\\)(?:(?:u001b|x1b|033|e)\[{_COLOUR}|[nrt])|(?<=\^)\[\[{_COLOUR}|(?<=\[)[0-9;]{{1,12}}m"
    r"|(?<=&)(?:#0?39|#x27|apos|quot|#34|rsquo|lsquo|nbsp|#160);"
    r"|(?<=<)/?(?:br|p|b|i|em|strong|code|pre|span|div|font)\b[^<>]{0,200}>"
)
"""What spans several characters and says nothing, after its first: colours, also written out, HTML, and `\\n`, the line
end of a repr or a JSON log."""

_CUT = re.compile(
    rf"[\n\r\x1b\x9b\\^&<\[](?:(?<=[\n\r])(?<![\n\r][\n\r])[\n\r]{{0,5000}}+{LINE_START}"
    rf"(?:[\n\r]{{1,99}}+(?!{LABEL}){LINE_START}){{0,50}}+|{_DROP})"
)
"""Begins with a set of characters, which `re` looks for fast. Neighbouring prefixes go at once, which is faster too.
Empty lines are taken from the first of them on and not given back, so that a flood of them is looked at once."""
_LABEL = re.compile(LABEL)
BLOCK = 512
_KEPT = bytes(chr(c) not in _GONE for c in range(256))
_GONE_BEYOND_ASCII = re.compile(f"[{''.join(c for c in _GONE if not c.isascii())}]")


def _squeeze(text: str) -> str:
    """`bytes` can do it twenty times as fast as `str`, where every character is one byte."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_TABLE, _ASCII_GONE).decode("ascii")
    return text.translate(_TABLE)


def _kept_place(text: str, begin: int, end: int, number: int) -> int:
    """Where the character stands that is `_squeeze(text[begin:end])[number]`."""
    block = text[begin:end]
    if not block.isascii() and _GONE_BEYOND_ASCII.search(block):
        kept: Iterable[int] = (place for place, c in enumerate(block, begin) if c not in _GONE)
    else:
        kept = compress(range(begin, end), block.encode("ascii", "replace").translate(_KEPT))
    return next(islice(kept, number, None))


class Pasted:
    """`text` as given, and `squeezed`. Takes time in proportion to the text's length."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._blocks: list[tuple[int, int]] = []
        """Stretches of the text that nothing is cut from but single characters."""
        self._starts: list[int] = []
        """Where each block begins in `squeezed`."""
        parts: list[str] = []
        length = 0
        for piece in _in_order(_pieces(text)):
            for begin in range(piece.begin, piece.end, BLOCK):
                end = min(begin + BLOCK, piece.end)
                kept = _squeeze(text[begin:end])
                if kept:
                    self._blocks.append((begin, end))
                    self._starts.append(length)
                    parts.append(kept)
                    length += len(kept)
        self.squeezed = "".join(parts)
        self._sorted: list[tuple[int, int]] = []

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where `squeezed[start:end]` stands in the original text; `end` is after `start`."""
        first, last = self._place(start), self._place(end - 1) + 1
        quote = self.text[last : last + 1]
        if quote and quote in "'`\"" and self.text.count(quote, first, last) % 2:
            last += 1  # it closes one that was opened inside
        return first, last

    def squeezed_between(self, begin: int, end: int) -> str:
        """What is left of `text[begin:end]`."""
        return self.squeezed[self._left_before(begin) : self._left_before(end)]

    def _left_before(self, place: int) -> int:
        """How many characters of `squeezed` stand before a place of the text, in the order of `squeezed`."""
        if not self._sorted:
            self._sorted = sorted((begin, at) for at, (begin, _) in enumerate(self._blocks))
        found = bisect_right(self._sorted, (place, len(self._blocks))) - 1
        if found < 0:
            return 0
        block = self._sorted[found][1]
        begin, end = self._blocks[block]
        return self._starts[block] + len(_squeeze(self.text[begin : min(place, end)]))

    def _place(self, at: int) -> int:
        block = bisect_right(self._starts, at) - 1
        return _kept_place(self.text, *self._blocks[block], at - self._starts[block])


class _Piece(NamedTuple):
    """A stretch of text between two cuts, and which rank's lines it belongs to, if any says so."""

    begin: int
    end: int
    label: str | None


def _pieces(text: str) -> Iterator[_Piece]:
    prefix = FIRST.match(text)
    at, label = prefix.end() if prefix else 0, _label(prefix[0]) if prefix else None
    for match in _cuts(text, at):
        first, last = match
        if first > at:
            yield _Piece(at, first, label)
        if last > at:
            at = last
            label = _label(text[first:last]) or label
    yield _Piece(at, len(text), label)


def _cuts(text: str, at: int) -> Iterable[tuple[int, int]]:
    """What is cut out, in order. What only their neighbours show to be prefixes is cut after what is known as such."""
    cuts = [match.span() for match in _CUT.finditer(text, at)]
    for name in learnt_prefixes(text):
        cuts = [(first, _beyond(text, last, name) if text[first] in "\r\n" else last) for first, last in cuts]
        if text.startswith(name, at):
            cuts.append((at, _beyond(text, at, name)))
        place = text.find("\n" + name)
        while place >= 0:
            cuts.append((place, _beyond(text, place + 1, name)))
            place = text.find("\n" + name, place + 1)
        cuts.sort()
    return cuts


def _beyond(text: str, at: int, name: str) -> int:
    """The end of `name` at `at`, and of the known prefixes that follow it; `at` where it does not stand."""
    if not text.startswith(name, at):
        return at
    inner = FIRST.match(text, at + len(name))
    return inner.end() if inner else at + len(name)


def _label(prefix: str) -> str | None:
    if len(prefix) < 3:
        return None
    match = _LABEL.search(prefix)
    return match[0] if match else None


def _in_order(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Each rank's lines together where those of several are mixed: a message of many lines is whole only then."""
    found = list(pieces)
    order: dict[str | None, int] = {}
    mixed = False
    last: str | None = None
    for piece in found:
        mixed = mixed or (piece.label != last and piece.label in order)
        order.setdefault(piece.label, len(order))
        last = piece.label
    return sorted(found, key=lambda piece: order[piece.label]) if mixed else found
