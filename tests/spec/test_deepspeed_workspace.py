"""The workspace formula against what DeepSpeed 0.19.8 printed on an H200 (bench/reference/h200/ddp_puzzle/log.txt)."""

from __future__ import annotations

import pytest

from core.spec.deepspeed_workspace import GIB, sizing

PRINTED = 5e-7 * GIB
"""DeepSpeed prints GiB with six decimals."""


@pytest.mark.parametrize(
    ("free", "requested", "tokens", "layers"),
    [
        (137.311646, 25.781250, 1024, 2),
        (33.415588, 32.844543, 350, 32),
        (31.327698, 30.780029, 328, 32),
        (33.132385, 32.563019, 347, 32),
        (23.649963, 23.085022, 246, 32),
        (33.677307, 33.126068, 353, 32),
    ],
)
def test_the_formula_gives_what_deepspeed_printed(free: float, requested: float, tokens: int, layers: int) -> None:
    facts = sizing(batch_size=150, hidden_size=4096, heads=32, layers=layers, dtype="bf16", max_out_tokens=1024)
    got = facts.at(round(free * GIB))
    assert got.tokens == tokens
    assert abs(got.size - requested * GIB) <= PRINTED * 1.01


def test_the_cure_takes_no_more_than_its_tokens() -> None:
    facts = sizing(batch_size=150, hidden_size=4096, heads=32, layers=32, dtype="bf16", max_out_tokens=72)
    got = facts.at(round(33.4 * GIB))
    assert got.tokens == 72
    assert got.size < 7 * GIB


def test_float16_is_sized_as_float32_and_narrow_heads_are_padded() -> None:
    def size(dtype: str, hidden_size: int) -> int:
        facts = sizing(batch_size=1, hidden_size=hidden_size, heads=32, layers=32, dtype=dtype, max_out_tokens=64)
        return facts.at(40 * GIB).size

    assert size("fp16", 2560) == 2 * size("bf16", 2560)
    assert size("bf16", 2560) == size("bf16", 4096), "heads of 80 are kept as heads of 128"
