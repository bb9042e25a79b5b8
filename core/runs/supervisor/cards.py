"""The cards between two runs: each goes to the next run only when it is as it was before the last one."""

from __future__ import annotations

import logging
import time

from core.devices.device import Device, Meter, Reading
from core.devices.registry import list_devices, open_meter
from core.runs.home import DataHome
from core.runs.quarantine import Quarantine, put_into_quarantine, quarantines, release_from_quarantine
from core.runs.supervisor.job import Job
from core.runs.supervisor.returning import PATIENCE_NS, Stayed, stayed
from core.spec.errors import NoSuchDevice

logger = logging.getLogger(__name__)

LOOK_NS = 2_000_000_000
"""How often a card in quarantine is looked at."""


class Cards:
    """Meters of the cards, opened once each, and which of them are in quarantine."""

    def __init__(self, home: DataHome) -> None:
        self.home = home
        self._meters: dict[str, Meter] = {}
        self._looked_ns = 0
        self._quarantined: dict[str, Quarantine] = {}

    def find(self, device_id: str) -> Device:
        """Raises NoSuchDevice."""
        return list_devices().find(device_id)

    def meter(self, device: Device) -> Meter:
        """Raises NoSuchDevice when the card does not answer."""
        if device.id not in self._meters:
            self._meters[device.id] = open_meter(device)
        return self._meters[device.id]

    def returned(self, job: Job) -> bool:
        """Whether the card of an ended run can go to the next one, or was put into quarantine instead."""
        if not job.device.startswith("cuda:") or not job.baseline:
            return True
        left = stayed(job.status.run_id, job.baseline, self._read(job.device))
        if left is None:
            return True
        if job.since_gone_ns < PATIENCE_NS:
            return False
        self._put(job, left)
        return True

    def closed(self, device_id: str) -> bool:
        """Whether a card is in quarantine still; looked at every two seconds, and released when its memory is back."""
        now = time.monotonic_ns()
        if now - self._looked_ns > LOOK_NS:
            self._looked_ns = now
            self._quarantined = quarantines(self.home)
            for one in list(self._quarantined.values()):
                if stayed(one.run_id, one.baseline, self._read(one.device)) is None:
                    logger.info("%s is back at its baseline", one.device)
                    release_from_quarantine(self.home, one.device)
                    del self._quarantined[one.device]
        return device_id in self._quarantined

    def _put(self, job: Job, left: Stayed) -> None:
        logger.error("%s: quarantine after %s: %s, PIDs %s", job.device, job.status.run_id, left.message, left.pids)
        try:
            put_into_quarantine(self.home, job.device, job.status.run_id, left.message, left.pids, job.baseline)
        except OSError:
            logger.exception("the quarantine of %s could not be written", job.device)
        self._looked_ns = 0

    def _read(self, device_id: str) -> Reading:
        try:
            reading = self.meter(self.find(device_id)).read()
        except NoSuchDevice as error:
            reading = Reading(missing={"device": str(error)})
        if reading.device_used is None:
            self._meters.pop(device_id, None)  # it is opened anew: after a reset of the card the old handle is no good
        return reading
