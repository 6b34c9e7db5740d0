"""Tables of text that are read into memory as a whole, and written atomically; cells are unchanged.

Tables are read by `molattn.data.tables.readers`; `molattn.data.tables.records` parses their cells.
"""

import gc
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from molattn.data import files
from molattn.data.paths import describe_missing_folder
from molattn.data.tables.columns import find_column
from molattn.data.tables.csv_text import csv_line, csv_stream
from molattn.data.tables.lines import STDIN, is_gzip, read_lines
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions, Warn, ignore_warning
from molattn.data.tables.readers import delimiter_of_suffix, infer_format, open_stream
from molattn.data.tables.row_stream import RowStream, row_bytes
from molattn.errors import InputError, UsageError

MIN_TABLE_MEMORY, TABLE_MEMORY_PER_BYTE = 2**29, 64
"""The rows of a compressed file may take `MIN_TABLE_MEMORY` bytes, or `TABLE_MEMORY_PER_BYTE` times the size of the
file if that is more."""


@dataclass(frozen=True)
class RejectedRow:
    """A row that cannot be used, and the reason.

    Attributes:
        row: its index among the data rows, from 0.
        line: the number of the line on which it starts, or of another `line_kind`.
        smiles: its SMILES, as in the table.
        reason: why it cannot be used.
        line_kind: what `line` counts: "line", "record" or "sheet row", from 1, or "row", from 0.

    >>> from molattn.data import RejectedRow
    >>> row = RejectedRow(row=2, line=4, smiles="CCN", reason="no value in column 'logS'")
    >>> print(f"{row.location}, {row.smiles}: {row.reason}")
    line 4, CCN: no value in column 'logS'
    """

    row: int
    line: int
    smiles: str
    reason: str
    line_kind: str = "line"

    @property
    def location(self) -> str:
        """Where it is in the source, such as `line 5`."""
        return f"{self.line_kind} {self.line}"


@dataclass(frozen=True)
class Table:
    """A table of text, with the location of each row in its source.

    Attributes:
        columns: the c names of the columns; one without a name is `Unnamed: 0` and so on, with its index.
        rows: n rows of c cells each, as written.
        source: the path that the table was read from, for errors.
        lines: the n numbers of the lines on which the rows start, or of another `line_kind`; the header is usually line
            1.
        line_kind: what `lines` counts: "line", "record" or "sheet row", from 1, or "row", from 0.
        structure_errors: for each row (from 0) of an SDF whose structure cannot be read, the reason.
        smiles_column: the SMILES column, if the format defines it, or if it was found in a table without a header.
        atom_maps: the `MolblockAtomMap` of each row (from 0) of an SDF.
        decimal_commas: whether numbers may have a decimal comma: the delimiter is a semicolon.
        warnings: warnings about how the table was read, such as its encoding.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from molattn.data import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "solubility.csv")
    ...     _ = path.write_text("smiles,logS\\nCCO,1.10\\nCCC,-1.9\\n")
    ...     table = read_table(path)
    >>> table.columns, table.rows, table.location(0)
    (('smiles', 'logS'), [['CCO', '1.10'], ['CCC', '-1.9']], 'line 2')
    """

    columns: tuple[str, ...]
    rows: list[list[str]]
    source: str
    lines: list[int]
    line_kind: str = "line"
    structure_errors: dict[int, str] = field(default_factory=dict)
    smiles_column: str | None = None
    atom_maps: dict[int, Any] = field(default_factory=dict)
    decimal_commas: bool = False
    warnings: tuple[str, ...] = ()

    def location(self, row: int) -> str:
        """Where a row (from 0) is in its source, such as `line 5`."""
        return f"{self.line_kind} {self.lines[row]}"

    def reject(self, row: int, smiles: str, reason: str) -> RejectedRow:
        """Make a `RejectedRow` of a row.

        Args:
            row: its index, from 0.
            smiles: its SMILES.
            reason: why it cannot be used.
        """
        return RejectedRow(row, self.lines[row], smiles, reason, self.line_kind)

    def replace_columns(self, columns: Mapping[int, Sequence[str]]) -> "Table":
        """The table with other cells in some columns; `columns` maps the index of a column to its n new cells.

        Raises:
            ValueError: there are more or fewer than n new cells.
        """
        if not columns:
            return self
        rows = [list(row) for row in self.rows]
        for index, cells in columns.items():
            for row, cell in zip(rows, cells, strict=True):
                row[index] = cell
        return replace(self, rows=rows)


