"""Traces as a Parquet file, with the columns of the CSV."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from core.export.rows import column_chunks
from core.trace.trace import Trace

SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("t_s", pa.float64()),
        ("step", pa.float64()),
        ("phase", pa.string()),
        ("source", pa.string()),
        ("metric", pa.string()),
        ("value_bytes", pa.int64()),
    ]
)


def write_parquet(traces: Iterable[Trace], stream: BinaryIO) -> int:
    """Write every point of every series; returns the number of rows. A figure not available is null."""
    count = 0
    with pq.ParquetWriter(stream, SCHEMA, compression="zstd") as writer:
        for columns in column_chunks(traces):
            writer.write_table(pa.Table.from_pydict(columns, SCHEMA))
            count += len(columns["t_s"])
    return count
