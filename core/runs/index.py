"""The tables of the SQLite index, and opening it. The index only repeats what the run folders say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    inspect,
    text,
)
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

INDEX_VERSION = 1

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

    A file that is no database, or one of another version, is set aside as `index.sqlite.broken` and made anew: nothing
    is lost, the run folders have it all.
    """
    fresh = not path.exists()
    engine = _engine(path)
    try:
        if fresh or not _usable(engine):
            fresh = True
            _create(engine)
    except DatabaseError:
        engine.dispose()
        path.replace(path.with_suffix(".sqlite.broken"))
        for leftover in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            leftover.unlink(missing_ok=True)
        engine, fresh = _engine(path), True
        _create(engine)
    return engine, fresh


def _engine(path: Path) -> Engine:
    # NullPool: Streamlit runs pages on short-lived threads, and a pooled connection would outlive them
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": 20})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def _usable(engine: Engine) -> bool:
    with engine.connect() as connection:
        version = connection.execute(text("PRAGMA user_version")).scalar_one()
    return version == INDEX_VERSION and inspect(engine).has_table("runs") and inspect(engine).has_table("experiments")


def _create(engine: Engine) -> None:
    with engine.begin() as connection:
        metadata.drop_all(connection)
        metadata.create_all(connection)
        connection.execute(text(f"PRAGMA user_version={INDEX_VERSION}"))
