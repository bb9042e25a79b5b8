"""The experiment files that come with the project say what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.spec.experiment import load_experiment
from core.spec.model_source import resolve

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))
RUNS = {"autocast": 3, "batch-sweep": 4, "ddp-puzzle": 5, "fragmentation": 2, "prompt-logits": 4}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_can_be_read(path: Path) -> None:
    experiment = load_experiment(path)
    assert len(experiment.matrix.specs) == RUNS[path.stem]
    assert experiment.title
    assert experiment.note
    for spec in experiment.matrix.specs:
        assert resolve(spec).config["model_type"]
        assert (spec.record_stacks, spec.record_modules) == (True, True)


def test_the_puzzle_is_that_of_the_question() -> None:
    (path,) = (path for path in EXAMPLES if path.stem == "ddp-puzzle")
    specs = load_experiment(path).matrix.specs
    assert [(s.wrap, s.empty_cache_before_generate, s.prefill_cache_mib) for s in specs] == [
        ("none", False, 0),
        ("ddp", False, 0),
        ("ddp", True, 0),
        ("none", False, 10_000),
        ("none", True, 0),
    ]
    assert {(s.batch_size, s.prompt_tokens, s.new_tokens, s.capacity_mib, s.placement) for s in specs} == {
        (150, 35, 37, 48_676, "host")
    }
    overridden = load_experiment(path, {"device": ["sim:rtx-a6000"]})
    assert {s.device for s in overridden.matrix.specs} == {"sim:rtx-a6000"}, "--device is stronger than the file"
