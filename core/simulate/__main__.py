"""`python -m core.simulate RUN_DIR`: execute the run that RUN_DIR/spec.json describes on the simulated card it names.

What a worker does for a real device, and with the same outcome: exit code 0 when result.json is written.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder
from core.worker.report import Report


def main(run_dir: str) -> int:
    folder = RunFolder(run_dir)
    report = Report(folder)
    document: dict[str, Any] = read_json(folder.spec) or {}
    try:
        from core.simulate.run import simulate  # torch and transformers: seconds, in which a failure is a result too

        simulate(document, folder, report, time.monotonic_ns())
    except Exception as error:  # noqa: BLE001 - whatever a model or a library raises is the result
        report.fail(error, "trace")
    report.write()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)
