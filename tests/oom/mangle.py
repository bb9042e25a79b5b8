"""What pasting does to a message: wraps, quotes, colours, prefixes, neighbours."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Callable


def hard_wrap(text: str, width: int, newline: str = "\n") -> str:
    """As a terminal copies it: cut after `width` characters, inside words and numbers."""
    lines = [line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width)]
    return newline.join(lines)


def soft_wrap(text: str, width: int) -> str:
    words, lines = text.split(" "), [""]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def prefixed(text: str, prefix: str) -> str:
    return "\n".join(prefix + line for line in text.split("\n"))


COLOURED = re.compile(r"(\d+\.\d+|Error)")

MANGLES: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "wrapped at 80": lambda text: hard_wrap(text, 80),
    "wrapped at 37, CRLF": lambda text: hard_wrap(text, 37, "\r\n"),
    "wrapped at 7": lambda text: hard_wrap(text, 7),
    "wrapped at words": lambda text: soft_wrap(text, 60),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "quoted": lambda text: prefixed(soft_wrap(text, 70), "> "),
    "quoted twice, wrapped hard": lambda text: prefixed(hard_wrap(text, 70), "> > "),
    "quoted as HTML": lambda text: prefixed(html.escape(soft_wrap(text, 70)), "&gt; "),
    "torchrun": lambda text: prefixed(text, "[rank3]: "),
    "torchrun default": lambda text: prefixed(text, "[default0]:"),
    "mpirun": lambda text: prefixed(text, "[1,0]<stderr>:"),
    "srun": lambda text: prefixed(text, "12: "),
    "compose": lambda text: prefixed(text, "server-1  | "),
    "ray": lambda text: prefixed(text, "(RayWorkerWrapper pid=4242, ip=10.0.0.7) "),
    "vllm": lambda text: prefixed(text, "(EngineCore_0 pid=17) ERROR 05-01 12:00:00 [core.py:396] "),
    "logger": lambda text: prefixed(text, "2024-05-01 12:00:00,123 ERROR "),
    "docker": lambda text: prefixed(text, "2024-05-01T12:00:00.123456789Z "),
    "colours": lambda text: COLOURED.sub("\x1b[1;31m\\1\x1b[0m", text),
    "colours written out": lambda text: COLOURED.sub(r"\\u001b[31m\1\\u001b[0m", text),
    "a JSON log": lambda text: (
        '{"level": "error", "message": "' + text.replace("\n", "\\n").replace("\t", "\\t") + '"}'
    ),
    "fenced": lambda text: f"I get this:\n```python-traceback\n{text}\n```\nAny idea? My GPU has 24 GB",
    "bold": lambda text: f"**{text}**",
    "a rich box": lambda text: "\n".join(f"│ {line:<76} │" for line in soft_wrap(text, 74).split("\n")),
    "curly quotes": lambda text: text.replace("'", "’").replace('"', "”"),
    "after a traceback": lambda text: (
        'Traceback (most recent call last):\n  File "/opt/x.py", line 642, in <module>\n    out = model.generate(**x)\n'
        '  File "/opt/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1511, in _call\n'
        "    return self._call_impl(*args, **kwargs)\n" + text + "\n"
    ),
}


PREFIXES = (
    "2024-05-01 12:00:00,123 - ERROR - ",
    "2024-05-01 12:00:00,123 - my.module - ERROR - ",
    "2024-05-01 12:00:00,123 - ERROR - my.module - ",
    "2024-05-01 12:00:00.123 | ERROR    | __main__:main:12 - ",
    "[2024-05-01 12:00:00,123][__main__][ERROR] - ",
    "[2024-05-01 12:00:00,123] [ERROR] [engine.py:123:_forward] ",
    "[2024-05-01 12:00:00,123: ERROR/MainProcess] ",
    "[2024-05-01 12:00:00 +0000] [1234] [ERROR] ",
    "[2024-05-01 12:00:00,123]::[InvokeAI]::ERROR --> ",
    "05/01/2024 12:00:00 - ERROR - __main__ - ",
    "12:00:00,123 root ERROR ",
    "ERROR:my.module:",
    "E0501 12:00:00.123456 12345 engine.cc:123] ",
    "ERROR 05-01 12:00:00 async_llm_engine.py:43] ",
    "(EngineCore_DP0 pid=17) ERROR 05-01 12:00:00 [multiproc_executor.py:123] ",
    "2024-05-01T12:00:00.123456Z ERROR shard-manager: text_generation_launcher: ",
    'time=2024-05-01T12:00:00.123+02:00 level=ERROR source=server.go:123 msg="',
    "2024-05-01T12:00:00.123456789Z stderr F ",
    "May 01 12:00:00 gpu-host python3[1234]: ",
    "<3>May  1 12:00:00 host kernel[1]: ",
    "[pod/llm-0/server] ",
    "my-vllm-server-1  | ",
    "\x1b[36m(RayTrainWorker pid=4242, ip=10.0.0.7)\x1b[0m ",
    "[36m(RayTrainWorker pid=4242)[0m ",
    "[default7]:[rank7]: ",
    "wandb: ",
    "E           ",
    "12.3s 45 ",
    "# ",
    "+ ",
    "    ",
)
LEARNT = ("ollama  | ", "llm-7d9f8b6c54-x2x4z server ", "|ERROR| ", "lambda-box\t")
"""What nothing but the neighbouring lines shows to be a prefix."""


def anything(random_: random.Random, messages: list[str], most: int = 3000) -> str:
    """Text as hostile as it comes: messages cut up, repeated, with runs of what patterns stumble over."""
    pieces = [
        "CUDA out of memory. ",
        "Tried to allocate ",
        "(GPU 0; ",
        "0.00 GiB",
        "Process 1 has 1.00 GiB memory in use. ",
        "NCCL error in: ",
        "NVML_SUCCESS == ",
        "cudaError",
        "Requested:\t",
        "9" * 40,
        "1.",
        "(((((",
        "[" * 9,
        "\x1b[",
        "\\n",
        "> " * 9,
        " " * 50,
        "\n",
        "\r",
        "|" * 20,
        "=" * 30,
        "<b ",
        "&#x27;",
        "\x00",
        "\ud7ff",
        "İ",
        "searchfor",
        "in",
        "at",
        "CUDA error: out of memory",
        "THCudaCheck FAIL ",
        "error code 1: cuda runtime (",
        "[rank0]: ",
        "2024-05-01 ",
        "a" * 99,
    ]
    parts = []
    length = 0
    while length < most:
        kind = random_.random()
        if kind < 0.3:
            message = random_.choice(messages)
            start = random_.randrange(len(message))
            part = message[start : start + random_.randrange(1, 400)]
        elif kind < 0.8:
            part = random_.choice(pieces) * random_.choice((1, 1, 1, 3, 50))
        else:
            part = "".join(chr(random_.randrange(1, 0xD7FF)) for _ in range(random_.randrange(1, 60)))
        parts.append(part)
        length += len(part)
    return "".join(parts)
