"""Bad input: generated texts, floods, binaries. No pattern may run away, and nothing raises.

`VRAMSCOPE_FUZZ=100000 python -m pytest tests/oom/test_hostile.py` tries as many texts (`make fuzz`).
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from core.oom import diagnose
from tests.oom.mangle import anything

FORMATS = json.loads((Path(__file__).parent / "data" / "oom_formats.json").read_text(encoding="utf-8"))
MESSAGES = [row["message"] for row in FORMATS]

TEXTS = int(os.environ.get("VRAMSCOPE_FUZZ", "300"))
LIMIT_S = 0.050
"""CPU time for 100 kB, the time of this process alone: other work on the machine does not count."""


def seconds(text: str) -> float:
    """The least of three: a busy machine slows one of them, a slow pattern all."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        diagnose(text)
        taken.append(time.process_time() - start)
        if taken[-1] < LIMIT_S / 4:
            break
    return min(taken)


def test_generated_texts_take_their_time_and_no_more() -> None:
    diagnose(MESSAGES[0])  # tables that are made once
    worst, where = 0.0, -1
    for seed in range(TEXTS):
        random_ = random.Random(seed)
        text = anything(random_, MESSAGES, random_.choice((100, 500, 2000, 4000)))
        taken = seconds(text) / max(1.0, len(text) / 100_000)
        worst, where = max((worst, where), (taken, seed))
    print(f"{TEXTS} texts, slowest {worst * 1000:.1f} ms per 100 kB (seed {where})")
    assert worst < LIMIT_S * slack(), f"seed {where}"


def slack() -> float:
    """This machine against the one that the limit was set on: a loop that took 10 ms there."""
    start = time.process_time()
    sum(n * n for n in range(100_000))
    return max(1.0, (time.process_time() - start) / 0.010)


FLOODS = (
    *(
        "CUDA error: out of memory ",
        "Tried to allocate ",
        "out of memory",
        "NCCL error in: ",
        "(GPU 0; ",
        "NVML_SUCCESS == ",
    ),
    *(
        "Failed to CUDA calloc 1 bytes ",
        "nvml_success == x internal assert failed at ",
        "-",
        "|",
        "1",
        "\n> ",
        "\x1b[",
        "x\n",
    ),
    *(
        "thcudacheckfail ",
        "Process 1 has 1.00 GiB memory in use. ",
        "torch.cuda.",
        "error:",
        "&",
        "<b ",
        "\\n",
        "model = ",
    ),
    *("\n", "\r\n", "\n\n ", "\n>", "\t\n"),
    *(
        "PyTorch CUDA memory summary, device ID 0 |Allocated memory| 1 MiB|",
        "C:\\",
        "batch_size=",
        "[rank0]: ",
        MESSAGES[12],
    ),
)


@pytest.mark.parametrize("unit", FLOODS, ids=lambda unit: unit[:20])
def test_floods(unit: str) -> None:
    text = (unit * (100_000 // len(unit) + 1))[:100_000]
    assert seconds(text) < 2 * LIMIT_S * slack()


def test_five_megabytes_of_log_with_one_error_in_it() -> None:
    line = "2024-05-01 12:00:00,123 INFO step 17 loss 0.123 memory allocated 12.3 GiB of 24 GiB\n"
    text = line * (5_000_000 // len(line)) + MESSAGES[12] + "\n" + line * 100
    start = time.process_time()
    (error,) = diagnose(text).errors
    assert time.process_time() - start < 50 * LIMIT_S * slack()
    assert text[slice(*error.span)] == MESSAGES[12]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-16"])
def test_binary(encoding: str) -> None:
    data = random.Random(0).randbytes(300_000)
    assert diagnose(data.decode(encoding, errors="replace")).errors == []
