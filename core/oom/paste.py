"""Pasted text without what pasting adds, and the way back from there to the text as it was pasted.

Terminals wrap lines inside words and numbers, forums quote and escape, loggers put a prefix before each line. So the
formats are looked for in a *squeezed* text: no white space, quotes, colours or prefixes, in small ASCII letters.
"""

from __future__ import annotations

import re
from bisect import bisect_right

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
    rf"|(?<=\\)(?:(?:u001b|x1b|033|e)\[{_COLOUR}|[nrt])|(?<=\^)\[\[{_COLOUR}"
    r"|(?<=&)(?:#0?39|#x27|apos|quot|#34|rsquo|lsquo|nbsp|#160);"
    r"|(?<=<)/?(?:br|p|b|i|em|strong|code|pre|span|div|font)\b[^<>]{0,200}>"
)
"""What spans several characters and says nothing, after its first: colours, also written out, HTML, and `\\n`, the line
end of a repr or a JSON log."""

_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_PREFIX = (
    r"(?:[ \t]{1,200}"
    r"|(?:\x1b\[[0-9;]{0,20}m)"
    r"|(?:>|&gt;)"
    r"|[│┃║]"
    r"|\[(?:[Rr]ank|default|worker)[ :]?\d{1,5}\]:"
    r"|\[\d{1,5}(?:,\d{1,5})?\](?:<std(?:err|out)>)?: ?"
    r"|(?:[Rr]ank|worker|node)[ -]?\d{1,5}: "
    r"|\d{1,5}: "
    r"|\([A-Za-z][\w.+-]{0,60}(?: (?:pid|rank|ip|TP\d|DP\d|\w{1,12})=[^()\n]{1,80})\)"
    r"|[A-Za-z][\w.]{0,40}[-_]\d{1,3} {0,20}\| "
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[T ]" + _TIME + r"(?:Z|[+-]\d\d:?\d\d)?\]?(?: ?[-|,:](?= ))?"
    r"|\[?(?:\d\d-\d\d )?" + _TIME + r"\](?:\S{0,4}(?= ))?|(?:\d\d[-/]\d\d )" + _TIME + r"(?= )"
    r"|\[?(?:ERROR|WARNING|WARN|INFO|DEBUG|CRITICAL|NOTICE)\]?(?:(?=[ \t\[])|:(?:\w{1,40}:)?|(?=\|))"
    r"|\[[\w./-]{1,80}\.(?:py|cc|cpp|cu):\d{1,6}(?::\w{1,40})?\]:?"
    r"){1,10}"
)


_FIRST = re.compile(_PREFIX)
_CUT = re.compile(
    rf"[\n\r\x1b\x9b\\^&<](?:(?<=[\n\r])(?<![\n\r][\n\r])[\n\r]{{0,5000}}+{_PREFIX}"
    rf"(?:[\n\r]{{1,99}}+{_PREFIX}){{0,50}}|{_DROP})"
)
"""Begins with a set of characters, which `re` looks for fast. Neighbouring prefixes go at once, which is faster too.
Empty lines are taken from the first of them on and not given back, so that a flood of them is looked at once."""
BLOCK = 2048


def _squeeze(text: str) -> str:
    """`bytes` can do it twenty times as fast as `str`, where every character is one byte."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_TABLE, _ASCII_GONE).decode("ascii")
    return text.translate(_TABLE)


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
        prefix = _FIRST.match(text)
        at = prefix.end() if prefix else 0
        for first, last in (*(match.span() for match in _CUT.finditer(text, at)), (len(text), len(text))):
            for begin in range(at, first, BLOCK):
                end = min(begin + BLOCK, first)
                kept = _squeeze(text[begin:end])
                if kept:
                    self._blocks.append((begin, end))
                    self._starts.append(length)
                    parts.append(kept)
                    length += len(kept)
            at = last
        self.squeezed = "".join(parts)
        self._places: dict[int, list[int]] = {}

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where `squeezed[start:end]` stands in the original text; `end` is after `start`."""
        first, last = self._place(start), self._place(end - 1) + 1
        quote = self.text[last : last + 1]
        if quote and quote in "'`\"" and self.text.count(quote, first, last) % 2:
            last += 1  # it closes one that was opened inside
        return first, last

    def _place(self, at: int) -> int:
        block = bisect_right(self._starts, at) - 1
        if block not in self._places:
            begin, end = self._blocks[block]
            gone = _GONE
            self._places[block] = [place for place, c in enumerate(self.text[begin:end], begin) if c not in gone]
        return self._places[block][at - self._starts[block]]
