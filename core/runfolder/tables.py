"""Schemas of the Arrow tables in a run folder, and streams of them that may be cut off at any byte.

Bytes are int64, times are CLOCK_MONOTONIC nanoseconds. A figure that was not available is null, never 0.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.runfolder.layout import SCHEMA_VERSION

_METADATA = {b"schema_version": str(SCHEMA_VERSION).encode()}

SAMPLES = pa.schema(
    [
        ("t_ns", pa.int64()),
        ("device_used", pa.int64()),  # the whole card by NVML; on the CPU device, memory in use on the machine
        ("process_used", pa.int64()),  # this run's processes; on the CPU device, their resident memory
        ("other_processes_used", pa.int64()),
        ("host_rss", pa.int64()),  # resident memory of the worker's process tree
    ],
    metadata=_METADATA,
)

EVENTS = pa.schema(
    [
        ("t_ns", pa.int64()),
        ("step", pa.float64()),  # position on the progress axis, fractional within a forward pass
        # alloc, free, segment_alloc, segment_free, segment_map, segment_unmap, oom
        ("action", pa.dictionary(pa.int8(), pa.string())),
        ("addr", pa.uint64()),
        ("size", pa.int64()),  # requested bytes for blocks, whole bytes for segments
        ("stream", pa.uint64()),
        ("category", pa.dictionary(pa.int16(), pa.string())),
        ("origin", pa.dictionary(pa.int32(), pa.string())),  # op and frame, where stacks were recorded
        ("module", pa.dictionary(pa.int32(), pa.string())),  # innermost module at work, where marks were recorded
    ],
    metadata=_METADATA,
)


class TableWriter:
    """Writes record batches to an Arrow IPC stream, each one readable as soon as it is written."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str | None = None) -> None:
        """`compression` (`zstd`) is for what is sent or kept, not for what is being recorded."""
        self._file = path.open("wb")
        self._stream = pa.ipc.new_stream(self._file, schema, options=pa.ipc.IpcWriteOptions(compression=compression))
        self._schema = schema

    def write(self, columns: dict[str, list[Any]]) -> None:
        """Write one batch; `columns` holds equally long lists, one for each field of the schema."""
        self._stream.write_batch(pa.RecordBatch.from_pydict(columns, schema=self._schema))
        self._file.flush()

    def write_table(self, table: pa.Table) -> None:
        """Write a whole table, cast to the schema, in batches of at most 65,536 rows."""
        self._stream.write_table(table.cast(self._schema), max_chunksize=65_536)
        self._file.flush()

    def close(self) -> None:
        self._stream.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self.close()
            return
        try:
            self._file.close()  # no end mark: the disk refused something, or the writer was interrupted
        except OSError:
            pass  # the same refusal again


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Every whole batch of the stream; none when the file is missing, empty or not such a stream.

    A stream without its end mark is what a running or killed writer leaves, and reads up to its last whole batch.
    """
    batches: list[pa.RecordBatch] = []
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
            if reader.schema.names != schema.names:
                return schema.empty_table()
            while True:
                batches.append(reader.read_next_batch())
    except StopIteration:
        pass
    except (OSError, pa.ArrowInvalid, pa.ArrowTypeError):
        pass  # the cut: whole batches before it stand
    return pa.Table.from_batches(batches, schema) if batches else schema.empty_table()


def codes_of(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """A column of names as numbers, -1 for null, and the names: a million strings take a second to compare."""
    array = column.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # which of the two it is depends on the version of pyarrow
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    codes = pc.fill_null(array.indices.cast(pa.int32()), -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return codes, tuple(str(name) for name in array.dictionary.to_pylist())


def rows_named(column: pa.ChunkedArray, wanted: Collection[str]) -> NDArray[np.bool_]:
    """For each row whether its name is one of those wanted."""
    codes, names = codes_of(column)
    is_wanted = np.asarray([*(name in wanted for name in names), False])  # the last is what -1 finds
    rows: NDArray[np.bool_] = is_wanted[codes]
    return rows
