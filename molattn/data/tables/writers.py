"""Tables written a chunk of rows at a time: the columns of a stream, and new ones behind them."""

import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from molattn.data.tables.atom_lists import format_list
from molattn.data.tables.csv_text import csv_line, escape_formula
from molattn.data.tables.readers import infer_format, is_spreadsheet
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.errors import UsageError

_GROUP = 16  # chunks in a row group of Parquet
_LINES = 64  # of a text that are written at once

Column = Sequence[str | float | Sequence[str] | Sequence[float] | None]


@dataclass(frozen=True)
class NewColumn:
    """A column that is added to a table."""

    name: str
    kind: str = "string"
    """"string"; "float64" or "float32", for numbers; "list<string>" or "list<float64>". None stands where there is no
    value."""


@runtime_checkable
class TableWriter(Protocol):
    """Takes rows, and writes them to a file that it was given."""

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        """Write some rows: those of the chunk, with the n values of each new column."""
        ...

    def close(self) -> None:
        """Write what is still held back; the file itself stays open."""
        ...


@runtime_checkable
class TableFormat(Protocol):
    """A form of table."""

    suffix: str
    """What the names of its parts end with."""

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole table into an open, binary file."""
        ...

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several tables, in order, as one into an open, binary file."""
        ...


def output_format(
    path: Path | None, stream: RowStream, added: Sequence[NewColumn], escape_formulas: bool = False
) -> TableFormat:
    """The form of table that the name of a file asks for; CSV for None.

    Args:
        path, stream, added: the file, and what stands in it.
        escape_formulas: whether an apostrophe goes before each cell of a text that a spreadsheet takes for a formula.

    Raises UsageError for a name that asks for what is not written.
    """
    name = "" if path is None else path.name
    form = infer_format(name)
    if form in ("smi", "sdf") or is_spreadsheet(name) or name.lower().endswith((".npy.gz", ".parquet.gz", ".pq.gz")):
        raise UsageError(f"{name}: molattn writes .csv and .tsv, with .gz or without, and .parquet; name it so")
    if form == "parquet":
        if escape_formulas:
            raise UsageError(f"{name}: Parquet holds no formulas: --escape-formulas goes with .csv and .tsv")
        return ParquetFormat(stream, added)
    return TextFormat(stream.columns, added, "\t" if form == "tsv" else ",", escape_formulas)


@contextmanager
def open_compressed(path: Path, file: Any) -> Iterator[Any]:
    """A file to write to that ends up in `file`, as a gzip where the name of `path` ends in `.gz`."""
    if path.suffix.lower() != ".gz":
        yield file
        return
    # Without a time and a name in it: the same rows are the same bytes.
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as inner:
        yield inner


class TextFormat:
    """CSV, or TSV: UTF-8, lines end with LF; on request with no cell that a spreadsheet takes for a formula."""

    suffix = ".csv"

    def __init__(
        self,
        columns: Sequence[str],
        added: Sequence[NewColumn],
        delimiter: str = ",",
        escape_formulas: bool = False,
    ):
        self.delimiter, self.escape_formulas = delimiter, escape_formulas
        self.header = self.line([*columns, *(a.name for a in added)])

    def line(self, cells: Sequence[str]) -> str:
        """One row of the table."""
        return csv_line([*map(escape_formula, cells)] if self.escape_formulas else cells, self.delimiter)

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole table into an open, binary file."""
        return _TextWriter(self, lambda text: file.write(text.encode()))

    def text_writer(self, write: Callable[[str], object]) -> TableWriter:
        """A writer of a whole table to whatever takes text."""
        return _TextWriter(self, write)

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several tables, in order, as one into an open, binary file."""
        header = self.header.encode()
        file.write(header)
        for part in parts:
            with open(part, "rb") as rows:
                rows.seek(len(header))
                while block := rows.read(2**20):
                    file.write(block)


