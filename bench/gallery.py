"""`python -m bench.gallery [NAME…]`: record the experiments of examples/ on this machine's GPU and pack them.

Each goes to gallery/<name without dashes>/, in place of what was there. Without names, all of them. `--pack NAME=ID`
packs an experiment of the data folder that was recorded already.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from core.cli.follow import follow
from core.export.pack import pack_run
from core.runfolder.layout import RunFolder
from core.runs.gallery import GALLERY
from core.runs.home import DataHome, open_home
from core.runs.prepare import prepare
from core.runs.settings import read_settings
from core.runs.store import Store
from core.runs.submit import submit
from core.spec.experiment import load_experiment

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ORDER = ("ddp-puzzle", "fragmentation", "autocast", "prompt-logits", "batch-sweep")
MIB = 2**20


def record(home: DataHome, name: str) -> tuple[str, ...]:
    """Run the experiment and wait for it. Returns the ids of its runs."""
    experiment = load_experiment(EXAMPLES / f"{name}.yaml")
    preparation = prepare(experiment.matrix, read_settings(home))
    submitted = submit(home, preparation.runs, experiment.title, experiment.note)
    follow(home, {i: run.label for i, run in zip(submitted.run_ids, preparation.runs, strict=True)})
    return submitted.run_ids


def pack(home: DataHome, name: str, run_ids: tuple[str, ...]) -> Path:
    """Replace gallery/<name> by these runs."""
    experiment = load_experiment(EXAMPLES / f"{name}.yaml")
    experiment_id = name.replace("-", "")
    target = GALLERY / experiment_id
    shutil.rmtree(target, ignore_errors=True)
    for position, run_id in enumerate(run_ids, 1):
        pack_run(home.run(run_id), RunFolder(target / f"{experiment_id}-{position}"), experiment_id, position)
    document = {
        "title": experiment.title,
        "note": experiment.note,
        "example": f"examples/{name}.yaml",
        "order": ORDER.index(name),
    }
    (target / "experiment.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ORDER, []], help="experiments to record; all if none is named")
    parser.add_argument("--pack", action="append", default=[], metavar="NAME=EXPERIMENT", help="pack, record nothing")
    arguments = parser.parse_args()
    home = open_home()
    packed = dict(entry.split("=", 1) for entry in arguments.pack)
    for name in packed or arguments.names or ORDER:
        run_ids = tuple(Store(home).resolve([packed[name]])) if packed else record(home, name)
        target = pack(home, name, run_ids)
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        print(f"{target.relative_to(GALLERY.parent)}: {len(run_ids)} runs, {size / MIB:.2f} MiB")


if __name__ == "__main__":
    main()
