"""`calibrate`: measure this machine's card, so that it can be simulated where it is not."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from core.cli.output import JsonFlag, print_json, print_table, size
from core.devices.registry import list_devices
from core.runfolder.jsonio import read_json
from core.runs.calibrate import Step
from core.runs.calibrate import calibrate as measure
from core.runs.home import open_home
from core.spec.cards import MIB, PREFIX, all_cards
from core.spec.errors import NoSuchDevice


def calibrate(
    device: Annotated[str, typer.Option("--device", help="The card to measure: cuda, cuda:<index>.")] = "cuda",
    json_: JsonFlag = False,
) -> None:
    """Measure what the CUDA context, libraries and workspaces take on an idle card, and add it to the cards."""
    home = open_home()
    found = list_devices()
    if not found.cuda:
        raise NoSuchDevice(f"there is no card here to calibrate: {found.no_cuda_reason}")
    card = found.find(device)
    before = {one.id: one for one in all_cards()}

    def tell(step: Step) -> None:
        print(f"{step.name:22} {size(step.grown)}", file=sys.stderr)

    path = measure(card, home.cards, tell=tell)
    entry = read_json(path) or {}
    if json_:
        print_json({"card": PREFIX + entry["id"], "file": str(path), **entry})
        return
    known = before.get(entry["id"])
    rows = [["context", _mib(entry["context_mib"]), size(known.libraries.context) if known else "–"]]
    for name, taken in entry["libraries_mib"].items():
        rows.append([name, _mib(taken), size(getattr(known.libraries, name)) if known else "–"])
    rows += [[f"{name} workspace", _mib(taken), "–"] for name, taken in entry["workspaces_mib"].items()]
    print_table(["what", "measured", "in the catalogue"], rows)
    print(f"{PREFIX}{entry['id']} is {path}; `python -m core run --device {PREFIX}{entry['id']} …` simulates it")


def _mib(taken: float) -> str:
    return size(round(taken * MIB))