class _TextWriter:
    def __init__(self, output: TextFormat, write: Callable[[str], object]):
        self.line, self.put = output.line, write
        write(output.header)

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        texts = [[v if isinstance(v, str) else _text(v) for v in column] for column in added]
        rows = zip(chunk.rows(), zip(*texts, strict=True), strict=True)
        # A few at a time: all rows of a chunk with long cells, once more as text, would be too much.
        while some := "".join(self.line([*row, *new]) for row, new in islice(rows, _LINES)):
            self.put(some)

    def close(self) -> None:
        pass


class ParquetFormat:
    """Parquet, with the types of the input where it has some, and text otherwise."""

    suffix = ".parquet"

    def __init__(self, stream: RowStream, added: Sequence[NewColumn]):
        import pyarrow as pa

        types = {"string": pa.string(), "float64": pa.float64(), "float32": pa.float32()}
        types |= {f"list<{kind}>": pa.list_(types[kind]) for kind in ("string", "float64")}
        old = [pa.field(name, pa.string()) for name in stream.columns] if stream.schema is None else [*stream.schema]
        # Without the metadata of the whole: what pandas notes there tells of other rows and columns.
        self.schema = pa.schema([*old, *(pa.field(a.name, types[a.kind]) for a in added)])

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole table into an open, binary file."""
        return _ParquetWriter(self.schema, file)

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several tables, in order, as one into an open, binary file."""
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, self.schema) as writer:
            for part in parts:
                with pq.ParquetFile(part, memory_map=False) as rows:
                    for group in range(rows.num_row_groups):
                        writer.write_table(rows.read_row_group(group, use_threads=False))


class _ParquetWriter:
    def __init__(self, schema: Any, file: Any):
        import pyarrow.parquet as pq

        self.schema, self.inner, self.waiting = schema, pq.ParquetWriter(file, schema), []

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        import pyarrow as pa

        typed = chunk.frame is not None
        old = chunk.frame.columns if typed else [list(cells) for cells in zip(*chunk.rows(), strict=True)]
        self.waiting.append(pa.table([*old, *added], schema=self.schema))
        if len(self.waiting) == _GROUP:
            self._flush()

    def close(self) -> None:
        if self.waiting:
            self._flush()
        self.inner.close()

    def _flush(self) -> None:
        import pyarrow as pa

        self.inner.write_table(pa.concat_tables(self.waiting).combine_chunks())
        self.waiting = []


class NpyFormat:
    """The new columns alone, all of them numbers, as one float32 matrix for `numpy.load`; NaN where there is none."""

    suffix = ".npy"

    def __init__(self, added: Sequence[NewColumn]):
        self.width = len(added)

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole matrix into an open, binary file."""
        return _NpyWriter(self.width, file)

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several matrices, in order, as one into an open, binary file."""
        maps = [np.load(part, mmap_mode="r") for part in parts]
        file.write(_npy_header(sum(map(len, maps)), self.width))
        for rows in maps:
            file.write(rows.tobytes())


class _NpyWriter:
    def __init__(self, width: int, file: Any):
        self.width, self.file, self.count = width, file, 0
        file.write(_npy_header(0, width))

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        self.count += len(chunk)
        values = [[np.nan if v is None else v for v in column] for column in added]
        self.file.write(np.array(values, dtype="<f4").T.tobytes())

    def close(self) -> None:
        # The header has room for any number of rows: it keeps its length.
        self.file.seek(0)
        self.file.write(_npy_header(self.count, self.width))
        self.file.seek(0, io.SEEK_END)


def digits(value: float | None) -> str:
    """Seven significant digits: all that float32 arithmetic can mean; nothing for None."""
    return "" if value is None else f"{value:.7g}"


def _text(value: float | Sequence[str] | Sequence[float] | None) -> str:
    """A number or a list of them as a cell holds it."""
    if value is None or isinstance(value, int | float):
        return digits(value)
    return format_list([item if isinstance(item, str) else digits(item) for item in value])


def _npy_header(rows: int, width: int) -> bytes:
    header = io.BytesIO()
    description = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()
