"""Rows with types: Parquet files and data frames, as text where text is wanted."""

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from molattn.data.datasets.folders import cache_dir
from molattn.data.files import write_bytes
from molattn.data.tables.columns import validate_column_names
from molattn.data.tables.row_stream import CELL_BYTES, CHUNK_SIZE, MAX_CHUNK_BYTES, Chunk, RowStream, chunk_too_large
from molattn.errors import InputError, UsageError

CHECKED = 2**29
"""Bytes that Arrow may take for some rows of a Parquet file, or as many times its size as `TIMES` says, whichever is
more: it holds a page of every column at once. See `parquet_check`."""
TIMES = 4


@contextmanager
def parquet_stream(path: str | Path, source: str) -> Iterator[RowStream]:
    """The rows of a Parquet file.

    Raises InputError for a file that is not Parquet or is damaged, and one with rows that fill the memory.
    """
    parquet_rows(path, source)
    try:
        # Not memory-mapped: what is read of the file would count as memory of the process.
        file = pq.ParquetFile(path, memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source} cannot be read as Parquet ({_first_line(error)}): copy it again") from error
    with file:
        yield _stream(file.schema_arrow, _batches(file, source), source)


def parquet_rows(path: str | Path, source: str) -> int:
    """How many rows a Parquet file has, after all of it was read by a process of its own: see `parquet_check`.

    Raises InputError as `parquet_stream`.
    """
    found = os.stat(path)
    return _checked(source, os.path.realpath(path), found.st_size, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=256)
def _checked(source: str, path: str, size: int, *_: int) -> int:
    """The rows that `parquet_check` counts; the numbers tell one state of a file from another."""
    limit = max(CHECKED, TIMES * size)
    said = _said(path, limit)
    rows = f"rows {said['rows']} to {said['rows'] + CHUNK_SIZE - 1}"
    after = f"is damaged after row {said['rows']}" if "open" in said else "cannot be read as Parquet"
    if said.get("heavy"):
        raise chunk_too_large(source, rows)
    if said.get("unpacks"):
        raise InputError(
            f"{source}: {rows} take over {limit >> 20:,} MiB to unpack, far more than the file: leave out columns that "
            "are not needed, or write it with smaller pages"
        )
    if "damaged" in said:
        raise InputError(f"{source} {after} ({said['damaged']}): copy it again")
    return said["rows"]


def _said(path: str, limit: int) -> dict[str, Any]:
    command = [sys.executable, "-P", str(Path(__file__).with_name("parquet_check.py")), path]
    known = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "ARROW_DEFAULT_MEMORY_POOL": "system"}
    environment = {**os.environ, **known, "OMP_NUM_THREADS": "1"}
    numbers = [str(n) for n in (CHUNK_SIZE, MAX_CHUNK_BYTES, CELL_BYTES, limit)]
    done = subprocess.run([*command, *numbers], env=environment, capture_output=True, stdin=subprocess.DEVNULL)
    try:
        return json.loads(done.stdout)
    except ValueError:
        ended = "the process that read it died" if done.returncode < 0 else done.stderr.decode(errors="replace")
        return {"rows": 0, "damaged": ended.strip().split("\n")[-1]}


def frame_stream(frame: Any) -> RowStream:
    """The rows of a data frame of pandas, polars or pyarrow; no index is a column.

    Raises UsageError for anything else, InputError for a column that mixes kinds of values.
    """
    whole = to_arrow_table(frame)
    return _stream(whole.schema, iter(whole.to_batches()), "the frame")


def is_data_frame(thing: object) -> bool:
    """Whether something is a data frame: it speaks Arrow's protocol."""
    return hasattr(thing, "__arrow_c_stream__")


def to_arrow_table(frame: Any) -> pa.Table:
    """A pandas or polars frame, or anything else that speaks Arrow's protocol, as Arrow's table; no index is kept.

    Raises UsageError for anything else, InputError for a column that mixes kinds of values.
    """
    if not is_data_frame(frame):
        raise UsageError(
            f"a table is a path or a data frame (pandas, polars, pyarrow), not of type {type(frame).__name__}"
        )
    if hasattr(frame, "reset_index"):
        frame = frame.reset_index(drop=True)  # pandas would make a column of an index
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the frame has a column that Arrow cannot take: {error}") from error


def cache_frame(frame: Any) -> Path:
    """A data frame as a Parquet file in the user's cache, which `read_table` reads as it reads the frame.

    The same frame has the same file.
    """
    whole = io.BytesIO()
    pq.write_table(to_arrow_table(frame), whole)
    data = whole.getvalue()
    folder = cache_dir().with_name("frames") / hashlib.sha256(data).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "frame.parquet", data)
    return folder / "frame.parquet"


def table_text(frame: pa.Table) -> list[list[str]]:
    """The rows as text: see `column_text`."""
    columns = [column_text(column) for column in frame.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(frame.num_rows)]


def column_text(column: pa.ChunkedArray) -> list[str]:
    """A column as text: a missing value or NaN is empty, true is 1 and false 0, lists and the like are JSON.

    A number has the digits of its own precision: a float32 of 0.1 is not 0.10000000149011612.
    """
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    try:
        values = pc.cast(column, pa.string()).to_pylist()
    except pa.ArrowException:
        values = [v if v is None or isinstance(v, bytes) else _json(v) for v in column.to_pylist()]
    missing = (None, "nan") if pa.types.is_floating(column.type) else (None,)
    return ["" if v in missing else str(v) for v in values]


def _json(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _stream(schema: pa.Schema, batches: Iterator[pa.RecordBatch], source: str) -> RowStream:
    columns = validate_column_names(source, schema.names)
    return RowStream(source, columns, _chunks(schema, batches), "row", schema=schema)


def _batches(file: pq.ParquetFile, source: str) -> Iterator[pa.RecordBatch]:
    done = 0
    try:
        for batch in file.iter_batches(CHUNK_SIZE, use_threads=False):
            yield batch
            done += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source} is damaged after row {done} ({_first_line(error)}): copy it again") from error


def _chunks(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
    """The rows cut anew: the batches of a Parquet file end where its row groups do."""
    start = 0
    waiting = pa.Table.from_batches([], schema)
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch], schema)])
        while waiting.num_rows >= CHUNK_SIZE:
            yield _chunk(start, waiting.slice(0, CHUNK_SIZE))
            start, waiting = start + CHUNK_SIZE, waiting.slice(CHUNK_SIZE)
    if waiting.num_rows:
        yield _chunk(start, waiting)


def _chunk(start: int, rows: pa.Table) -> Chunk:
    return Chunk(start, range(start, start + rows.num_rows), frame=rows)


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".")
