"""Rows of Parquet files and data frames, which have types, and their conversion to text."""

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from molattn.cache import cache_folder
from molattn.chem import is_mol, smiles_from_mol
from molattn.data.files import write_bytes
from molattn.data.tables.columns import name_columns, validate_column_names
from molattn.data.tables.header import describe_unnamed
from molattn.data.tables.options import Warn, ignore_warning
from molattn.data.tables.row_stream import CELL_BYTES, CHUNK_SIZE, MAX_CHUNK_BYTES, Chunk, RowStream, chunk_too_large
from molattn.errors import InputError, SmilesError, UsageError, warn_caller

_ARROW_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Errors of the conversion to Arrow: of values of several types, or of two columns of one name."""

MIN_ARROW_MEMORY, ARROW_MEMORY_PER_BYTE = 2**29, 4
"""Arrow may use `MIN_ARROW_MEMORY` bytes for a chunk of Parquet rows, or `ARROW_MEMORY_PER_BYTE` times the size of the
file if that is more: a page of every column is in memory at once. See `parquet_check`."""


@contextmanager
def parquet_stream(path: str | Path, source: str, warn: Warn = ignore_warning) -> Iterator[RowStream]:
    """The rows of a Parquet file; `warn` is called if columns have no name.

    Raises InputError for a file that is not Parquet or is damaged, and for rows that need too much memory.
    """
    count_parquet_rows(path, source)
    try:
        # Not memory-mapped: the mapped file would count as memory of the process.
        file = pq.ParquetFile(path, memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source} cannot be read as Parquet ({_first_line(error)}): copy it again") from error
    with file:
        yield _stream(file.schema_arrow, _batches(file, source), source, warn)


def count_parquet_rows(path: str | Path, source: str) -> int:
    """The number of rows of a Parquet file; a separate process reads the whole file: see `parquet_check`.

    Raises InputError as `parquet_stream`.
    """
    stat = os.stat(path)
    return _count_rows(source, os.path.realpath(path), stat.st_size, stat.st_ino, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _count_rows(source: str, path: str, size: int, *_: int) -> int:
    """The number of rows by `parquet_check`; size, inode and modification time are part of the key of `lru_cache`."""
    limit = max(MIN_ARROW_MEMORY, ARROW_MEMORY_PER_BYTE * size)
    result = _run_check(path, limit)
    num_rows = result["rows"]
    rows = f"rows {num_rows} to {num_rows + CHUNK_SIZE - 1}"
    if result.get("too_large"):
        raise chunk_too_large(source, rows)
    if result.get("out_of_memory"):
        raise InputError(
            f"{source}: {rows} take over {limit >> 20:,} MiB to unpack, far more than the file: leave out columns that "
            "are not needed, or write it with smaller pages"
        )
    if "error" in result:
        problem = f"is damaged after row {num_rows}" if "opened" in result else "cannot be read as Parquet"
        raise InputError(f"{source} {problem} ({result['error']}): copy it again")
    return num_rows


def _run_check(path: str, limit: int) -> dict[str, Any]:
    """The result of `parquet_check`, in a process that may allocate `limit` bytes."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("parquet_check.py")), path]
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "ARROW_DEFAULT_MEMORY_POOL": "system"}
    environment = {**os.environ, **variables, "OMP_NUM_THREADS": "1"}
    numbers = [str(n) for n in (CHUNK_SIZE, MAX_CHUNK_BYTES, CELL_BYTES, limit)]
    process = subprocess.run([*command, *numbers], env=environment, capture_output=True, stdin=subprocess.DEVNULL)
    try:
        return json.loads(process.stdout)
    except ValueError:
        # The process crashed: its exit code is negative on POSIX, and on Windows it wrote no message.
        message = "" if process.returncode < 0 else process.stderr.decode(errors="replace").strip()
        return {"rows": 0, "error": message.split("\n")[-1].strip() or "the process that read it crashed"}


def frame_stream(frame: Any, warn: Warn = ignore_warning) -> RowStream:
    """The rows of a data frame of pandas, polars or pyarrow, without its index.

    `warn` is called if columns have no name.

    Raises UsageError for anything else, InputError for two columns of one name.
    """
    table = to_arrow_table(frame)
    return _stream(table.schema, iter(table.to_batches()), "the frame", warn)


def is_data_frame(value: object) -> bool:
    """Whether an object is a data frame: one that exports Arrow's C stream."""
    return hasattr(value, "__arrow_c_stream__")


def to_arrow_table(frame: Any) -> pa.Table:
    """A pandas or polars frame, or anything else that exports Arrow's C stream, as an Arrow table without an index.

    A column of pandas with values of several types, such as 1.5 and ">10", is one of text.

    Raises UsageError for anything else, InputError for two columns of one name.
    """
    if not is_data_frame(frame):
        raise UsageError(
            f"a table is a path or a data frame (pandas, polars, pyarrow), not of type {type(frame).__name__}"
        )
    if hasattr(frame, "reset_index"):
        frame = frame.reset_index(drop=True)  # pandas would export the index as a column
    try:
        try:
            return pa.table(frame)
        except _ARROW_ERRORS:
            return pa.table(_mixed_as_text(frame))
    except _ARROW_ERRORS as error:
        raise InputError(f"the frame cannot be converted to an Arrow table: {error}") from error


