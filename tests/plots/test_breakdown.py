"""The figures of breakdowns and differences carry every byte."""

from __future__ import annotations

import pytest

from core.explain.blocks import named_blocks
from core.explain.breakdown import Breakdown, Request
from core.explain.categories import BY_KEY
from core.explain.difference import difference
from core.explain.evidence import read_evidence
from core.explain.history import pool_history
from core.plots.breakdown import bars, waterfall
from core.plots.inside import area, icicle
from core.plots.palette import CATEGORIES
from core.runs.gallery import gallery_run

GIB = 2**30


def of(run_id: str, request: Request | None = None, **terms: int) -> Breakdown:
    return Breakdown(run_id, 0, "decode", 1.0, "device used", sum(terms.values()), terms, {}, {}, request)


def test_every_category_has_a_colour() -> None:
    assert set(CATEGORIES) == set(BY_KEY)


def test_bars_stack_to_the_total_and_show_the_request_that_failed() -> None:
    a = of("a-1", Request(GIB, "logits", "forward"), weights=13 * GIB, kv_cache=5 * GIB)
    b = of("b-1", weights=13 * GIB)
    figure = bars([a, b])
    stacked = [trace for trace in figure.data if trace.name != "the request that failed"]
    assert sum(trace.x[0] for trace in stacked) == pytest.approx(18)
    assert sum(trace.x[1] for trace in stacked) == pytest.approx(13)
    (failed,) = (trace for trace in figure.data if trace.name == "the request that failed")
    assert list(failed.x) == [1.0]


def test_a_waterfall_goes_from_b_to_a() -> None:
    found = difference(of("a-1", weights=13 * GIB, kv_cache=5 * GIB), of("b-1", weights=12 * GIB, nccl=GIB))
    (trace,) = waterfall(found).data
    assert trace.y[0] == "b-1"
    assert trace.y[-1] == "a-1"
    assert sum(trace.x[:-1]) == pytest.approx(trace.x[-1]) == pytest.approx(18)


def test_names_with_markup_are_text() -> None:
    figure = bars([of("<b>x</b>-1", weights=GIB)])
    assert "&lt;b&gt;" in str(figure.data[0].y[0])


def test_the_pool_over_time_and_the_tensors_of_an_instant_carry_every_byte() -> None:
    folder = gallery_run("fragmentation-1")
    assert folder
    evidence = read_evidence(folder)
    history = pool_history(evidence)
    assert history
    position = evidence.position(int(history.t_ns[-200]))
    blocks = named_blocks(evidence, position)
    living = sum(block.size for block in blocks)
    tensors = {key: layer for key, layer in history.layers.items() if key != "cached_segments"}
    assert sum(int(layer[-200]) for layer in tensors.values()) == living
    peak = max(sum(int(layer[i]) for layer in tensors.values()) for i in range(len(history.t_ns)))
    assert peak == pytest.approx(evidence.trace.peaks["allocated"].bytes, rel=2e-3), "but for rounding"
    (trace,) = icicle(blocks).data
    assert trace.values[0] == living
    assert any("× 32" in label for label in trace.labels), "the 32 layers' own are one"
    figure = area(evidence.trace, history, "step")
    assert len(figure.data) == len(history.layers)
    assert len(figure.to_json()) < 2 * 2**20
