"""NVML refusing anything at any time: a figure is null with its reason, never 0, and other cards go on."""

from __future__ import annotations

import os
from pathlib import Path

import pynvml
import pytest

from core.devices.nvml import Nvml, NvmlMeter, NvmlUnavailable
from core.devices.registry import Devices, list_devices, open_meter, visible
from core.runfolder.tables import SAMPLES, TableWriter, read_table
from core.sampler.sampling import Sampling
from core.sampler.tree import ProcessTree
from core.spec.errors import NoSuchDevice
from tests.fake_nvml import FakeCard, FakeNvml

A, B = "GPU-aaaa", "GPU-bbbb"
CODES = sorted(value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and type(value) is int)
CALLS = sorted(name for name in dir(FakeNvml) if name.startswith("nvml") and callable(getattr(FakeNvml, name)))


def listed(fake: FakeNvml) -> Devices:
    try:
        return list_devices(Nvml(fake))
    except NvmlUnavailable:
        return list_devices(None)


def test_every_error_code_of_the_library_is_tried() -> None:
    assert len(CODES) >= 28
    assert {1, 9, 12, 13, 15, 999} <= set(CODES)
    assert len(CALLS) >= 11


@pytest.mark.parametrize("call", CALLS)
def test_every_code_at_every_call_is_a_null_or_a_refusal_that_is_said(call: str) -> None:
    """The call works while the card is found and opened, and fails from then on; and fails from the beginning."""
    for code in CODES:
        card = FakeCard(A, used=5)
        card.processes = {os.getpid(): 3}
        fake = FakeNvml(card, FakeCard(B, used=7))
        nvml = Nvml(fake)
        meter = open_meter(list_devices(nvml).cuda[0], nvml)
        fake.fail[call] = code
        reading, condition = meter.read(), meter.condition()
        for figure, good in (
            (reading.device_used, 5),
            (reading.processes, {os.getpid(): 3}),
            (condition.temperature_c, 36),
            (condition.utilisation_percent, 7),
        ):
            assert figure in (good, None), f"{call} {code}"
        assert bool(reading.missing) == (reading.device_used is None or reading.processes is None)
        assert all(str(code) in reason for reason in reading.missing.values())
        for one in listed(fake).cuda:
            try:
                assert open_meter(one, nvml).read().device_used in (5, 7, None)
            except NoSuchDevice as error:
                assert str(code) in str(error)


