"""settings.json of the data folder: what the admin of a machine decides, not the user of a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from core.runfolder.jsonio import read_json
from core.runs.environment import PROJECT_ROOT
from core.runs.home import DataHome
from core.spec.errors import InvalidSpec


@dataclass(frozen=True)
class Environment:
    """A Python that a run may name: an interpreter (None: the app's own) and folders put before its packages."""

    name: str
    interpreter: str | None = None
    overlays: tuple[str, ...] = ()


BUILT_HERE = {"tf435": Environment("tf435", None, (str(PROJECT_ROOT / ".envs" / "tf435"),))}
"""Environments that a make target of this project builds (`make env-tf435`); settings.json may move them."""


@dataclass(frozen=True)
class Settings:
    """`cpu_slots` runs at a time on the CPU; `environments` is the allow-list that a spec's environment names from.

    For a server that others reach: `model_roots` are the folders below which models are taken, `allowed_users` the mail
    addresses (`*@example.org`) of those who may use it when they have logged in; empty for everyone who can.
    """

    cpu_slots: int = 1
    environments: dict[str, Environment] = field(default_factory=lambda: dict(BUILT_HERE))
    model_roots: tuple[str, ...] = ()
    allowed_users: tuple[str, ...] = ()

    def environment(self, name: str) -> Environment:
        """Raises InvalidSpec for a name that is not on the list, or whose folders are not there."""
        if name == "default":
            return Environment("default")
        if name not in self.environments:
            listed = ", ".join(["default", *self.environments])
            raise InvalidSpec(f"environment {name!r} is not on this machine's list ({listed}); its admin adds it there")
        environment = self.environments[name]
        missing = [folder for folder in environment.overlays if not Path(folder).is_dir()]
        if missing:
            build = f"build it with `make env-{name}`" if name in BUILT_HERE else "its admin put it on the list"
            raise InvalidSpec(f"environment {name!r} has no folder {missing[0]}; {build}")
        return environment


def read_settings(home: DataHome) -> Settings:
    """The settings of a data folder; defaults where settings.json says nothing."""
    document = read_json(home.settings) or {}
    listed = document.get("environments") or {}
    environments = {
        str(name): Environment(str(name), entry.get("interpreter"), tuple(entry.get("overlays") or ()))
        for name, entry in listed.items()
        if isinstance(entry, dict)
    }
    return Settings(
        int(document.get("cpu_slots", 1)),
        BUILT_HERE | environments,
        tuple(map(str, document.get("model_roots") or ())),
        tuple(map(str, document.get("allowed_users") or ())),
    )