def _mixed_as_text(frame: Any) -> Any:
    """A frame whose columns of mixed types are text, if it is one of pandas."""
    if not hasattr(frame, "isetitem"):
        return frame
    frame = frame.copy(deep=False)
    for i, kind in enumerate(frame.dtypes):
        if str(kind) != "object":
            continue
        values = frame.iloc[:, i].tolist()
        try:
            pa.array(values, from_pandas=True)
        except _ARROW_ERRORS:
            frame.isetitem(i, _texts(values))
    return frame


def _texts(values: Sequence[object]) -> list[str | None]:
    """Values of several types as text, those of each type as `column_text` writes them; None for a missing value."""
    rows_by_type: dict[type, list[int]] = {}
    for row, value in enumerate(values):
        rows_by_type.setdefault(type(value), []).append(row)
    texts: list[str | None] = [None] * len(values)
    for rows in rows_by_type.values():
        part = [values[row] for row in rows]
        try:
            column = pa.array(part, from_pandas=True)
            found = column_text(pa.chunked_array([column]))
            missing = column.is_null().to_pylist()
        except _ARROW_ERRORS:
            found, missing = list(map(_text, part)), [False] * len(part)
        for row, text, is_missing in zip(rows, found, missing, strict=True):
            texts[row] = None if is_missing else text
    return texts


def _text(value: object) -> str:
    """A Python object as text; an RDKit molecule as its SMILES, in the order of its atoms if there is one.

    Raises:
        InputError: a molecule that RDKit cannot write.
    """
    if not is_mol(value):
        return str(value)
    try:
        smiles, in_order = smiles_from_mol(value)
    except SmilesError as error:
        raise InputError(f"the frame has an RDKit molecule without a SMILES: {error.reason}") from error
    if not in_order:
        warn_caller(
            f"an RDKit molecule of the frame is read as {smiles!r}, whose atoms are in another order: values of atoms "
            "belong to those of the SMILES"
        )
    return smiles


def cache_frame(frame: Any) -> Path:
    """Write a data frame to a Parquet file in the user's cache; `read_table` gives the same table for both.

    Equal frames have the same path.
    """
    buffer = io.BytesIO()
    pq.write_table(to_arrow_table(frame), buffer)
    data = buffer.getvalue()
    folder = cache_folder() / "frames" / hashlib.sha256(data).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "frame.parquet", data)
    return folder / "frame.parquet"


def table_text(frame: pa.Table) -> list[list[str]]:
    """The rows of an Arrow table as text: see `column_text`."""
    columns = [column_text(column) for column in frame.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(frame.num_rows)]


def column_text(column: pa.ChunkedArray) -> list[str]:
    """The values of a column as text: a missing value or NaN is empty, true is 1, false is 0, nested values are JSON.

    A number has the digits of its own precision: float32 0.1 is 0.1, not 0.10000000149011612.
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


def _stream(schema: pa.Schema, batches: Iterator[pa.RecordBatch], source: str, warn: Warn) -> RowStream:
    source_columns = tuple(schema.names)
    columns = validate_column_names(source, name_columns(source_columns))
    if columns != source_columns:
        warn(describe_unnamed(source, columns, source_columns))
    chunks = _chunks(schema, batches)
    return RowStream(source, columns, chunks, "row", schema=schema, source_columns=source_columns)


def _batches(file: pq.ParquetFile, source: str) -> Iterator[pa.RecordBatch]:
    """The record batches of a Parquet file. Raises InputError if it is damaged."""
    num_rows = 0
    try:
        for batch in file.iter_batches(CHUNK_SIZE, use_threads=False):
            yield batch
            num_rows += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source} is damaged after row {num_rows} ({_first_line(error)}): copy it again") from error


def _chunks(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
    """The rows in chunks of `CHUNK_SIZE`; batches are shorter at the end of a row group of a Parquet file."""
    start = 0
    pending = pa.Table.from_batches([], schema)
    for batch in batches:
        pending = pa.concat_tables([pending, pa.Table.from_batches([batch], schema)])
        while pending.num_rows >= CHUNK_SIZE:
            yield _chunk(start, pending.slice(0, CHUNK_SIZE))
            start, pending = start + CHUNK_SIZE, pending.slice(CHUNK_SIZE)
    if pending.num_rows:
        yield _chunk(start, pending)


def _chunk(start: int, rows: pa.Table) -> Chunk:
    return Chunk(start, range(start, start + rows.num_rows), arrow_table=rows)


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".")