def test_no_library_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real binding, which finds no library where there is no driver."""

    def init() -> None:
        raise pynvml.NVMLError_LibraryNotFound

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    found = list_devices()
    assert found.cuda == ()
    assert "no NVIDIA driver answers on this machine" in (found.no_cuda_reason or "")
    with pytest.raises(NoSuchDevice, match="use --device cpu"):
        found.find("cuda:0")


def test_a_card_lost_in_mid_run_is_null_from_there_on(tmp_path: Path) -> None:
    card = FakeCard(A, used=5)
    card.processes = {os.getpid(): 3}
    fake = FakeNvml(card, FakeCard(B, used=7))
    nvml = Nvml(fake)
    a, b = (open_meter(one, nvml) for one in list_devices(nvml).cuda)
    tree = ProcessTree(os.getpid())
    with TableWriter(tmp_path / "s.arrow", SAMPLES) as writer:
        sampling = Sampling(a, writer)
        sampling.look(1, tree)
        fake.lost.add(A)
        sampling.look(2, tree)
        sampling.flush()
    rows = read_table(tmp_path / "s.arrow", SAMPLES).to_pylist()
    assert [row["device_used"] for row in rows] == [5, None]
    assert rows[1]["process_used"] is None
    assert rows[1]["host_rss"], "what does not come from the driver goes on"
    assert set(sampling.missing) == {"device_used: NVML error 15", "processes: NVML error 15"}
    assert b.read().device_used == 7
    assert [one.uuid for one in list_devices(nvml).cuda] == [B], "a run for it is refused, and the other goes on"
    with pytest.raises(NoSuchDevice, match="there is cuda:1"):
        list_devices(nvml).find(f"cuda:{A}")


def test_missing_per_process_figures_are_null_and_not_zero(tmp_path: Path) -> None:
    card = FakeCard(A, used=500)
    card.processes = {os.getpid(): None}
    nvml = Nvml(FakeNvml(card))
    with TableWriter(tmp_path / "s.arrow", SAMPLES) as writer:
        sampling = Sampling(open_meter(list_devices(nvml).cuda[0], nvml), writer)
        sample = sampling.look(1, ProcessTree(os.getpid()))
    assert (sample.device_used, sample.process_used, sample.other_processes_used) == (500, None, 0)


def test_pids_of_another_namespace_belong_to_nobody_known(tmp_path: Path) -> None:
    card = FakeCard(A, used=500)
    card.processes = {2**22 + 1: 400}
    nvml = Nvml(FakeNvml(card))
    with TableWriter(tmp_path / "s.arrow", SAMPLES) as writer:
        sampling = Sampling(open_meter(list_devices(nvml).cuda[0], nvml), writer)
        sample = sampling.look(1, ProcessTree(os.getpid()))
    assert (sample.device_used, sample.process_used, sample.other_processes_used) == (500, None, None)
    assert sampling.grown() == {}


def test_a_mig_slice_is_refused_with_what_there_is() -> None:
    found = list_devices(Nvml(FakeNvml(FakeCard(A))))
    with pytest.raises(NoSuchDevice, match="MIG-1234 does not exist here; there is cuda:0"):
        found.find("cuda:MIG-1234")


def test_a_shuffled_order_finds_the_same_card() -> None:
    one, two = FakeCard(A, used=5), FakeCard(B, used=7)
    for cards in ((one, two), (two, one)):
        nvml = Nvml(FakeNvml(*cards))
        assert open_meter(list_devices(nvml).find(f"cuda:{B}"), nvml).read().device_used == 7


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (None, [A, B]),
        ("0", [A]),
        ("1", [B]),
        ("1,0", [B, A]),
        (B, [B]),
        ("GPU-b", [B]),
        ("GPU-", []),
        ("", []),
        ("-1", []),
        ("0,-1,1", [A]),
        ("0,0", [A]),
        ("2", []),
        ("1, 0", [B, A]),
        ("GPU-cccc", []),
        ("MIG-1234", []),
        ("nonsense", []),
    ],
)
def test_cards_that_the_environment_hides_are_not_used(
    wanted: str | None, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = Nvml(FakeNvml(FakeCard(A), FakeCard(B)))
    assert [card.uuid for card in visible(nvml.devices(), wanted)] == seen
    if wanted is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", wanted)
    found = list_devices(nvml)
    assert [card.uuid for card in found.cuda] == seen
    assert [card.index for card in found.cuda] == [{A: 0, B: 1}[uuid] for uuid in seen], "each keeps its own index"
    if not seen:
        assert found.no_cuda_reason == f"CUDA_VISIBLE_DEVICES={wanted!r} leaves none of 2 cards"
        with pytest.raises(NoSuchDevice, match="CUDA_VISIBLE_DEVICES"):
            found.find("cuda")
    else:
        assert found.find("auto").uuid == seen[0]


def test_a_meter_never_calls_what_it_could_not_ask_zero() -> None:
    card = FakeCard(A, used=0)
    card.processes = {}
    nvml = Nvml(FakeNvml(card))
    meter = NvmlMeter(nvml, list_devices(nvml).cuda[0], card)
    assert (meter.read().device_used, meter.read().processes) == (0, {}), "a zero that was read is one"
    nvml.library.fail = {"nvmlDeviceGetMemoryInfo": 999, "nvmlDeviceGetComputeRunningProcesses": 999}
    fresh = NvmlMeter(nvml, meter.device, card)
    assert (fresh.read().device_used, fresh.read().processes) == (None, None)
