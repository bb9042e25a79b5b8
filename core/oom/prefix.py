"""What loggers, launchers, container tools and people put before each line of a text.

`LINE_START` matches all of it at the start of a line. A message that runs over several lines, or was wrapped inside a
number, is whole only without it. What is taken must never be a part of a message, so a logger's name counts only
beside a time or a level, and the brackets that errors themselves begin with are left alone.
"""

from __future__ import annotations

import re
from collections import Counter

_TIME = r"\d{1,2}:\d\d:\d\d(?:[.,:]\d{1,9})?(?: ?[AP]M)?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_STAMP = (
    rf"(?:\d{{4}}[-/.]\d\d[-/.]\d\d[T _,-]{{1,2}}{_TIME}(?:Z| ?[+-]\d\d:?\d\d| UTC)?"
    rf"|\d\d[/.-]\d\d[/.-]\d{{2,4}}[T ,-]{{1,2}}{_TIME}"
    rf"|{_MONTH} {{1,2}}\d{{1,2}} (?:\d{{4}} )?{_TIME}"
    rf"|\d\d[/-]\d\d {_TIME}"
    rf"|{_TIME}(?=[\]\s|,]))"
)
_STAMPED = rf"(?:\[{_STAMP}[^\]\n]{{0,60}}\]|{_STAMP}\]?,?):{{0,2}}"
_LEVEL_WORD = r"(?:ERROR|WARNING|WARN|INFO|DEBUG|TRACE|CRITICAL|NOTICE|SEVERE|EXCEPTION)"
_LEVEL = (
    rf"(?:\[{_LEVEL_WORD}\]:{{0,2}}|{_LEVEL_WORD}(?:(?=[ \t\[])|\]|(?=\|)"
    r"|:{1,2}(?:(?!\w{0,60}Error)[A-Za-z_][\w.]{0,60}:(?!:[A-Za-z]))?))"
)
_BRACKET = (
    r"\[(?!enforce|metal|malloc|TRT|GPU|[A-Za-z]\]|[Rr]ank:\d{1,5}\] FATAL|[^\]\n]{0,80}::)"
    r"[\w./:@#, -]{1,80}\](?:<std(?:err|out)>)?:{0,2}"
)
_SOURCE = r"(?<=[\s\[])[\w./-]{1,80}\.(?:py|cc|cpp|cu|go|rs|h):\d{1,6}(?::[\w<>]{1,40})?(?:\]|:(?= )|(?= - | ))"
_GLOG = rf"[IWEFDC]\d{{4,8}} {_TIME} {{1,8}}\d{{1,8}} {_SOURCE}"
_BAR = r"(?:-{1,2}>?(?=[ \t])|—|\|(?=[ \t]{1,10}[A-Za-z_<(\[]))"
_NAME = (
    r"(?![KMGT]i?B\b)[A-Za-z_<][\w.<>$/-]{0,80}(?::[\w<>.]{1,60}){0,3}(?=[ \t]{1,3}(?:-{1,2}>?|\|)[ \t])"
    r"|(?!ggml|llama|alloc)[a-z]{2,20}(?:[_-][a-z]{2,20}){1,4}(?:::[a-z_]{1,30}){0,4}: "
    r"|std(?:err|out) [FP](?=[ \t])"
    r"|[\w.-]{1,60} [\w./@-]{1,60}\[\d{1,8}\]:|[\w.-]{1,40}\[[\w.-]{1,20}\]:"
    rf"|[a-z_][\w.]{{0,60}}(?= {_LEVEL_WORD} )"
)
_LOGGED = (
    rf"(?>(?:{_GLOG}|{_STAMPED}|{_LEVEL})"
    rf"(?>[ \t]{{1,20}}|{_STAMPED}|{_LEVEL}|{_BRACKET}|{_SOURCE}|{_BAR}|{_NAME}){{0,14}})"
)

LABEL = (
    r"\[(?:[Rr]ank|default|worker|trainer)[ :]?\d{1,5}\]:?(?! FATAL)"
    r"|\[\d{1,5}(?:,\d{1,5})?\](?:<std(?:err|out)>)?: ?"
    r"|(?:[Rr]ank|worker|node)[ -]?\d{1,5}: "
    r"|\d{1,5}: "
    r"|\((?:[A-Za-z][\w.+-]{0,60},? (?:\w{1,12})=|(?:pid|rank|ip)=)[^()\n]{1,80}\)"
    r"|[A-Za-z][\w.-]{0,60}[-_]\d{1,3} {0,20}\| "
)
"""Which rank, task or container a line is from. Lines of several can be mixed, so the label tells them apart."""

_OTHER = (
    r"[ \t]{1,200}(?:\|(?= {1,40}[A-Za-z(\[:]))?"
    r"|\x1b?\[[0-9;]{1,20}m"
    r"|>|&gt;|[│┃║]"
    r"|[#+*!-]{1,3}(?=[ \t])"
    r"|E {3,20}"
    r"|(?:wandb|std(?:err|out)|err|out): "
    r"|(?:time|ts|level|lvl|source|caller|logger)=\S{1,80}|msg=\"?"
    r"|<\d{1,3}>|\d{1,6}\t"
    r"|\{\"[^\n{}]{0,200}?\"?(?:message|msg|log|text)\": ?\""
    r"|\d{1,6}(?:\.\d)?s[ \t]{1,8}\d{1,6}[ \t]"
)

LINE_START = rf"(?>{LABEL}|{_LOGGED}|{_BRACKET}|{_OTHER}){{1,10}}"

FIRST = re.compile(LINE_START)

_ENDS = re.compile(
    r".{1,60}[|:>\])][ \t]{1,20}|[A-Za-z].{0,60}\t"
    r"|[a-z][a-z0-9-]{1,60}-[a-z0-9]{5,10}-[a-z0-9]{5} (?:[a-z][\w-]{0,40} )?"
)
"""The last one is a pod of Kubernetes and its container."""
_CONTENT = re.compile(
    r"ggml_|llama_|mem|alloc|error[:s ]|request|free|total|torch|cuda|hip|mps|[kmg]ib|byte|workspace|token|metal|pool"
    r"|usage|reserv|limit|fail|nccl|in use|process|device|summary|from|retries|segment",
    re.IGNORECASE,
)
"""What a message is made of: lines that share such words do not share a prefix."""
LEARNT_FROM = 8_000


def learnt_prefixes(text: str) -> list[str]:
    """What neighbouring lines begin with alike, beyond the known: `ollama  | `, `trainer: `. At most four literals."""
    found: Counter[str] = Counter()
    last = ""
    for line in text[-LEARNT_FROM:].splitlines():
        known = FIRST.match(line)
        rest = line[known.end() if known else 0 :][:90]
        if len(rest) > 2 and rest[:3] == last[:3]:
            alike = _ENDS.match(rest, 0, _alike(last, rest))
            if alike and not _CONTENT.search(alike[0]):
                found[alike[0]] += 1
        last = rest or last
    return [name for name, _ in found.most_common(4)]


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one.startswith(other[:middle]):
            least = middle
        else:
            most = middle - 1
    return least
