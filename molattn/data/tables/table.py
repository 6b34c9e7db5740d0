"""Whole tables of text: every cell as it stands in the file, and written atomically.

They are read by `molattn.data.tables.readers`. What the cells mean is read in `molattn.data.tables.records`.
"""

import gc
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from molattn.data import files
from molattn.data.tables.columns import find_column
from molattn.data.tables.csv_text import csv_line, csv_stream
from molattn.data.tables.readers import infer_delimiter, infer_format, open_stream
from molattn.data.tables.row_stream import RowStream, row_bytes
from molattn.data.tables.text_input import read_lines
from molattn.errors import InputError, UsageError

UNPACKED, TIMES = 2**29, 64
"""Bytes that the rows of a compressed file may take up in any case, and how many for each byte of the file."""


@runtime_checkable
class Writable(Protocol):
    """An open text file, as far as a table needs one."""

    def write(self, text: str, /) -> object:
        """Take some more text."""
        ...


@dataclass(frozen=True)
class Table:
    """A table of text, with the place in its source that each row has."""

    columns: tuple[str, ...]
    """The names in the header, c of them, as written."""
    rows: list[list[str]]
    """n rows of c cells each, as written."""
    source: str
    """The path the table was read from; errors begin with it."""
    lines: list[int]
    """n numbers of lines; the header is usually line 1. A quoted cell may span lines. Other numbers by `unit`."""
    unit: str = "line"
    """What `lines` counts: "line" or "record", from 1, or "row", from 0."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Why a row (from 0) has no SMILES, where the source holds its molecule in another form that cannot be read."""
    smiles_column: str | None = None
    """The column of molecules, where the format says which."""
    atoms: dict[int, Any] = field(default_factory=dict)
    """Which atoms of its record the SMILES of a row (from 0) has, a `MolblockAtomMap`, in a table that is an SDF."""
    decimal_commas: bool = False
    """Whether numbers may be written with a decimal comma: cells are parted by semicolons."""

    def place(self, row: int) -> str:
        """Where a row (from 0) stands in its source, in words: `line 5`."""
        return f"{self.unit} {self.lines[row]}"


def read_table(source: Any, *, number_repeats: bool = False) -> Table:
    """Read a whole table: a file that `open_stream` reads, or a data frame.

    The ending of the name decides what it is. A frame of pandas, polars or pyarrow is read as its Parquet file would
    be, which is as text: see `molattn.data.tables.arrow.column_text`.

    Args:
        source: the file's path, or the frame.
        number_repeats: whether a name that stands twice in the header of a text gets a number, `y` and `y.1`,
            instead of being refused.

    Raises InputError, with line and column, for a missing or empty file, a text that is not UTF-8, names in
    the header that are missing or stand twice, rows that are too short or too long, quotes that do not match, and
    a compressed file that unpacks to far more than it is.
    """
    with _opened(source, number_repeats) as stream:
        return _gathered(stream, _most(source))


def _most(source: Any) -> int | float:
    """Bytes that the rows of a source may take up; a file that unpacks to far more than it is was made to do so."""
    if isinstance(source, str | Path) and (infer_format(source) == "parquet" or Path(source).suffix.lower() == ".gz"):
        return max(UNPACKED, TIMES * os.path.getsize(source))
    return math.inf


def read_table_bytes(data: bytes, source: str, *, number_repeats: bool = False) -> Table:
    """The CSV table that `data`, the bytes of a file of the name `source`, holds; otherwise as `read_table`."""
    lines = read_lines(BytesIO(data), source)
    return _gathered(csv_stream(lines, source, infer_delimiter(source), number_repeats))


def read_columns(source: Any) -> tuple[tuple[str, ...], str | None]:
    """The names of a table's columns, and that of its molecules where the format says which; no row is read.

    Raises InputError as `read_table` does.
    """
    with _opened(source) as stream:
        return stream.columns, stream.smiles_column


def _opened(source: Any, number_repeats: bool = False) -> AbstractContextManager[RowStream]:
    if isinstance(source, str | Path):
        return open_stream(source, number_repeats=number_repeats, most=files.MAX_UNPACKED, places=True)
    from molattn.data.tables.arrow import frame_stream  # here, because it brings pyarrow

    return nullcontext(frame_stream(source))


def _gathered(stream: RowStream, most: int | float = math.inf) -> Table:
    rows: list[list[str]] = []
    size = 0
    places: list[int] = []
    unreadable: dict[int, str] = {}
    atoms: dict[int, Any] = {}
    with _no_cycles():
        for chunk in stream.chunks:
            unreadable |= {chunk.start + row: error.reason for row, error in chunk.refused.items()}
            atoms |= {chunk.start + row: of_row for row, of_row in chunk.atoms.items()}
            some = chunk.rows()
            if most < math.inf and (size := size + sum(map(row_bytes, some))) > most:
                raise InputError(
                    f"{stream.source} unpacks to over {size >> 20:,} MiB of rows, far more than it is: leave out "
                    "columns that are not needed, or give it unpacked as CSV"
                )
            rows += some
            places += chunk.places
    known = stream.smiles_column, atoms, stream.decimal_commas
    return Table(stream.columns, rows, stream.source, places, stream.place, unreadable, *known)


@contextmanager
def _no_cycles() -> Iterator[None]:
    """No looking for cycles in here: among the lists of a long table it takes half of the time, and finds none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def write_table(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table that `read_table` reads back equal: at `path` stands the old file or the whole new one.

    A `.tsv` or `.tab` file gets tabs, any other commas; UTF-8, lines end with LF. The text goes to a
    temporary file in the same folder, is synced to disk and then takes the place of `path`.

    Raises UsageError for a name that says another format, a missing folder, a path that is no ordinary file, or a
    row that is not as wide as the header.
    """
    path = Path(os.path.realpath(path))
    if infer_format(path) not in ("csv", "tsv") or path.suffix.lower() == ".gz":
        raise UsageError(f"{path}: tables are written as text: give a name that ends with .csv or .tsv")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}: create it first")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not an ordinary file: give another path")
    with files.atomic_write(path, "w", encoding="utf-8", newline="") as file:
        write_rows(file, columns, rows, infer_delimiter(path) or ",")


def write_rows(file: Writable, columns: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ",") -> None:
    """Write a header and rows to an open file, each cell quoted where it must be.

    Raises UsageError for a row that is not as wide as the header.
    """
    file.write(csv_line(columns, delimiter))
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise UsageError(f"row {number} has {len(row)} cells; the header has {len(columns)}")
        file.write(csv_line(row, delimiter))


def column(table: Table, name: str) -> list[str]:
    """The n cells of the column `name`.

    Raises UsageError when there is no such column.
    """
    index = column_index(table, name)
    return [row[index] for row in table.rows]


def column_index(table: Table, name: str) -> int:
    """Where the column `name` stands: see `find_column`."""
    return find_column(table.columns, name, table.source)
