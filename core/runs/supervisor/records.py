"""Writing what became of runs: what a full disk refuses is kept and tried again, so no verdict is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from core.runfolder.layout import RunFolder
from core.runs.home import DataHome
from core.runs.status import RunStatus, write_status
from core.runs.store import Store

logger = logging.getLogger(__name__)

RETRY_NS = 1_000_000_000


class Records:
    """Statuses, their rows in the index, and the tickets of the queue."""

    def __init__(self, home: DataHome) -> None:
        self.home = home
        self.store = Store(home)
        self.refused: dict[str, tuple[RunFolder, RunStatus]] = {}
        self._tried_ns = 0

    def put(self, folder: RunFolder, status: RunStatus) -> bool:
        """Write a status; False when the disk refuses, in which case `retry` does it later."""
        try:
            write_status(folder, status)
        except OSError as error:
            if folder.run_id not in self.refused:
                logger.warning("the status of %s has to wait: %s", folder.run_id, error)
            folder.reserve.unlink(missing_ok=True)
            self.refused[folder.run_id] = folder, status
            return False
        self.refused.pop(folder.run_id, None)
        self._index(folder.run_id)
        if status.ended:
            folder.reserve.unlink(missing_ok=True)
            self._take_off_the_queue(folder.run_id)
            logger.info("%s %s", folder.run_id, status.state)
        return True

    def retry(self) -> None:
        """Try again what was refused, once a second. A run whose folder has gone needs no status."""
        now = time.monotonic_ns()
        if not self.refused or now - self._tried_ns < RETRY_NS:
            return
        self._tried_ns = now
        for run_id, (folder, status) in list(self.refused.items()):
            if folder.root.is_dir():
                self.put(folder, status)
            else:
                del self.refused[run_id]

    def tickets(self) -> Iterator[Path]:
        """What is queued or under way, in the order of submission."""
        try:
            yield from sorted(self.home.queue.iterdir())
        except OSError:
            return

    def folder(self, ticket: Path) -> RunFolder:
        return RunFolder(self.home.runs / ticket.name.rpartition(".")[2])

    def _take_off_the_queue(self, run_id: str) -> None:
        # last: as long as the ticket is there, a supervisor after this one looks at the run
        for ticket in self.tickets():
            if ticket.name.endswith(f".{run_id}"):
                ticket.unlink(missing_ok=True)

    def _index(self, run_id: str) -> None:
        try:
            self.store.put_runs([run_id])
        except SQLAlchemyError:
            logger.exception("the index does not take %s; reindex brings it back", run_id)
