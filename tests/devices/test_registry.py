"""Finding devices: by UUID, with every refusal of the driver said and none taken for a zero."""

from __future__ import annotations

import pytest

from core.devices.device import Device
from core.devices.nvml import LISTS_AFTER_CHANGE, Nvml, NvmlMeter, NvmlUnavailable
from core.devices.registry import list_devices, open_meter
from core.spec.errors import NoSuchDevice
from tests.fake_nvml import FakeCard, FakeNvml

A, B = "GPU-aaaa", "GPU-bbbb"
ERROR_CODES = (1, 2, 3, 4, 6, 9, 10, 12, 13, 15, 17, 18, 999)


def session(fake: FakeNvml) -> Nvml:
    return Nvml(fake)


def test_cards_are_known_by_uuid_and_found_by_index() -> None:
    found = list_devices(session(FakeNvml(FakeCard(A), FakeCard(B))))
    assert [device.id for device in found.cuda] == [f"cuda:{A}", f"cuda:{B}"]
    assert found.find("cuda:1").id == f"cuda:{B}"
    assert found.find(f"cuda:{A}").index == 0
    assert found.find("cuda").id == found.find("auto").id == f"cuda:{A}"
    assert found.find("cpu").kind == "cpu"
    assert found.no_cuda_reason is None


def test_a_card_that_is_not_there_is_refused_with_what_is() -> None:
    found = list_devices(session(FakeNvml(FakeCard(A))))
    with pytest.raises(NoSuchDevice, match=r"cuda:3 does not exist here; there is cuda:0 \(NVIDIA RTX A6000\) and cpu"):
        found.find("cuda:3")


def test_no_driver_leaves_the_cpu_and_says_why() -> None:
    fake = FakeNvml()
    fake.fail["nvmlInit"] = 9
    with pytest.raises(NvmlUnavailable, match="no NVIDIA driver answers"):
        Nvml(fake)
    found = list_devices(session(FakeNvml()))
    assert found.find("auto").id == "cpu"
    with pytest.raises(NoSuchDevice, match="shows no card; use --device cpu"):
        found.find("cuda:0")


@pytest.mark.parametrize("code", ERROR_CODES)
@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetName"]
)
def test_any_error_while_listing_costs_at_most_that_card(call: str, code: int) -> None:
    fake = FakeNvml(FakeCard(A))
    fake.fail[call] = code
    found = list_devices(session(fake))
    assert found.found[-1].kind == "cpu"
    assert [device.name for device in found.cuda] == (["NVIDIA GPU"] if call == "nvmlDeviceGetName" else [])


@pytest.mark.parametrize("code", ERROR_CODES)
def test_a_refused_figure_is_none_with_its_reason_and_the_others_stand(code: int) -> None:
    card = FakeCard(A, used=5)
    fake = FakeNvml(card)
    meter = open_meter(list_devices(session(fake)).cuda[0], session(fake))
    fake.fail["nvmlDeviceGetComputeRunningProcesses"] = code
    reading = meter.read()
    assert (reading.device_used, reading.processes) == (5, None)
    assert reading.missing == {"processes": f"NVML error {code}"}
    fake.fail = {"nvmlDeviceGetMemoryInfo": code, "nvmlDeviceGetTemperature": code}
    assert meter.read().device_used is None
    assert meter.condition().temperature_c is None
    assert meter.condition().utilisation_percent == 7


def test_processes_are_listed_again_when_the_memory_changes_or_a_second_has_passed() -> None:
    card = FakeCard(A, used=5)
    card.processes = {1: 5}
    nvml, now = session(FakeNvml(card)), [0]
    meter = NvmlMeter(nvml, list_devices(nvml).cuda[0], card, lambda: now[0])
    assert meter.read().processes == {1: 5}
    for _ in range(LISTS_AFTER_CHANGE):
        meter.read()
    card.processes = {1: 3, 2: 2}
    assert meter.read().processes == {1: 5}, "nothing changed on the card"
    card.used = 6
    assert meter.read().processes == {1: 3, 2: 2}
    card.processes = {1: 4, 2: 2}
    assert meter.read().processes == {1: 4, 2: 2}, "the list may lag behind the card, so it is asked for again"
    for _ in range(LISTS_AFTER_CHANGE):
        meter.read()
    card.processes = {2: 6}
    now[0] = 2 * 10**9
    assert meter.read().processes == {2: 6}


class Draining(FakeCard):
    """A card whose one process gives back 100 bytes at every call; 7 bytes belong to nobody."""

    def __init__(self) -> None:
        self.draining = False
        self.left = 10_000
        super().__init__(A)

    def _now(self) -> int:
        self.left -= 100 * self.draining
        return self.left

    @property
    def used(self) -> int:
        return self._now() + 7

    @used.setter
    def used(self, value: int) -> None:
        pass

    @property
    def processes(self) -> dict[int, int | None]:
        return {1: self._now()}

    @processes.setter
    def processes(self, value: dict[int, int | None]) -> None:
        pass


def test_the_two_figures_of_a_reading_belong_to_one_moment() -> None:
    card = Draining()
    nvml = session(FakeNvml(card))
    meter = NvmlMeter(nvml, list_devices(nvml).cuda[0], card)
    assert meter.read().device_used == 10_007
    card.draining = True
    for _ in range(3):
        reading = meter.read()
        assert reading.processes
        assert reading.device_used == (reading.processes[1] or 0) + 7


def test_memory_info_version_is_recorded() -> None:
    fake = FakeNvml(FakeCard(A, used=5, reserved=100))
    device = list_devices(session(fake)).cuda[0]
    assert open_meter(device, session(fake)).describe()["memory_info_version"] == 2
    assert open_meter(device, session(fake)).read().device_used == 5
    fake.has_v2 = False
    old = open_meter(device, session(fake))
    assert (old.describe()["memory_info_version"], old.read().device_used) == (1, 105)


def test_a_card_lost_between_listing_and_opening() -> None:
    with pytest.raises(NoSuchDevice, match="does not answer any more"):
        open_meter(Device("cuda:GPU-gone", "cuda", "NVIDIA X", None, 0), session(FakeNvml(FakeCard(A))))
