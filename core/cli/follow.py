"""Waits for runs to end, with a progress bar for each on a terminal."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from core.runs.cancel import cancel
from core.runs.home import DataHome
from core.runs.progress import progress
from core.runs.start import look_after
from core.runs.status import read_status

POLL_S = 0.2
LOOK_AFTER_SUPERVISOR_S = 5.0


def follow(home: DataHome, labels: dict[str, str]) -> None:
    """Return when every run of `labels` (run id to what is shown of it) has ended. Ctrl-C cancels the rest."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[where]}"), TimeElapsedColumn())
    bars = Progress(*columns, console=console, disable=not sys.stderr.isatty())
    tasks = {run_id: bars.add_task(f"{run_id} {label}", total=1.0, where="queued") for run_id, label in labels.items()}
    waiting = set(labels)
    looked_at = time.monotonic()
    with bars:
        while waiting:
            try:
                time.sleep(POLL_S)
                for run_id in sorted(waiting):
                    folder = home.run(run_id)
                    where = progress(folder)
                    bars.update(tasks[run_id], completed=where.fraction, where=where.text)
                    status = read_status(folder)
                    if status and status.ended:
                        waiting.discard(run_id)
                if waiting and time.monotonic() - looked_at > LOOK_AFTER_SUPERVISOR_S:
                    # a supervisor that was killed is started again, so that the runs go on
                    looked_at = time.monotonic()
                    look_after(home)
            except KeyboardInterrupt:
                cancel(home, sorted(waiting))
