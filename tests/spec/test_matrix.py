"""Matrices: order, labels, limits."""

from __future__ import annotations

import pytest

from core.spec.errors import InvalidSpec
from core.spec.matrix import MOST_RUNS, expand


def test_the_first_field_varies_slowest() -> None:
    matrix = expand({"model": "gpt2", "wrap": ["none", "ddp"], "batch_size": [1, 4, 16]})
    assert [(s.wrap, s.batch_size) for s in matrix.specs] == [
        ("none", 1), ("none", 4), ("none", 16), ("ddp", 1), ("ddp", 4), ("ddp", 16),
    ]  # fmt: skip
    assert set(matrix.varying) == {"wrap", "batch_size"}
    assert matrix.labels[0] == "wrap=none batch_size=1"


def test_one_run_has_nothing_that_varies() -> None:
    matrix = expand({"model": "gpt2", "batch_size": ["8"]})
    assert (len(matrix.specs), matrix.varying, matrix.labels) == (1, (), ("",))


def test_defaults_that_follow_a_varying_field_are_named_too() -> None:
    matrix = expand({"model": "gpt2", "engine": ["transformers", "deepspeed"]})
    assert set(matrix.varying) == {"engine", "placement"}


def test_too_many_runs_are_refused_with_the_count_before_they_are_made() -> None:
    with pytest.raises(InvalidSpec, match="that makes 1,000,000,000,000 runs, more than 500"):
        expand({"model": "gpt2", "batch_size": list(range(1, 10**6 + 1)), "new_tokens": list(range(1, 10**6 + 1))})
    with pytest.raises(InvalidSpec, match="501 runs"):
        expand({"model": "gpt2", "batch_size": list(range(1, 502))})
    assert len(expand({"model": "gpt2", "batch_size": list(range(1, MOST_RUNS + 1))}).specs) == MOST_RUNS


def test_a_value_given_twice_is_refused_whatever_its_spelling() -> None:
    with pytest.raises(InvalidSpec, match="dtype has a value twice in bf16, bfloat16"):
        expand({"model": "gpt2", "dtype": ["bf16", "bfloat16"]})


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="batch_size has an empty list"):
        expand({"model": "gpt2", "batch_size": []})


def test_the_combination_that_will_not_do_is_named() -> None:
    with pytest.raises(InvalidSpec, match=r"^with do_sample=false batch_size=1: temperature, top_k"):
        expand({"model": "gpt2", "temperature": 0.7, "do_sample": ["true", "false"], "batch_size": [1, 2]})
    with pytest.raises(InvalidSpec, match=r"^batch_size=0 will not do"):
        expand({"model": "gpt2", "batch_size": 0})
