"""A supervisor inside the test's own process, on scripted cards: time and the driver do what the test says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.devices.nvml import Nvml
from core.devices.registry import list_devices, open_meter
from core.runs.home import DataHome, open_home
from core.runs.status import RunStatus, read_status
from core.runs.submit import PreparedRun, submit
from core.runs.supervisor.loop import Supervisor
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
from tests.fake_nvml import FakeNvml
from tests.runs.conftest import scripted

STAND_IN_SAMPLER = 'while [ ! -e "$0/result.json" ] && [ ! -e "$0/no_sampler" ]; do sleep 0.05; done'


class Inside:
    """A data folder, its queue, and the supervisor that works on it when `tick` is called."""

    def __init__(self, root: Path, fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake = fake
        self.home: DataHome = open_home(root / "home")
        scripted(self.home, root)
        nvml = Nvml(fake)
        cards = "core.runs.supervisor.cards"
        monkeypatch.setattr("core.runs.submit.ensure_supervisor", lambda home: None)
        monkeypatch.setattr(f"{cards}.list_devices", lambda: list_devices(nvml))
        monkeypatch.setattr(f"{cards}.open_meter", lambda device: open_meter(device, nvml))
        # the sampler is another process, which has no scripted driver: one stands in for it that ends when it should
        from core.runs.supervisor import processes

        def start(folder: object, device: str, interval: float) -> object:
            return processes._beside_the_worker(folder, ["/bin/sh", "-c", STAND_IN_SAMPLER, str(folder.root)], {})  # type: ignore[arg-type, attr-defined]  # a run folder

        monkeypatch.setattr("core.runs.supervisor.launching.start_sampler", start)
        monkeypatch.setattr("core.runs.supervisor.sampler.start_sampler", start)
        self.supervisor = Supervisor(self.home)

    def submit(self, *acts: str, device: str = "cpu", **fields: object) -> list[str]:
        spec = parse_spec({"model": "tiny-llama", "device": device, "environment": "fake", "timeout_s": 60, **fields})
        runs = [PreparedRun(spec, resolve(spec), (), act) for act in acts]
        return list(submit(self.home, runs).run_ids)

    def status(self, run_id: str) -> RunStatus:
        status = read_status(self.home.run(run_id))
        assert status
        return status

    def until(self, holds: Callable[[], object], what: str, seconds: float = 90) -> None:
        """Tick until `holds`; fails the test with `what` when it does not in time."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, what
            self.supervisor.tick()
            time.sleep(0.01)

    def until_ended(self, *run_ids: str) -> list[RunStatus]:
        for run_id in run_ids:
            self.until(lambda run_id=run_id: self.status(run_id).ended, f"{run_id} has not ended")  # type: ignore[misc]  # bound now
        return [self.status(run_id) for run_id in run_ids]

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.supervisor.tick()

    def close(self) -> None:
        for job in self.supervisor.jobs.values():
            for process in (job.worker, job.sampler):
                if process and process.poll() is None:
                    process.kill()
                    process.wait()
        self.supervisor.pool.shutdown()
