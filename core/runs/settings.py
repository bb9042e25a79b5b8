"""settings.json of the data folder: what the admin of a machine decides, not the user of a browser."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.runfolder.jsonio import read_json
from core.runs.home import DataHome
from core.spec.errors import InvalidSpec


@dataclass(frozen=True)
class Environment:
    """A Python that a run may name: an interpreter (None: the app's own) and folders put before its packages."""

    name: str
    interpreter: str | None = None
    overlays: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """`cpu_slots` runs at a time on the CPU; `environments` is the allow-list that a spec's environment names from."""

    cpu_slots: int = 1
    environments: dict[str, Environment] = field(default_factory=dict)

    def environment(self, name: str) -> Environment:
        """Raises InvalidSpec for a name that is not on the list."""
        if name == "default":
            return Environment("default")
        if name not in self.environments:
            listed = ", ".join(["default", *self.environments])
            raise InvalidSpec(f"environment {name!r} is not on this machine's list ({listed}); its admin adds it there")
        return self.environments[name]


def read_settings(home: DataHome) -> Settings:
    """The settings of a data folder; defaults where settings.json says nothing."""
    document = read_json(home.settings) or {}
    listed = document.get("environments") or {}
    environments = {
        str(name): Environment(str(name), entry.get("interpreter"), tuple(entry.get("overlays") or ()))
        for name, entry in listed.items()
        if isinstance(entry, dict)
    }
    return Settings(int(document.get("cpu_slots", 1)), environments)
