"""The tables of the SQLite index, and opening it. The index only repeats what the run folders say."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    text,
)
from sqlalchemy.pool import NullPool

from core.spec.errors import DataFolderError

logger = logging.getLogger(__name__)

INDEX_VERSION = 1

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "lustre", "gpfs", "beegfs", "ceph"})
"""File systems on which SQLite's write-ahead log does not work: it needs memory that all its users share."""

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("experiment_id", String, index=True, nullable=False),
    Column("position", Integer, nullable=False),
    Column("state", String, index=True, nullable=False),
    Column("submitted_at", Float, index=True, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("seconds", Float),
    Column("model", String, nullable=False),
    Column("device", String, nullable=False),
    Column("device_name", String),
    Column("batch_size", Integer),
    Column("prompt_tokens", Integer),
    Column("new_tokens", Integer),
    Column("label", String, nullable=False),
    Column("title", String, nullable=False),
    Column("note", String, nullable=False),
    Column("peak_allocated", BigInteger),
    Column("peak_reserved", BigInteger),
    Column("peak_process_used", BigInteger),
    Column("peak_device_used", BigInteger),
    Column("peak_host_rss", BigInteger),
    Column("error_kind", String),
    Column("error_message", String),
)

experiments = Table(
    "experiments",
    metadata,
    Column("experiment_id", String, primary_key=True),
    Column("title", String, nullable=False),
    Column("note", String, nullable=False),
    Column("created_at", Float, index=True, nullable=False),
)


def open_index(path: Path) -> tuple[Engine, bool]:
    """An engine on the index at `path`, and whether it was made just now (and so has to be filled).

    A file that is no database is set aside as `index.sqlite.broken`, one of an older version as `index.sqlite.v<n>`,
    and made anew: nothing is lost, the run folders have it all. Call with `index_lock` held where it may be made.
    Raises DataFolderError, and changes nothing, for one of a newer version.
    """
    version = version_of(path)
    if version == INDEX_VERSION:
        return _engine(path), False
    if version is not None and version > INDEX_VERSION:
        raise DataFolderError(
            f"the index {path} was written by a newer VRAMscope (version {version}; this one knows {INDEX_VERSION}); "
            f"use that one, or set {path.name} aside: it is built again from the runs"
        )
    if path.exists() and path.stat().st_size:
        set_aside(path, "broken" if version is None else f"v{version}")
    engine = _engine(path)
    with engine.begin() as connection:
        metadata.create_all(connection)
    return engine, True


def mark_complete(engine: Engine) -> None:
    """Say of a new index that it has been filled: until then whoever opens it waits for the lock."""
    with engine.begin() as connection:
        connection.execute(text(f"PRAGMA user_version={INDEX_VERSION}"))


def index_lock(path: Path) -> FileLock:
    """One process at a time makes the index and fills it; whoever has it may take it again."""
    return FileLock(path.with_name("index.lock"), is_singleton=True)


def version_of(path: Path) -> int | None:
    """The version of the index at `path`, looked at without writing; None where there is none, or it is no index."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=20)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError:
        return None
    return int(version) if {"runs", "experiments"} <= tables or version > INDEX_VERSION else None


def set_aside(path: Path, how: str) -> Path:
    """Rename the index to `index.sqlite.<how>`, with what its log still holds; returns where it is now."""
    target = path.with_name(f"{path.name}.{how}")
    for suffix in ("-wal", "-shm"):
        log = path.with_name(path.name + suffix)
        if log.exists():
            log.replace(target.with_name(target.name + suffix))
    path.replace(target)
    logger.warning("the index was set aside as %s and is built again", target.name)
    return target


def on_network(path: Path) -> bool:
    """Whether `path` lies on a network file system, by the mount that holds it."""
    mounts = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    for folder in (path.absolute(), *path.absolute().parents):
        if str(folder) in mounts:
            return mounts[str(folder)].lower() in NETWORK
    return False


def _engine(path: Path) -> Engine:
    journal = "DELETE" if on_network(path.parent) else "WAL"
    # NullPool: Streamlit runs pages on short-lived threads, and a pooled connection would outlive them
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": 20})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.execute(f"PRAGMA journal_mode={journal}")  # where WAL is refused, the mode stays what it was
        connection.execute(f"PRAGMA synchronous={'NORMAL' if journal == 'WAL' else 'FULL'}")

    return engine
