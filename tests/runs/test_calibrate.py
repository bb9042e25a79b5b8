"""Measuring a card: a scripted probe and a scripted driver here, the real ones where there is a card."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.devices.device import Condition, Device, Reading
from core.devices.registry import list_devices
from core.runs.calibrate import calibrate
from core.simulate.gpu import Gpu
from core.spec.cards import MIB, all_cards, find_card
from core.spec.errors import JobFailed, NoSuchDevice

CARD = Device("cuda:GPU-1", "cuda", "NVIDIA Test 9000", 8 * 2**30, 0)
STEPS = ("context", "kernels", "cublas", "cublaslt", "cudnn", "more_kernels", "nccl")
USED = (0, 500, 500, 900, 500, 600, 700, 702, 710, 710, 1210)
"""MiB in use as the driver tells it: before, in the context, around a second process, and after each step."""

PROBE = """
import json, sys
for name in {steps!r}:
    known = {{"capability": "8.9", "sm_count": 10, "total_bytes": 8 << 30}} if name == "context" else {{}}
    workspace = {{"workspace_bytes": 3 << 20}} if name.startswith("cublas") else {{}}
    pool = (40 << 20) if name in ("cublas", "cublaslt") else 0
    print("NCCL says hello")
    print(json.dumps({{"step": name, "reserved_bytes": pool, **known, **workspace}}), flush=True)
    sys.stdin.readline()
sys.exit({code})
"""


class Scripted:
    """A driver that gives the next figure each time it is asked."""

    device = CARD

    def __init__(self, used: Sequence[int], others: Sequence[int] = ()) -> None:
        self._used: Iterator[int] = iter(used)
        self._others: dict[int, int | None] = dict.fromkeys(others, 1)

    def read(self) -> Reading:
        return Reading(next(self._used) * MIB, self._others)

    def condition(self) -> Condition:
        return Condition()

    def describe(self) -> dict[str, object]:
        return {}


def probe(steps: Sequence[str] = STEPS, code: int = 0) -> tuple[str, ...]:
    return (sys.executable, "-c", PROBE.format(steps=tuple(steps), code=code))


def test_each_figure_is_what_the_card_grew_by_outside_the_pool(tmp_path: Path) -> None:
    told: list[str] = []
    path = calibrate(
        CARD, tmp_path, tell=lambda step: told.append(step.name), meter=Scripted(USED), command=probe()
    )  # fmt: skip
    found = json.loads(path.read_text())
    assert told == [STEPS[0], "context_beside_others", *STEPS[1:]]
    assert (found["id"], found["context_mib"], found["memory_mib"]) == ("test-9000", 500, 8192)
    assert found["libraries_mib"] == {
        "kernels": 100 + 0,
        "cublas": 60 + 2,  # 40 of the 100 are a segment of the pool
        "cudnn": 8 + 40,  # the pool gave that segment back
        "nccl": 500,
        "context_beside_others": 400,
    }


def test_the_card_can_be_simulated_at_once_and_again_after_another_measurement(tmp_path: Path) -> None:
    calibrate(CARD, tmp_path, meter=Scripted(USED), command=probe())
    card = find_card("sim:test-9000", tmp_path)
    assert (card.context_known, card.libraries.cublas, card.capability) == ("measured", 62 * MIB, "8.9")
    assert Gpu.of(card).cublas_workspace == Gpu.of(card).cublaslt_workspace == 3 * MIB
    calibrate(CARD, tmp_path, meter=Scripted([n + 20 if n else 0 for n in USED]), command=probe())
    assert find_card("sim:test-9000", tmp_path).libraries.context == 520 * MIB
    assert len(all_cards(tmp_path)) == len(all_cards()) + 1


@pytest.mark.parametrize(
    ("others", "steps", "code", "error", "said"),
    [
        ((77,), STEPS, 0, NoSuchDevice, "in use .processes 77."),
        ((), STEPS[:3], 1, JobFailed, "ended with code 1"),
        ((), STEPS[:3], 0, JobFailed, "before it had measured cublaslt"),
        ((), (), 0, JobFailed, "said nothing"),
    ],
)
def test_what_cannot_be_measured_leaves_no_card(
    others: Sequence[int], steps: Sequence[str], code: int, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        calibrate(CARD, tmp_path, meter=Scripted(USED, others), command=probe(steps, code))
    assert not list(tmp_path.iterdir())


def test_the_processor_is_no_card(tmp_path: Path) -> None:
    with pytest.raises(NoSuchDevice, match="only an NVIDIA card"):
        calibrate(list_devices().find("cpu"), tmp_path)


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.skipif(not Path("/proc/driver/nvidia/version").exists(), reason="no NVIDIA driver on this machine")
def test_the_real_card_is_as_the_catalogue_says_where_that_was_measured(tmp_path: Path) -> None:
    path = calibrate(list_devices().find("cuda"), tmp_path)
    found: dict[str, Any] = json.loads(path.read_text())
    known = {card.id: card for card in all_cards()}.get(found["id"])
    assert found["context_mib"] > 100
    if known is not None and known.context_known == "measured":
        assert found["context_mib"] == pytest.approx(known.libraries.context / MIB, abs=16)
        assert found["libraries_mib"]["nccl"] == pytest.approx(known.libraries.nccl / MIB, rel=0.1)
