"""Breakdowns and differences of recorded runs: they sum, always, and say what the recording shows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from core.explain.blocks import cut, named_blocks
from core.explain.breakdown import Breakdown, breakdown
from core.explain.difference import difference
from core.explain.document import explained
from core.explain.evidence import NEVER, Evidence, pair_blocks, read_evidence
from core.explain.instant import instant_of, position_of
from core.runfolder.tables import EVENTS
from core.runs.gallery import Recording, gallery_run, recordings
from core.runs.home import open_home
from tests.make_run import OUTSIDE, ROUNDING, STEP, WEIGHTS, make_run, reserved

MIB = 2**20
RUN_IDS = [run_id for recording in recordings() for run_id in recording.run_ids]


@cache
def evidence_of(run_id: str) -> Evidence:
    folder = gallery_run(run_id)
    assert folder
    return read_evidence(folder)


def whole(found: Breakdown) -> bool:
    return sum(found.terms.values()) == found.total and all(found.terms.values())


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_a_breakdown_sums_to_what_the_card_shows(run_id: str) -> None:
    evidence = evidence_of(run_id)
    found = breakdown(evidence)
    assert whole(found)
    assert found.measure == "device used"
    peak = evidence.trace.peaks["device_used"].bytes
    assert peak
    if evidence.trace.state != "oom":
        assert found.total == peak, "to the byte, at the sample itself"
    else:
        assert abs(found.total - peak) < 16 * MIB


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_it_sums_at_any_instant(run_id: str) -> None:
    evidence = evidence_of(run_id)
    device = evidence.trace.series["device_used"]
    for index in np.linspace(0, len(device.t_ns) - 1, 25).astype(int):
        found = breakdown(evidence, int(device.t_ns[index]))
        assert whole(found)
        assert found.total == device.values[index]


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_nearly_everything_has_a_name(run_id: str) -> None:
    evidence = evidence_of(run_id)
    found = breakdown(evidence)
    held = evidence.trace.peaks["reserved"].bytes or 0
    assert found.terms.get("unattributed", 0) <= 0.01 * held
    # a block is up to 511 bytes larger than what was asked for, and a rest of up to 1 MiB is not split off a large one
    blocks = named_blocks(evidence, position_of(evidence, found.t_ns))
    assert 0 <= found.terms.get("rounding", 0) <= sum(511 + (MIB if block.size > MIB else 0) for block in blocks)
    assert found.terms["weights"] == pytest.approx(evidence.trace.result["model"]["parameter_bytes"], rel=0.01)


def test_the_allocation_that_failed_is_named() -> None:
    failed = breakdown(evidence_of("ddppuzzle-1")).request
    assert failed
    assert (failed.size, failed.category) == (642 * MIB, "logits")
    assert "modeling_llama.py" in failed.where


def test_the_kv_cache_is_as_large_as_it_must_be() -> None:
    """2 tensors x 32 layers x 150 rows x tokens x 4,096 x 2 bytes; one layer's are there twice while it copies them."""
    found = breakdown(evidence_of("fragmentation-1"))
    per_token = 2 * 32 * 150 * 4096 * 2
    assert 69 * per_token < found.terms["kv_cache"] <= 72 * per_token * 33 / 32


@pytest.mark.parametrize("recording", recordings(), ids=lambda recording: recording.experiment_id)
def test_a_difference_sums_to_the_byte(recording: Recording) -> None:
    found = [breakdown(evidence_of(run_id)) for run_id in recording.run_ids]
    for a in found:
        for b in found:
            forth, back = difference(a, b), difference(b, a)
            assert sum(forth.terms.values()) == forth.total == a.total - b.total
            assert back.terms == {key: -size for key, size in forth.terms.items()}
            sizes = [abs(size) for size in forth.terms.values()]
            assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("a", "b", "term", "finding"),
    [
        ("ddppuzzle-1", "ddppuzzle-2", "deepspeed_workspace", "deepspeed_workspace"),
        ("fragmentation-1", "fragmentation-2", "cached_segments", "fragmentation"),
        ("autocast-1", "autocast-2", "autocast_copies", "autocast_copies"),
        ("autocast-2", "autocast-3", "autocast_copies", "autocast_copies"),
        ("promptlogits-1", "promptlogits-2", "logits", "all_logits"),
    ],
)
def test_the_top_term_and_finding_of_each_recorded_pair(a: str, b: str, term: str, finding: str) -> None:
    evidence = [evidence_of(a), evidence_of(b)]
    said = explained(evidence, [breakdown(one) for one in evidence])
    assert said["difference"]["terms"][0]["name"] == term
    assert said["findings"][0]["id"] == finding


def test_a_run_without_marks_says_what_it_cannot_tell(tmp_path: Path) -> None:
    folder = make_run(open_home(tmp_path), "aaaaaa-1")
    found = breakdown(read_evidence(folder))
    top = WEIGHTS + 4 * STEP + ROUNDING
    assert found.total == reserved(top) + OUTSIDE
    assert whole(found)
    assert found.terms["unattributed"]
    assert any("marks were not recorded" in note for note in found.notes)


def test_a_run_without_events_still_sums(tmp_path: Path) -> None:
    folder = make_run(open_home(tmp_path), "aaaaaa-1")
    folder.events.unlink()
    found = breakdown(read_evidence(folder))
    assert whole(found)
    assert found.terms["unattributed"]
    assert any("history was not recorded" in note for note in found.notes)


def test_a_run_on_the_cpu_is_one_figure(tmp_path: Path) -> None:
    found = breakdown(read_evidence(make_run(open_home(tmp_path), "aaaaaa-1", on_card=False)))
    assert (found.measure, list(found.terms)) == ("host RSS", ["process_memory"])
    assert found.notes


def test_an_instant_is_the_failure_or_the_peak() -> None:
    oom, fits = evidence_of("ddppuzzle-1"), evidence_of("fragmentation-1")
    assert instant_of(oom) == int(oom.t_ns[oom.rows("oom")[-1]])
    t_ns, peak = instant_of(fits), breakdown(fits)
    assert peak.total == fits.trace.peaks["device_used"].bytes
    stretch = [p for p in fits.trace.phases if p.name == "decode" and p.index in (35, 36)]
    assert stretch[0].t_start <= t_ns <= (stretch[-1].t_end or 0), "the pool is at its peak for two steps"


def table(*rows: tuple[str, int, int]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in EVENTS.names}
    columns |= {"t_ns": list(range(len(rows))), "action": [r[0] for r in rows]}
    columns |= {"addr": [r[1] for r in rows], "size": [r[2] for r in rows]}
    return pa.Table.from_pydict(columns, EVENTS)


def test_blocks_are_paired_by_address_in_order() -> None:
    blocks = pair_blocks(
        table(("alloc", 8, 1), ("alloc", 16, 2), ("free", 8, 1), ("alloc", 8, 3), ("free", 16, 2), ("free", 99, 1))
    )
    assert blocks.born.tolist() == [0, 1, 3]
    assert blocks.died.tolist() == [2, 4, NEVER]
    assert [blocks.size[blocks.living(n)].sum() for n in range(7)] == [0, 1, 3, 2, 5, 3, 3]


def test_segments_that_grow_are_cut_in_pieces() -> None:
    spans = {0: 10, 20: 10}
    cut(spans, 5, 2)
    cut(spans, 20, 10)
    assert spans == {0: 5, 7: 3}
