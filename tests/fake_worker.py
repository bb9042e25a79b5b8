"""Stands in for a Python interpreter in supervisor tests: takes `-m core.worker RUN_DIR` and acts a scripted worker.

What it does is the run's label, a word and perhaps an argument: `sleep:0.5`. The words are the functions of ACTS. No
torch, so a test of the queue takes milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from core.runfolder.jsonio import JsonLines, read_json, write_json  # the path comes first
from core.runfolder.layout import RunFolder

TOKEN = "hf_abcdefghijKLMNOPQRSTuvwxyz0123456789"


def die(folder: RunFolder, name: str) -> None:
    os.kill(os.getpid(), getattr(signal, f"SIG{name}"))


def leave(folder: RunFolder, code: str) -> None:
    print("cannot allocate a thing", file=sys.stderr, flush=True)
    os._exit(int(code))


def hang(folder: RunFolder, _: str) -> None:
    time.sleep(600)


def deaf(folder: RunFolder, _: str) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)
    (folder.root / "deaf").touch()
    time.sleep(600)


def native(folder: RunFolder, _: str) -> None:
    """A loop in C: Python's own handler never gets its turn."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    (folder.root / "deaf").touch()
    hashlib.pbkdf2_hmac("sha512", b"", b"", 2**31 - 1)


def orphan(folder: RunFolder, _: str) -> None:
    """A grandchild in a session of its own, whose parent has gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            (folder.root / "orphan").write_text(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    while not (folder.root / "orphan").exists() or not (folder.root / "orphan").read_text():
        time.sleep(0.01)


def sleep(folder: RunFolder, seconds: str) -> None:
    time.sleep(float(seconds))


def until(folder: RunFolder, name: str) -> None:
    """Works until the test puts a file of this name into the run folder."""
    deadline = time.monotonic() + 120
    while not (folder.root / name).exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def sampled(folder: RunFolder, _: str) -> None:
    from core.runfolder.tables import SAMPLES, read_table  # seconds on a busy machine, and rarely needed

    deadline = time.monotonic() + 60
    while not any(read_table(folder.samples, SAMPLES)["host_rss"].to_pylist()) and time.monotonic() < deadline:
        time.sleep(0.05)


def flood(folder: RunFolder, mib: str) -> None:
    line = b"x" * 2**16 + b"\n"
    for _ in range(int(mib) * 16):
        os.write(1, line)
        os.write(2, line)


def token(folder: RunFolder, _: str) -> None:
    print(f"401 for token {TOKEN}", flush=True)
    print(f"using {TOKEN}", file=sys.stderr, flush=True)
    raise RuntimeError(f"the hub refused {TOKEN}")


def environment(folder: RunFolder, _: str) -> None:
    write_json(folder.root / "environment.json", dict(os.environ))


def oom(folder: RunFolder, _: str) -> None:
    message = "CUDA out of memory. Tried to allocate 642.00 MiB."
    error = {"kind": "oom", "message": message, "requested_bytes": 642 * 2**20, "phase": "load"}
    write_json(folder.result, {"outcome": "oom", "error": error, "peak": {"allocated": 7, "reserved": 9}})
    os._exit(0)


def nothing(folder: RunFolder, _: str) -> None:
    pass


ACTS = {
    "signal": die, "exit": leave, "hang": hang, "deaf": deaf, "native": native, "orphan": orphan, "sleep": sleep,
    "until": until, "sampled": sampled, "flood": flood, "token": token, "environment": environment, "oom": oom,
    "finish": nothing,
}  # fmt: skip


def main(run_dir: str) -> None:
    folder = RunFolder(run_dir)
    document = read_json(folder.spec)
    assert document is not None
    act, _, argument = str(document["label"]).partition(":")
    with (folder.root / "starts").open("a") as stream:
        stream.write(f"{os.getpid()}\n")
    if act == "import":  # before anything is recorded
        hang(folder, argument)
    lines = JsonLines(folder.phases)
    row = {"name": "load", "index": 0, "t_start": time.monotonic_ns(), "t_end": None, "step_start": 0, "step_end": None}
    lines.append(row)
    print(json.dumps({"act": act}), flush=True)
    result: dict[str, object] = {"outcome": "finished", "error": None, "peak": {"allocated": 7, "reserved": 9}}
    try:
        ACTS[act](folder, argument)
    except RuntimeError as error:
        result |= {"outcome": "failed", "error": {"kind": "exception", "message": str(error), "phase": "load"}}
    lines.append({**row, "t_end": time.monotonic_ns(), "step_end": 0})
    write_json(folder.result, {**result, "phases_lost": lines.lost}, folder.reserve)


if __name__ == "__main__":
    main(sys.argv[-1])
