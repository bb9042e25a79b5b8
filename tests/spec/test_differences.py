"""In which fields specs differ."""

from __future__ import annotations

from core.spec.differences import differing_fields
from core.spec.run_spec import parse_spec


def test_only_fields_that_are_not_the_same_in_all() -> None:
    plain = parse_spec({"model": "gpt2", "batch_size": 4})
    specs = [spec.to_dict() for spec in (plain, plain.replace(wrap="ddp"), plain.replace(wrap="ddp", top_k=None))]
    assert differing_fields(specs) == {"wrap": ["none", "ddp", "ddp"]}
    assert differing_fields(specs[1:]) == {}
    assert differing_fields([]) == {}


def test_a_field_that_an_older_spec_lacks_is_none_there() -> None:
    assert differing_fields([{"a": 1}, {"a": 1, "b": 2}]) == {"b": [None, 2]}
