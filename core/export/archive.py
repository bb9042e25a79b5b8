"""An experiment as one file that another installation imports: a zip of packed runs (core.export.pack)."""

from __future__ import annotations

import io
import json
import lzma
import re
import shutil
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from core.explain.breakdown import breakdown
from core.explain.document import explained
from core.explain.evidence import read_evidence
from core.explain.history import pool_history
from core.export.csv import write_csv
from core.export.pack import DOCUMENTS, pack_run
from core.plots.tables import peaks_table
from core.plots.timeline import timeline
from core.runfolder.jsonio import read_json, write_json
from core.runfolder.layout import RunFolder
from core.runfolder.tables import EVENTS, SAMPLES, read_table
from core.runs.home import DataHome
from core.runs.progress import progress
from core.runs.rows import columns_of
from core.runs.status import RunStatus, read_status, write_status
from core.runs.store import Store
from core.runs.submit import new_experiment
from core.spec.errors import InvalidSpec
from core.spec.run_spec import parse_spec
from core.trace.read import read_trace

FORMAT = "vramscope-experiment-1"
MANIFEST = "experiment.json"
MOST_RUNS = 500
LARGEST_MEMBER = 256 * 2**20
LARGEST_ARCHIVE = 2**30
"""Bytes when unpacked. A run of a 7B model with stacks takes about one MiB."""

TABLES: tuple[Callable[[RunFolder], Path], ...] = (
    lambda folder: folder.phases,
    lambda folder: folder.samples,
    lambda folder: folder.events,
    lambda folder: folder.recorded,
)
_EMPTY = RunFolder("")
MEMBERS = frozenset(str(path_of(_EMPTY)) for path_of in (*DOCUMENTS, *TABLES))
"""What a run in an archive may hold; anything else is refused, pickles above all."""

END_OF_TIME = 253_402_300_800
"""Seconds since the epoch at the end of the year 9999: what no date can show is no time of a run."""

DAMAGED = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, KeyError, ValueError, EOFError, OSError,
    RuntimeError, struct.error,
)  # fmt: skip
"""What zipfile raises for one; NotImplementedError, for an unknown method of packing, is a RuntimeError."""

_MEMBER = re.compile(r"runs/(\d{1,4})/(.+)")


def write_archive(folders: Sequence[RunFolder], title: str, note: str, stream: BinaryIO) -> int:
    """Write these runs, in their order; returns how many. Raises NoSuchRun for one that has not ended."""
    with tempfile.TemporaryDirectory(prefix="vramscope-") as scratch, zipfile.ZipFile(stream, "w") as archive:
        manifest = {"format": FORMAT, "title": title, "note": note, "runs": len(folders), "created_at": time.time()}
        archive.writestr(MANIFEST, json.dumps(manifest, indent=1), zipfile.ZIP_DEFLATED)
        for number, folder in enumerate(folders, 1):
            packed = RunFolder(Path(scratch) / str(number))
            pack_run(folder, packed, "archive", number)
            for path in sorted(packed.root.rglob("*")):
                if path.is_file():
                    name = PurePosixPath("runs", str(number), *path.relative_to(packed.root).parts)
                    archive.write(path, str(name), zipfile.ZIP_DEFLATED)
    return len(folders)


def import_archive(home: DataHome, data: bytes) -> tuple[str, list[str]]:
    """Take an archive into the data folder as a new experiment. Returns its id and the ids of its runs.

    Raises InvalidSpec, and takes nothing, when it is no such archive, too large, or holds what it should not.
    """
    with tempfile.TemporaryDirectory(prefix=".import-", dir=home.root) as scratch:
        manifest, numbers = _unpack(data, Path(scratch))
        for number in numbers:
            _check_run(RunFolder(Path(scratch) / str(number)), number)
        title = str(manifest.get("title", ""))[:200]
        experiment_id = new_experiment(home, title, str(manifest.get("note", ""))[:10_000], len(numbers))
        run_ids = []
        for position, number in enumerate(numbers, 1):
            run_id = f"{experiment_id}-{position}"
            source = RunFolder(Path(scratch) / str(number))
            _rename(source, run_id, experiment_id)
            shutil.move(source.root, home.runs / run_id)
            run_ids.append(run_id)
    store = Store(home)
    store.put_experiment(experiment_id)
    store.put_runs(run_ids)
    return experiment_id, run_ids


