"""The recorded experiments that come with the app: run folders that anyone can open and nobody changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.runfolder.jsonio import read_json
from core.runfolder.layout import RunFolder

GALLERY = Path(__file__).resolve().parents[2] / "gallery"


@dataclass(frozen=True)
class Recording:
    """One experiment of the gallery. `example` is the file under examples/ that records it again."""

    experiment_id: str
    title: str
    note: str
    example: str
    run_ids: tuple[str, ...]
    card: str
    date: str


def gallery_run(run_id: str, root: Path = GALLERY) -> RunFolder | None:
    """The folder of a recorded run; `run_id` has the form of one (core.runs.home.is_run_id)."""
    folder = root / run_id.partition("-")[0] / run_id
    return RunFolder(folder) if folder.is_dir() else None


@cache
def recorded_label(run_id: str) -> str:
    """What a recorded run is called in its experiment; nothing for an id that is not one of them."""
    folder = gallery_run(run_id)
    document = (read_json(folder.spec) if folder else None) or {}
    return str(document.get("label", ""))


@cache
def recordings(root: Path = GALLERY) -> tuple[Recording, ...]:
    """The experiments in the gallery's order. Read once: they come with the code."""
    found = []
    for path in sorted(root.glob("*/experiment.json"), key=lambda path: (read_json(path) or {}).get("order", 0)):
        document = read_json(path) or {}
        run_ids = sorted(
            (p.name for p in path.parent.iterdir() if p.is_dir()), key=lambda name: int(name.split("-")[1])
        )
        first = read_json(RunFolder(path.parent / run_ids[0]).recorded) or {} if run_ids else {}
        found.append(
            Recording(
                path.parent.name,
                str(document.get("title", "")),
                str(document.get("note", "")),
                str(document.get("example", "")),
                tuple(run_ids),
                str(first.get("card", "")),
                str(first.get("date", "")),
            )
        )
    return tuple(found)
