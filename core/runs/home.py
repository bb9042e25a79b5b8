"""The data folder: where it is and what lies where in it."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from core.runfolder.layout import RunFolder
from core.runs.gallery import gallery_run
from core.spec.cards import CARDS_VARIABLE
from core.spec.errors import DataFolderError, InvalidSpec, NoSuchRun

HOME_VARIABLE = "VRAMSCOPE_HOME"


class DataHome:
    """Paths of the data folder. `open_home` creates it; nothing else is created or read here."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def queue(self) -> Path:
        """One empty file for each run that has not ended, named so that the names sort in order of submission."""
        return self.root / "queue"

    @property
    def experiments(self) -> Path:
        return self.root / "experiments"

    @property
    def trash(self) -> Path:
        return self.root / "trash"

    @property
    def index(self) -> Path:
        return self.root / "index.sqlite"

    @property
    def submit_lock(self) -> Path:
        return self.root / "submit.lock"

    @property
    def supervisor_lock(self) -> Path:
        return self.root / "supervisor.lock"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def cards(self) -> Path:
        """Cards that were calibrated on this machine, a JSON file each."""
        return self.root / "cards"

    @property
    def settings(self) -> Path:
        return self.root / "settings.json"

    def run(self, run_id: str) -> RunFolder:
        """A run of this folder, or one of the gallery. Raises NoSuchRun for an id that is not one, or that none has."""
        if is_run_id(run_id):
            if (self.runs / run_id).is_dir():
                return RunFolder(self.runs / run_id)
            recorded = gallery_run(run_id)
            if recorded is not None:
                return recorded
        raise NoSuchRun(f"there is no run {run_id[:40]!r} in {self.root}; `python -m core ls` lists those there are")

    def own_run(self, run_id: str) -> RunFolder:
        """A run that may be changed. Raises NoSuchRun, and InvalidSpec for one of the gallery."""
        folder = self.run(run_id)
        if folder.root.parent != self.runs:
            raise InvalidSpec(f"run {run_id} is one of the recorded ones that come with the app; it cannot be changed")
        return folder


def is_run_id(text: str) -> bool:
    """Whether `text` has the form of a run id, `k3f9qz-1`. Ids come from links: none reaches a path unchecked."""
    experiment, dash, position = text.partition("-")
    return bool(dash) and experiment.isascii() and experiment.isalnum() and position.isascii() and position.isdigit()


def open_home(root: str | os.PathLike[str] | None = None) -> DataHome:
    """The data folder at `root`, else at $VRAMSCOPE_HOME, else the platform's place for user data; made if missing.

    Raises DataFolderError when it cannot be written.
    """
    chosen = root or os.environ.get(HOME_VARIABLE) or platformdirs.user_data_dir("vramscope", appauthor=False)
    home = DataHome(Path(chosen).expanduser().absolute())
    try:
        for folder in (home.runs, home.queue, home.experiments, home.trash):
            folder.mkdir(parents=True, exist_ok=True)
        probe = home.root / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DataFolderError(
            f"the data folder {home.root} cannot be written ({error.strerror}); set {HOME_VARIABLE} to one that can"
        ) from error
    # this process and those it starts find the calibrated cards there, unless the user names another place
    os.environ.setdefault(CARDS_VARIABLE, str(home.cards))
    return home
