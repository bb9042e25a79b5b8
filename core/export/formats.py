"""Every format in which runs can be taken away, behind one call."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.explain.evidence import read_evidence
from core.export.archive import write_archive
from core.export.csv import write_csv
from core.export.html import html_report
from core.export.markdown import report
from core.export.memory_viz import write_memory_viz
from core.export.parquet import write_parquet
from core.export.perfetto import write_perfetto
from core.export.script import script_of
from core.plots.tables import title_of
from core.runfolder.layout import RunFolder
from core.spec.errors import InvalidSpec
from core.trace.read import read_trace


@dataclass(frozen=True)
class Format:
    """`single`: it holds one run. `make` raises InvalidSpec for runs that it cannot hold."""

    name: str
    label: str
    suffix: str
    mime: str
    make: Callable[[Sequence[RunFolder]], bytes]
    single: bool = False


def _csv(folders: Sequence[RunFolder]) -> bytes:
    stream = io.StringIO()
    write_csv((read_trace(folder) for folder in folders), stream)
    return stream.getvalue().encode()


def _parquet(folders: Sequence[RunFolder]) -> bytes:
    stream = io.BytesIO()
    write_parquet((read_trace(folder) for folder in folders), stream)
    return stream.getvalue()


def _perfetto(folders: Sequence[RunFolder]) -> bytes:
    stream = io.StringIO()
    write_perfetto((read_trace(folder) for folder in folders), stream)
    return stream.getvalue().encode()


def _memory_viz(folders: Sequence[RunFolder]) -> bytes:
    stream = io.BytesIO()
    write_memory_viz(read_evidence(folders[0]), stream)
    return stream.getvalue()


def _archive(folders: Sequence[RunFolder]) -> bytes:
    stream = io.BytesIO()
    write_archive(folders, title_of([read_trace(folder) for folder in folders]), "", stream)
    return stream.getvalue()


FORMATS: Mapping[str, Format] = {
    one.name: one
    for one in (
        Format("csv", "CSV, tidy rows", "csv", "text/csv", _csv),
        Format("parquet", "Parquet, the same rows", "parquet", "application/vnd.apache.parquet", _parquet),
        Format(
            "html",
            "HTML report, one file",
            "html",
            "text/html",
            lambda folders: html_report([read_evidence(folder) for folder in folders]).encode(),
        ),
        Format(
            "markdown",
            "Markdown, for an issue",
            "md",
            "text/markdown",
            lambda folders: report([read_evidence(folder) for folder in folders]).encode(),
        ),
        Format("perfetto", "Perfetto counters", "json", "application/json", _perfetto),
        Format("archive", "Archive, to import elsewhere", "vramscope.zip", "application/zip", _archive),
        Format(
            "script",
            "Script that repeats the run",
            "py",
            "text/x-python",
            lambda folders: script_of(folders[0]).encode(),
            single=True,
        ),
        Format(
            "memory_viz",
            "Snapshot for pytorch.org/memory_viz",
            "pickle",
            "application/octet-stream",
            _memory_viz,
            single=True,
        ),
    )
}


def exported(name: str, folders: Sequence[RunFolder]) -> bytes:
    """The file of format `name`, one of FORMATS. Raises InvalidSpec for several runs where it holds one."""
    if FORMATS[name].single and len(folders) != 1:
        raise InvalidSpec(f"format {name} holds one run, and {len(folders)} were named; export them one by one")
    return FORMATS[name].make(folders)


def file_name(name: str, run_ids: Sequence[str]) -> str:
    """`vramscope-k3f9qz-1-k3f9qz-2.csv`."""
    return f"vramscope-{'-'.join(run_ids)[:80]}.{FORMATS[name].suffix}"
