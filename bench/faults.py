"""`python -m bench.faults [storm|crowd|cuts]`: the heavy faults at full size; prints what was injected and lost.

storm: a supervisor is killed 200 times at random moments over a queue of 20 runs of scripted workers. crowd: 6
processes submit 2,000 runs to 2 scripted cards. cuts: Arrow streams are cut off at every byte. Smaller versions of each
are tests (tests/faults). Exits with 1 when anything was lost.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.runfolder.tables import EVENTS, SAMPLES, TableWriter, read_table
from core.runs.home import open_home
from core.runs.submit import PreparedRun, submit
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
from tests.faults.storm import Storm, crowd, judged
from tests.runs.conftest import kill_supervisors, scripted

KILLS, RUNS = 200, 20
PROCESSES, SUBMITTED = 6, 2000
ACTS = ("sleep:2", "sleep:6", "sleep:12", "finish", "signal:KILL", "oom", "exit:3")


def storm(place: Path) -> dict[str, Any]:
    """Every run has to end, in one start, with what was recorded of it."""
    home = open_home(place / "home")
    scripted(home, place)
    seed = random.randrange(2**32)
    choose = random.Random(seed)
    spec = parse_spec({"model": "tiny-llama", "device": "cpu", "environment": "fake", "timeout_s": 3600})
    acts = ["until:go", *(choose.choice(ACTS) for _ in range(RUNS - 1))]
    ids = submit(home, [PreparedRun(spec, resolve(spec), (), act) for act in acts]).run_ids
    began = time.monotonic()
    counts = Storm(home, choose).kill(KILLS, ids, 600)
    verdict = judged(home, ids)
    kill_supervisors(home)
    return {
        "seed": seed,
        **asdict(counts),
        "runs": len(ids),
        "states": dict(verdict.states),
        "twice": verdict.twice,
        "forgotten": verdict.forgotten,
        "lost_without_phases": verdict.without_samples,
        "seconds": round(time.monotonic() - began, 1),
    }


def many(place: Path) -> dict[str, Any]:
    """No run twice, none forgotten, no card used by two at a time, the order of submission kept."""
    each = -(-SUBMITTED // PROCESSES)
    verdict = crowd(place, PROCESSES, each, 3600)
    lost = verdict.forgotten + verdict.twice + verdict.shared + verdict.out_of_order
    return {"injected": verdict.submitted, "survived": verdict.ended, "lost": lost, **asdict(verdict)}


def cuts(place: Path) -> dict[str, Any]:
    """A stream cut at any byte reads its whole batches, no more and no fewer."""
    injected = lost = 0
    path = place / "s.arrow"
    for schema, compression in ((SAMPLES, None), (EVENTS, None), (EVENTS, "zstd")):
        ends = []
        with TableWriter(path, schema, compression) as writer:
            for batch in range(12):
                values = range(batch * 20, batch * 20 + 20)
                rows: dict[str, list[Any]] = {f.name: list(values) if f.name == "t_ns" else [None] * 20 for f in schema}
                if "action" in rows:
                    rows["action"] = ["alloc" if value % 2 else "free" for value in values]
                writer.write(rows)
                ends.append(path.stat().st_size)
        whole = path.read_bytes()
        for cut in range(len(whole) + 1):
            path.write_bytes(whole[:cut])
            table = read_table(path, schema)
            wanted = list(range(20 * sum(cut >= end for end in ends)))
            injected += 1
            lost += table["t_ns"].to_pylist() != wanted
    return {"injected": injected, "survived": injected - lost, "lost": lost}


def main(*names: str) -> int:
    parts = {"storm": storm, "crowd": many, "cuts": cuts}
    found = {}
    for name in names or tuple(parts):
        with tempfile.TemporaryDirectory() as place:
            found[name] = parts[name](Path(place))
    print(json.dumps(found, indent=1))
    return int(any(part["lost"] for part in found.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