def read_table(
    source: Any,
    options: TableOptions = DEFAULT_TABLE_OPTIONS,
    *,
    number_duplicate_columns: bool = False,
    max_atoms: int = 0,
) -> Table:
    """Read a whole table: a .csv, .tsv, .smi, .sdf, .parquet or .xlsx file, or a data frame.

    The suffix of the name decides the format, and `.gz` may follow it: see
    `molattn.data.tables.readers.open_stream`. A frame of pandas, polars or pyarrow is read as its Parquet file would
    be, as text: see `molattn.data.tables.arrow.column_text`.

    Args:
        source: the file's path, or the frame; "-" for CSV from standard input.
        options: encoding, header and sheet of the file.
        number_duplicate_columns: whether duplicate names in the header of a CSV are numbered, `y` and `y.1`, instead of
            raising an error.
        max_atoms: the largest number of atoms in a record of an SDF, if it is above `molattn.chem.MAX_ATOMS`.

    Raises:
        InputError: with line and column, a missing or empty file, text in another encoding, duplicate names in the
            header, rows that are too short or too long, unmatched quotes, or a compressed file that unpacks to far more
            than its size.
        UsageError: options that do not apply to the file, or a source that is neither a path nor a frame.
        MissingExtra: a workbook, and openpyxl is not installed.

    >>> import pyarrow as pa
    >>> from molattn.data import read_table
    >>> table = read_table(pa.table({"smiles": ["CCO", "CCC"], "logS": [1.1, -1.9]}))
    >>> table.columns, table.rows
    (('smiles', 'logS'), [['CCO', '1.1'], ['CCC', '-1.9']])
    """
    warnings: list[str] = []
    with _open(source, options, number_duplicate_columns, max_atoms, warnings.append) as stream:
        table = _read_all(stream, _max_bytes(source))
    return replace(table, warnings=tuple(warnings))


def _max_bytes(source: Any) -> int | float:
    """Maximum bytes of the rows of a source, as a protection against decompression bombs."""
    if isinstance(source, str | Path) and (
        infer_format(source) in ("parquet", "xlsx") or (str(source) != STDIN and is_gzip(source))
    ):
        return max(MIN_TABLE_MEMORY, TABLE_MEMORY_PER_BYTE * os.path.getsize(source))
    return math.inf


def read_table_bytes(data: bytes, source: str, *, number_duplicate_columns: bool = False) -> Table:
    """Read a CSV or TSV table from bytes, as `read_table`.

    Args:
        data: the content of the file.
        source: the name of the file, for errors; its suffix decides whether it is CSV or TSV.
        number_duplicate_columns: as for `read_table`.
    """
    lines = read_lines(BytesIO(data), source)
    return _read_all(csv_stream(lines, source, delimiter_of_suffix(source), number_duplicate_columns))


def read_columns(source: Any, options: TableOptions = DEFAULT_TABLE_OPTIONS) -> tuple[tuple[str, ...], str | None]:
    """The names of a table's columns, and its `smiles_column`: see `Table`.

    Args:
        source, options: as for `read_table`.

    Raises:
        InputError, UsageError, MissingExtra: as `read_table`, for the header.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from molattn.data import read_columns
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "molecules.smi")
    ...     _ = path.write_text("CCO ethanol\\nCCC propane\\n")
    ...     read_columns(path)
    (('smiles', 'name'), 'smiles')
    """
    with _open(source, options) as stream:
        return stream.columns, stream.smiles_column


def _open(
    source: Any,
    options: TableOptions,
    number_duplicate_columns: bool = False,
    max_atoms: int = 0,
    warn: Warn = ignore_warning,
) -> AbstractContextManager[RowStream]:
    if isinstance(source, str | Path):
        return open_stream(
            source,
            options=options,
            number_duplicate_columns=number_duplicate_columns,
            max_bytes=files.MAX_UNPACKED,
            atom_maps=True,
            max_atoms=max_atoms,
            warn=warn,
        )
    from molattn.data.tables.arrow import frame_stream  # imported here, because it imports pyarrow

    options.check("parquet", "the frame")
    return nullcontext(frame_stream(source, warn))


