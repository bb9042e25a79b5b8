"""`python -m core.runs.supervisor DATA_FOLDER`: works on the queue until it has been idle for a minute."""

from __future__ import annotations

import logging
import sys
import time

from filelock import FileLock, Timeout

from core.runs.home import open_home
from core.runs.supervisor.logs import bound
from core.runs.supervisor.loop import Supervisor

TICK_S = 0.05


def main(root: str) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    home = open_home(root)
    bound(home.supervisor_log)
    try:
        with FileLock(home.supervisor_lock, timeout=0):
            supervisor = Supervisor(home)
            supervisor.adopt()
            while supervisor.tick():
                time.sleep(TICK_S)
    except Timeout:
        return 0  # another supervisor has the folder; its queue includes what we were started for
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
