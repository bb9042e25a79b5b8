"""Experiment files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from core.spec.errors import InvalidSpec
from core.spec.experiment import Experiment, load_experiment

FORUM = """\
title: Why DDP "saves" memory
note: the forum's question
base: {model: llama-7b, batch_size: 150, prompt_tokens: 35, new_tokens: 37, dtype: bfloat16}
runs:
  - {name: plain}
  - {name: ddp, wrap: ddp}
  - wrap: ddp
    empty_cache_before_generate: yes
"""


def load(tmp_path: Path, text: str, name: str = "x.yaml", **overrides: Any) -> Experiment:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load_experiment(path, overrides)


def test_runs_keep_the_files_order_and_their_names(tmp_path: Path) -> None:
    experiment = load(tmp_path, FORUM)
    assert (experiment.title, experiment.note) == ('Why DDP "saves" memory', "the forum's question")
    specs = experiment.matrix.specs
    assert [s.wrap for s in specs] == ["none", "ddp", "ddp"]
    assert [s.empty_cache_before_generate for s in specs] == [False, False, True]
    assert {(s.model, s.batch_size, s.dtype) for s in specs} == {("llama-7b", 150, "bf16")}
    assert experiment.matrix.labels == ("plain", "ddp", "wrap=ddp empty_cache_before_generate=true")


def test_flags_override_every_run_and_a_list_multiplies(tmp_path: Path) -> None:
    one = load(tmp_path, FORUM, model=["tiny-llama"], batch_size=2)
    assert {(s.model, s.batch_size) for s in one.matrix.specs} == {("tiny-llama", 2)}
    assert one.matrix.labels[:2] == ("plain", "ddp")
    many = load(tmp_path, FORUM, batch_size=["1", "4"])
    assert [(s.wrap, s.batch_size) for s in many.matrix.specs][:4] == [("none", 1), ("none", 4), ("ddp", 1), ("ddp", 4)]
    assert many.matrix.labels[:3] == ("plain batch_size=1", "plain batch_size=4", "ddp batch_size=1")
    with pytest.raises(InvalidSpec, match="twice"):
        load(tmp_path, FORUM, dtype=["bf16", "bfloat16"])
    with pytest.raises(InvalidSpec, match="900 runs"):
        load(tmp_path, FORUM, batch_size=list(range(1, 301)))


def test_a_matrix_in_the_file_expands_and_is_overridden(tmp_path: Path) -> None:
    text = "base: {model: gpt2}\nmatrix: {wrap: [none, ddp], batch_size: [1, 4]}\n"
    experiment = load(tmp_path, text, "sweep.yaml")
    assert experiment.title == "sweep"
    assert [(s.wrap, s.batch_size) for s in experiment.matrix.specs] == [
        ("none", 1),
        ("none", 4),
        ("ddp", 1),
        ("ddp", 4),
    ]
    assert len(load(tmp_path, text, batch_size=8).matrix.specs) == 2


def test_json_with_tabs_is_read(tmp_path: Path) -> None:
    document = {"title": "t", "base": {"model": "gpt2"}, "runs": [{"autocast": None}, {"autocast": "bf16"}]}
    experiment = load(tmp_path, json.dumps(document, indent="\t"), "x.json")
    assert [s.autocast for s in experiment.matrix.specs] == ["none", "bf16"]


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


REFUSED = {
    "alias bomb": ("x.yaml", bomb(9), r"x.yaml: line 2: aliases"),
    "merge key": ("x.yaml", "b: &b {model: gpt2}\nbase:\n  <<: *b\n", r"line 3: aliases"),
    "code": ("x.yaml", "base: !!python/object/apply:os.system [true]\n", r"line 1: could not determine a constructor"),
    "deep flow": ("x.yaml", "base: " + "[" * 100_000, r"nested too deep|line 1"),
    "deep block": ("x.yaml", "base: " + "[" * 30 + "]" * 30, r"line 1: it is nested too deep"),
    "deep json": ("x.json", "[" * 100_000, r"nested too deep"),
    "broken": ("x.yaml", "base: {model: gpt2\nruns: [\n", r"x.yaml: line \d: .*; it has to be YAML or JSON"),
    "broken json": ("x.json", '{"base": {\n "model": gpt2}}', r"x.json: line 2: expecting value"),
    "twice": ("x.yaml", "base: {model: gpt2}\nbase: {model: gpt2}\n", r"line 2: 'base' is given twice"),
    "twice json": ("x.json", '{"base": {}, "base": {}}', r"'base' is given twice"),
    "large": ("x.yaml", "#" * (2**20 + 1), r"larger than 1 MiB"),
    "many": ("x.yaml", "base: [" + "1," * 60_000 + "1]", r"more than 50,000 values"),
    "control": ("x.yaml", "base: \x01", r"x.yaml: special characters are not allowed"),
    "month 13": ("x.yaml", "base: 2024-13-01", r"x.yaml: it has a value that cannot be read"),
    "digits": ("x.json", "1" * 5000, r"cannot be read"),
    "list": ("x.yaml", "- a\n- b\n", r"an experiment has to be fields with values, not list"),
    "empty": ("x.yaml", "", r"not NoneType"),
    "unknown part": ("x.yaml", "bases: {}\n", r"'bases' is not part of an experiment; it has title"),
    "both": ("x.yaml", "base: {model: gpt2}\nruns: [{}]\nmatrix: {wrap: [none]}\n", r"both runs and matrix"),
    "no runs": ("x.yaml", "base: {model: gpt2}\nruns: []\n", r"a list with an entry for each run"),
    "run": ("x.yaml", "base: {model: gpt2}\nruns: [{}, {name: b, bach: 1}]\n", r"x.yaml: run 2 \(b\): unknown field"),
    "list in runs": ("x.yaml", "base: {model: gpt2, batch_size: [1, 2]}\nruns: [{}]\n", r"run 1: .*list belongs into"),
    "base": ("x.yaml", "base: 5\n", r"base has to be fields"),
    "no model": ("x.yaml", "base: {batch_size: 1}\n", r"model is missing"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_refused_at_once_and_in_one_line(tmp_path: Path, case: tuple[str, str, str]) -> None:
    name, text, message = case
    start = time.monotonic()
    with pytest.raises(InvalidSpec, match=message) as caught:
        load(tmp_path, text, name)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 20  # a bomb would take all memory, not seconds


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="No such file"):
        load_experiment(tmp_path / "none.yaml")
    with pytest.raises(InvalidSpec, match="Is a directory"):
        load_experiment(tmp_path)
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InvalidSpec, match="is not text"):
        load_experiment(tmp_path / "x.yaml")