def _read_all(stream: RowStream, max_bytes: int | float = math.inf) -> Table:
    rows: list[list[str]] = []
    size = 0
    lines: list[int] = []
    structure_errors: dict[int, str] = {}
    atom_maps: dict[int, Any] = {}
    with _gc_disabled():
        for chunk in stream.chunks:
            structure_errors |= {chunk.start + row: error.reason for row, error in chunk.errors.items()}
            atom_maps |= {chunk.start + row: atom_map for row, atom_map in chunk.atom_maps.items()}
            chunk_rows = chunk.rows()
            if max_bytes < math.inf and (size := size + sum(map(row_bytes, chunk_rows))) > max_bytes:
                raise InputError(
                    f"{stream.source} unpacks to over {size >> 20:,} MiB of rows, far more than its size: leave out "
                    "columns that are not needed, or give it unpacked as CSV"
                )
            rows += chunk_rows
            lines += chunk.lines
    return Table(
        stream.columns,
        rows,
        stream.source,
        lines,
        stream.line_kind,
        structure_errors,
        stream.smiles_column,
        atom_maps,
        stream.decimal_commas,
    )


@contextmanager
def _gc_disabled() -> Iterator[None]:
    """Disable garbage collection in the block, which takes half of the time of reading a long table."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def write_table(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table that `read_table` reads back equal, atomically: `path` is the old file or the whole new one.

    A `.tsv` or `.tab` file is separated by tabs, any other by commas; UTF-8, lines end with LF. The text is written to
    a temporary file in the same folder, synced to disk and renamed to `path`.

    Args:
        path: the file.
        columns: c names.
        rows: rows of c cells each, all text.

    Raises:
        UsageError: a suffix of another format, a missing folder, a path that is not a regular file, or a row that is
            not as long as the header.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from molattn.data import write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "solubility.csv")
    ...     write_table(path, ["smiles", "name"], [["CCO", "ethanol"], ["CC(C)O", "2-propanol, dry"]])
    ...     print(path.read_text(), end="")
    smiles,name
    CCO,ethanol
    CC(C)O,"2-propanol, dry"
    """
    path = Path(os.path.realpath(path))
    if infer_format(path) not in ("csv", "tsv") or path.suffix.lower() == ".gz":
        raise UsageError(f"{path}: tables are written as CSV or TSV: use the suffix .csv or .tsv")
    if not path.parent.is_dir():
        raise UsageError(describe_missing_folder(path.parent))
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file: give another path")
    with files.atomic_write(path, "w", encoding="utf-8", newline="") as file:
        delimiter = delimiter_of_suffix(path) or ","
        file.write(csv_line(columns, delimiter))
        for number, row in enumerate(rows):
            if len(row) != len(columns):
                raise UsageError(f"row {number} has {len(row)} cells; the header has {len(columns)}")
            file.write(csv_line(row, delimiter))


def column(table: Table, name: str) -> list[str]:
    """The n cells of a column.

    Args:
        table: the table.
        name: the name of the column; spaces around it, and around the names in the table, are ignored.

    Raises:
        UsageError: there is no such column; the message names the closest one.

    >>> import pyarrow as pa
    >>> from molattn.data import column, read_table
    >>> column(read_table(pa.table({"smiles": ["CCO", "CCC"], "logS": [1.1, -1.9]})), "logS")
    ['1.1', '-1.9']
    """
    index = column_index(table, name)
    return [row[index] for row in table.rows]


def column_index(table: Table, name: str) -> int:
    """The index of a column, from 0.

    Args:
        table, name: as for `column`.

    Raises:
        UsageError: there is no such column; the message names the closest one.

    >>> import pyarrow as pa
    >>> from molattn.data import column_index, read_table
    >>> column_index(read_table(pa.table({"smiles": ["CCO", "CCC"], "logS": [1.1, -1.9]})), "logS")
    1
    """
    return find_column(table.columns, name, table.source)
