"""Stands in for a Python interpreter in supervisor tests: takes `-m core.worker RUN_DIR` and acts a scripted worker.

What it does is the run's label: `finish`, `crash`, `exit`, `hang`, `deaf` (ignores SIGTERM), `orphan`
(leaves a grandchild in a session of its own), `sleep:<seconds>`, `sampled` (stays until
it was seen). No torch, so a test of the queue takes milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from core.runfolder.jsonio import JsonLines, read_json, write_json  # the path comes first
from core.runfolder.layout import RunFolder
from core.runfolder.tables import SAMPLES, read_table


def main(run_dir: str) -> None:
    folder = RunFolder(run_dir)
    document = read_json(folder.spec)
    assert document is not None
    act, _, argument = str(document["label"]).partition(":")
    lines = JsonLines(folder.phases)
    row = {"name": "load", "index": 0, "t_start": time.monotonic_ns(), "t_end": None, "step_start": 0, "step_end": None}
    lines.append(row)
    with (folder.root / "starts").open("a") as stream:
        stream.write(f"{os.getpid()}\n")
    print(json.dumps({"act": act}), flush=True)
    if act == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if act == "exit":
        print("cannot allocate a thing", file=sys.stderr)
        sys.exit(3)
    if act == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if act in ("hang", "deaf"):
        time.sleep(600)
    if act == "orphan":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        (folder.root / "orphan").write_text(str(child.pid))
    if act == "sleep":
        time.sleep(float(argument))
    if act == "sampled":
        deadline = time.monotonic() + 60
        while not any(read_table(folder.samples, SAMPLES)["host_rss"].to_pylist()) and time.monotonic() < deadline:
            time.sleep(0.05)
    lines.append({**row, "t_end": time.monotonic_ns(), "step_end": 0})
    write_json(folder.result, {"outcome": "finished", "error": None, "peak": {"allocated": 7, "reserved": 9}})


if __name__ == "__main__":
    main(sys.argv[-1])