def _unpack(data: bytes, target: Path) -> tuple[dict[str, Any], list[int]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > LARGEST_ARCHIVE:
                raise InvalidSpec("the archive is larger than 1 GiB when unpacked; export fewer runs at a time")
            manifest = json.loads(_read(archive, MANIFEST))
            if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
                raise InvalidSpec(f"the archive's {MANIFEST} is not of format {FORMAT}; export it again")
            numbers: set[int] = set()
            for member in members:
                if member.filename == MANIFEST or member.is_dir():
                    continue
                numbers.add(_take(archive, member, target))
    except DAMAGED as error:
        raise InvalidSpec(
            f"it is no archive of an experiment, or it is damaged ({str(error)[:200]}); export it again"
        ) from error
    if not numbers or len(numbers) > MOST_RUNS:
        raise InvalidSpec(f"the archive holds {len(numbers)} runs; from 1 to {MOST_RUNS} can be imported")
    return manifest, sorted(numbers)


def _take(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> int:
    """Unpack one member, by names of our own: none of the archive's reaches a path."""
    found = _MEMBER.fullmatch(member.filename)
    if found is None or found.group(2) not in MEMBERS:
        raise InvalidSpec(f"the archive holds {member.filename[:80]!r}, which no run has; nothing was imported")
    path = target / str(int(found.group(1))) / found.group(2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_read(archive, member.filename))
    return int(found.group(1))


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of one member; what it says of its size is not believed."""
    with archive.open(name) as member:
        data = member.read(LARGEST_MEMBER + 1)
    if len(data) > LARGEST_MEMBER:
        raise InvalidSpec(f"{name[:80]!r} is larger than {LARGEST_MEMBER >> 20} MiB; nothing was imported")
    return data


def _check_run(folder: RunFolder, number: int) -> None:
    document, status = read_json(folder.spec), read_status(folder)
    if document is None or not isinstance(document.get("spec"), dict) or status is None or not status.ended:
        raise InvalidSpec(f"run {number} of the archive has no readable spec and final status; nothing was imported")
    known = dict(document["spec"])
    parse_spec({**known, "device": known.get("device", "cpu")})
    try:
        _read_all(folder)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:400]
        raise InvalidSpec(f"run {number} of the archive cannot be read ({said}); nothing was imported") from error


def _read_all(folder: RunFolder) -> None:
    """Read all that a page reads of a run. Raises whatever one of the readers does."""
    status = TypeAdapter(RunStatus).validate_json(folder.status.read_bytes(), strict=True)
    times = (status.submitted_at, status.started_at or 0, status.ended_at or 0, status.seconds or 0)
    if not all(0 <= moment < END_OF_TIME for moment in times):
        raise ValueError("its status has times that are none")
    if any(not 0 <= size < 2**63 for size in vars(status.peak).values() if size is not None):
        raise ValueError("its status has peaks that are no sizes")
    for path, schema in ((folder.samples, SAMPLES), (folder.events, EVENTS)):
        read_table(path, schema).validate(full=True)  # indices beyond a dictionary crash whoever trusts them
    columns = columns_of(folder)
    if columns is None or any(not isinstance(columns[name], str) for name in ("model", "device", "label", "title")):
        raise ValueError("its spec and status give no row of a list")
    progress(folder)
    trace = read_trace(folder)
    write_csv([trace], io.StringIO())
    timeline([trace], [*trace.series])
    peaks_table([trace])
    evidence = read_evidence(folder, trace)
    explained([evidence], [breakdown(evidence)])
    pool_history(evidence)


def _rename(folder: RunFolder, run_id: str, experiment_id: str) -> None:
    document, status = read_json(folder.spec), read_status(folder)
    assert document is not None and status is not None, "checked before"  # one reason for both
    write_json(folder.spec, {**document, "run_id": run_id, "experiment_id": experiment_id})
    write_status(folder, type(status)(**{**vars(status), "run_id": run_id, "experiment_id": experiment_id}))
