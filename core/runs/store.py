"""The runs of a data folder: lists come from the index, everything else from the run folders.

The index can be deleted at any time; it is rebuilt from the folders the next time it is opened.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import ColumnElement, Engine, delete, or_, select
from sqlalchemy import text as sql
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DatabaseError

from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder
from core.runs.gallery import recordings
from core.runs.home import DataHome, is_run_id
from core.runs.index import (
    INDEX_VERSION,
    experiments,
    index_lock,
    mark_complete,
    open_index,
    runs,
    set_aside,
    version_of,
)
from core.runs.rows import ExperimentRow, RunRow, columns_of, row_of
from core.runs.status import ENDED, read_status
from core.spec.errors import InvalidSpec, NoSuchRun

P = ParamSpec("P")
R = TypeVar("R")
DAMAGED = ("malformed", "not a database", "no such table", "no such column", "disk image", "readonly", "unable to open")
"""What SQLite says of an index that was damaged, deleted or replaced while it was in use."""


def mended(method: Callable[Concatenate[Store, P], R]) -> Callable[Concatenate[Store, P], R]:
    """A method of the store that, where the index turns out to be damaged, has it built again and tries once more."""

    @wraps(method)
    def again(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except DatabaseError as error:
            if self.mending or not any(word in str(error.orig) for word in DAMAGED):
                raise
            self.mending = True
            try:
                self._open(damaged=True)
                return method(self, *args, **kwargs)
            finally:
                self.mending = False

    return again


class Store:
    """Lists, labels, deletes and restores runs."""

    def __init__(self, home: DataHome) -> None:
        """Raises DataFolderError for an index of a newer version, which is left as it is."""
        self.home = home
        self.mending = False
        self._engine: Engine
        self._open()

    def _open(self, damaged: bool = False) -> None:
        """Open the index, and build it again where it is missing, of another version, or known to be damaged."""
        if damaged or version_of(self.home.index) != INDEX_VERSION:
            with index_lock(self.home.index):  # whoever waited here finds it made
                if damaged and self.home.index.exists() and not self._sound():
                    set_aside(self.home.index, "broken")
                self._engine, fresh = open_index(self.home.index)
                if fresh:
                    self._fill()
                    mark_complete(self._engine)
        else:
            self._engine, _ = open_index(self.home.index)

    def _sound(self) -> bool:
        try:
            with self._engine.connect() as connection:
                return bool(connection.execute(sql("PRAGMA integrity_check(1)")).scalar_one() == "ok")
        except DatabaseError:
            return False

    # ---- lists -------------------------------------------------------------------------------------------------

    @mended
    def list_runs(
        self,
        *,
        text: str = "",
        state: str | None = None,
        device: str | None = None,
        model: str | None = None,
        experiment: str | None = None,
        limit: int | None = None,
    ) -> list[RunRow]:
        """Newest experiment first, the runs of one in their order. `text` is looked for in what a person can read."""
        wanted: list[ColumnElement[bool]] = []
        if text:
            searched = (runs.c.run_id, runs.c.title, runs.c.note, runs.c.label, runs.c.model, runs.c.device_name)
            wanted.append(or_(*(column.contains(text, autoescape=True) for column in searched)))
        for column, value in (
            (runs.c.state, state),
            (runs.c.device, device),
            (runs.c.model, model),
            (runs.c.experiment_id, experiment),
        ):
            if value:
                wanted.append(column == value)
        query = select(runs).where(*wanted).order_by(runs.c.submitted_at.desc(), runs.c.position).limit(limit)
        with self._engine.connect() as connection:
            return [row_of(row) for row in connection.execute(query)]

    @mended
    def queue(self) -> list[RunRow]:
        """Runs that have not ended, in the order in which they were submitted."""
        query = select(runs).where(runs.c.state.not_in(ENDED)).order_by(runs.c.submitted_at, runs.c.position)
        with self._engine.connect() as connection:
            return [row_of(row) for row in connection.execute(query)]

    @mended
    def list_experiments(self, limit: int | None = None) -> list[ExperimentRow]:
        """Newest first, each with its runs; one whose runs were all deleted is left out."""
        owned = select(runs.c.experiment_id, runs.c.run_id).order_by(runs.c.position)
        has_runs = experiments.c.experiment_id.in_(select(runs.c.experiment_id))
        query = select(experiments).where(has_runs).order_by(experiments.c.created_at.desc()).limit(limit)
        with self._engine.connect() as connection:
            found = list(connection.execute(query).mappings())
            owned = owned.where(runs.c.experiment_id.in_([row["experiment_id"] for row in found]))
            members: dict[str, list[str]] = {}
            for experiment_id, run_id in connection.execute(owned):
                members.setdefault(experiment_id, []).append(run_id)
        return [ExperimentRow(**row, run_ids=tuple(members[row["experiment_id"]])) for row in found]

    def resolve(self, names: Iterable[str]) -> list[str]:
        """Run ids meant by `names`: each a run id, or an experiment id for all its runs. Raises NoSuchRun."""
        ids: list[str] = []
        for name in names:
            if "-" in name:
                ids.append(self.home.run(name).run_id)
                continue
            members = [row.run_id for row in self.list_runs(experiment=name)]
            members = members or [i for one in recordings() if one.experiment_id == name for i in one.run_ids]
            if not members:
                raise NoSuchRun(
                    f"there is no run or experiment {name[:40]!r}; `python -m core ls` lists those there are"
                )
            ids.extend(members)
        return list(dict.fromkeys(ids))

    # ---- changes -----------------------------------------------------------------------------------------------

    @mended
    def put_runs(self, run_ids: Sequence[str]) -> None:
        """Copy what these runs' folders say into the index; one whose folder has gone leaves it."""
        with self._engine.begin() as connection:
            # first, for it takes the index's lock: what is read after it is newer than what any other has written
            connection.execute(delete(runs).where(runs.c.run_id.in_(run_ids)))
            found = (columns_of(RunFolder(self.home.runs / run_id)) for run_id in dict.fromkeys(run_ids))
            rows = [row for row in found if row]
            if rows:
                connection.execute(insert(runs), rows)

    @mended
    def put_experiment(self, experiment_id: str) -> None:
        """Copy an experiment's document into the index."""
        document = read_json(self.home.experiments / f"{experiment_id}.json") or {}
        values = {
            "experiment_id": experiment_id,
            "title": str(document.get("title", "")),
            "note": str(document.get("note", "")),
            "created_at": float(document.get("created_at", 0)),
        }
        with self._engine.begin() as connection:
            connection.execute(
                insert(experiments).values(values).on_conflict_do_update(index_elements=["experiment_id"], set_=values)
            )

    def reindex(self) -> int:
        """Fill the index from the folders, and queue again what has not ended. Returns the number of runs."""
        with index_lock(self.home.index):
            return self._fill()

    def _fill(self) -> int:
        with self._engine.begin() as connection:
            connection.execute(delete(runs))
            connection.execute(delete(experiments))
        for path in self.home.experiments.glob("*.json"):
            self.put_experiment(path.stem)
        run_ids = sorted(path.name for path in self.home.runs.iterdir() if path.is_dir())
        for start in range(0, len(run_ids), 500):
            self.put_runs(run_ids[start : start + 500])
        queued = {path.name.rpartition(".")[2] for path in self.home.queue.iterdir()}
        for row in self.queue():
            if row.run_id not in queued:
                ticket = f"{round(row.submitted_at * 1e9):020d}.{row.position:04d}.{row.run_id}"
                (self.home.queue / ticket).touch()
        return len(run_ids)

    def rename(self, run_id: str, title: str | None = None, note: str | None = None) -> None:
        """Set a run's title, its note, or both. Raises NoSuchRun."""
        folder = self.home.own_run(run_id)
        label = read_json(folder.label) or {"title": "", "note": ""}
        write_json(
            folder.label,
            {
                "title": label["title"] if title is None else title[:200],
                "note": label["note"] if note is None else note[:10_000],
            },
        )
        self.put_runs([run_id])

    def rename_experiment(self, experiment_id: str, title: str) -> None:
        """Raises NoSuchRun when there is no such experiment."""
        path = self.home.experiments / f"{experiment_id}.json"
        document = read_json(path) if experiment_id.isalnum() else None
        if document is None:
            raise NoSuchRun(f"there is no experiment {experiment_id[:40]!r}")
        write_json(path, {**document, "title": title[:200]})
        self.put_experiment(experiment_id)

    def delete(self, run_ids: Iterable[str]) -> None:
        """Move runs to the trash, from where `restore` brings them back.

        Raises NoSuchRun, and InvalidSpec for a run that has not ended: it has to be cancelled first.
        """
        folders = [self.home.own_run(run_id) for run_id in run_ids]
        for folder in folders:
            status = read_status(folder)
            if status and not status.ended:
                raise InvalidSpec(f"run {folder.run_id} is {status.state}; cancel it before deleting it")
        for folder in folders:
            target = self.home.trash / folder.run_id
            shutil.rmtree(target, ignore_errors=True)
            folder.root.rename(target)
        self.put_runs([folder.run_id for folder in folders])

    def restore(self, run_ids: Iterable[str]) -> None:
        """Undo `delete`. Raises NoSuchRun when a run is not in the trash."""
        for run_id in run_ids:
            source = self.home.trash / run_id
            if not is_run_id(run_id) or not source.is_dir():
                raise NoSuchRun(f"run {run_id[:40]!r} is not in the trash any more")
            source.rename(self.home.runs / run_id)
            self.put_runs([run_id])
