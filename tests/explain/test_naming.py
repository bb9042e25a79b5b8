"""Each rule that names a block: what it takes, and what it leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.explain.categories import BY_KEY
from core.explain.naming import RULES, UNKNOWN, Block, name_block
from core.runfolder.modules import ROOT

MIB = 2**20
JOB = Block(size=3 * MIB, phase="decode", module="model.layers.3.mlp", vocabulary=32_000)

ROWS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("weights", {"tensor": "parameter", "phase": "wrap"}, {"tensor": None}),
    ("buffers", {"tensor": "buffer"}, {"tensor": None}),
    ("library_workspaces", {"size": 32 * MIB, "kept": True}, {"kept": False}),
    ("autocast_copies", {"autocast": True, "halved": True}, {"autocast": False}),
    ("ddp_buckets", {"phase": "wrap", "module": None}, {"phase": "engine"}),
    ("inputs", {"phase": "inputs", "module": None}, {"phase": "load"}),
    ("load", {"phase": "engine", "module": None}, {"phase": "decode"}),
    (
        "kv_cache",
        {"origin": "update (cache_utils.py:90) < forward (modeling_x.py:1)"},
        {"origin": "forward (modeling_x.py:1)"},
    ),
    ("kv_cache", {"module": "model.layers.3.self_attn", "outlives": True}, {"outlives": False}),
    ("logits", {"module": "lm_head"}, {"module": "model.norm"}),
    ("logits", {"module": ROOT}, {"module": "model"}),
    ("logits", {"module": None, "size": 150 * 32_000 * 4}, {"size": 150 * 32_000 * 4 + 8}),
    ("inputs", {"module": None}, {"marks": False}),
    ("activations", {}, {"module": None, "marks": False}),
    (
        "activations",
        {"module": None, "marks": False, "origin": "forward (modeling_x.py:1)"},
        {"outlives": True},
    ),
)


def test_every_rule_has_a_row() -> None:
    assert [row[0] for row in ROWS] == [rule.category for rule in RULES]
    assert {rule.category for rule in (*RULES, UNKNOWN)} <= set(BY_KEY)


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda number: f"{number}-{ROWS[number][0]}")
def test_a_rule_takes_its_block_and_leaves_the_other(number: int) -> None:
    category, takes, leaves = ROWS[number]
    block = replace(JOB, **takes)
    assert name_block(block) is RULES[number]
    assert name_block(block).category == category
    assert name_block(replace(block, **leaves)) is not RULES[number]


@pytest.mark.parametrize(
    ("module", "attention"),
    [
        ("model.layers.0.self_attn", True),
        ("transformer.h.11.attn", True),
        ("gpt_neox.layers.2.attention", True),
        ("model.decoder.layers.4.self_attn.k_proj", True),
        ("transformer.h.3.self_attention", True),
        ("model.layers.0.post_attention_layernorm", False),
        ("model.layers.0.mlp", False),
    ],
)
def test_attention_modules_of_many_families_are_known(module: str, attention: bool) -> None:
    block = replace(JOB, module=module, outlives=True)
    assert (name_block(block).category == "kv_cache") is attention


def test_with_gradients_what_attention_keeps_is_no_cache() -> None:
    block = replace(JOB, module="model.layers.0.self_attn", outlives=True, grad=True)
    assert name_block(block).category == "activations"


def test_nothing_is_guessed_without_stacks_and_marks() -> None:
    assert name_block(Block(size=7 * MIB, phase="decode", marks=False, stacks=False)) is UNKNOWN
