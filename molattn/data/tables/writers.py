"""Writing of tables in chunks of rows: the columns of a stream, followed by new ones.

This module writes CSV, TSV and Parquet; `workbook_writer`, `sdf_writer` and `npy_writer` write the other formats.
"""

import gzip
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from molattn.data.tables.atom_lists import format_list
from molattn.data.tables.csv_text import csv_line, escape_formula
from molattn.data.tables.readers import OUTPUT_SUFFIXES, infer_format, is_unsupported_spreadsheet
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.errors import UsageError

_CHUNKS_PER_ROW_GROUP = 16  # of Parquet
_LINES_PER_WRITE = 64  # of text

Column = Sequence[str | float | Sequence[str] | Sequence[float | None] | None]
"""The values of a new column, one for each row of a chunk; None for a missing value."""


@dataclass(frozen=True)
class NewColumn:
    """A column that is added to a table."""

    name: str
    kind: str = "string"
    """The type of its values: "string", "float64", "float32", "list<string>" or "list<float64>". A missing value is
    None."""


@runtime_checkable
class TableWriter(Protocol):
    """Writes rows to a file."""

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        """Write the rows of a chunk, with the n values of each new column."""
        ...

    def close(self) -> None:
        """Write buffered rows; the file itself stays open."""
        ...


@runtime_checkable
class TableFormat(Protocol):
    """A file format of tables."""

    suffix: str
    """The suffix of files of this format, such as those of parts: see `molattn.data.tables.parts`."""
    max_rows: int | None
    """The largest number of rows; None for any number."""

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole table into an open, binary file."""
        ...

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several tables, in order, as one into an open, binary file."""
        ...


def is_sdf(path: Path | None) -> bool:
    """Whether an output file is an SDF."""
    return path is not None and infer_format(path) == "sdf"


def output_format(
    path: Path | None,
    stream: RowStream,
    added: Sequence[NewColumn],
    escape_formulas: bool = False,
    smiles_column: str = "",
    decimal_comma: bool = False,
    max_atoms: int = 0,
) -> TableFormat:
    """The format of an output file by its suffix; CSV for None.

    The delimiter of a CSV is a semicolon if that of the input is.

    Args:
        path: the output file.
        stream, added: the columns of the input, and the new ones.
        escape_formulas: whether cells of CSV and TSV that a spreadsheet would read as formulas get an apostrophe.
        smiles_column: the SMILES column, for SDF.
        decimal_comma: whether new numbers of CSV and TSV have a decimal comma.
        max_atoms: the largest number of atoms in a structure of an SDF, if it is above `molattn.chem.MAX_ATOMS`.

    Raises UsageError for a suffix of a format that is not written.
    """
    name = "" if path is None else path.name
    format = infer_format(name)
    not_written = (".npy", ".xlsm", ".npy.gz", ".parquet.gz", ".pq.gz", ".xlsx.gz")
    if format == "smi" or is_unsupported_spreadsheet(name) or name.lower().endswith(not_written):
        raise UsageError(f"{name}: {OUTPUT_SUFFIXES}")
    if escape_formulas and format not in ("csv", "tsv"):
        raise UsageError(f"{name}: --escape-formulas applies only to .csv and .tsv: leave it out")
    if format == "parquet":
        return ParquetFormat(stream, added)
    if format == "xlsx":
        from molattn.data.tables.workbook_writer import WorkbookFormat  # imported here, because few tables need it

        return WorkbookFormat(stream.source_columns, added)
    if format == "sdf":
        from molattn.data.tables.sdf_writer import SdfFormat  # imported here, because it imports RDKit

        return SdfFormat(stream, added, smiles_column, max_atoms)
    delimiter = "\t" if format == "tsv" else ";" if stream.decimal_commas else ","
    return TextFormat(stream.source_columns, added, delimiter, escape_formulas, decimal_comma)


@contextmanager
def open_compressed(path: Path, file: Any) -> Iterator[Any]:
    """Open a file whose content is written to `file`, compressed if `path` ends in `.gz`."""
    if path.suffix.lower() != ".gz":
        yield file
        return
    # Without a time and a name in the header, so that the same rows give the same bytes.
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as inner:
        yield inner


class TextFormat:
    """CSV or TSV in UTF-8; lines end with LF.

    Args:
        columns, added: the names of the columns of the input, and the new columns.
        delimiter: the delimiter.
        escape_formulas: whether cells that a spreadsheet would read as formulas get an apostrophe.
        decimal_comma: whether new numbers have a decimal comma.
    """

    suffix = ".csv"
    max_rows: int | None = None

    def __init__(
        self,
        columns: Sequence[str],
        added: Sequence[NewColumn],
        delimiter: str = ",",
        escape_formulas: bool = False,
        decimal_comma: bool = False,
    ):
        self.delimiter, self.escape_formulas, self.decimal_comma = delimiter, escape_formulas, decimal_comma
        # If the delimiter is a semicolon or a tab, numbers with decimal commas need no quotes.
        self.quote_commas = delimiter != ";" and not decimal_comma
        self.header = csv_line(self._escape([*columns, *(a.name for a in added)]), delimiter)

    def line(self, cells: Sequence[str]) -> str:
        """One row of the table."""
        return csv_line(self._escape(cells), self.delimiter, self.quote_commas)

    def _escape(self, cells: Sequence[str]) -> Sequence[str]:
        return [*map(escape_formula, cells)] if self.escape_formulas else cells

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole table into an open, binary file."""
        return _TextWriter(self, lambda text: file.write(text.encode()))

    def text_writer(self, write: Callable[[str], object]) -> TableWriter:
        """A writer of a whole table to a function that takes text."""
        return _TextWriter(self, write)

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several tables, in order, as one into an open, binary file."""
        header = self.header.encode()
        file.write(header)
        for part in parts:
            with open(part, "rb") as rows:
                rows.seek(len(header))
                shutil.copyfileobj(rows, file)


class _TextWriter:
    def __init__(self, output: TextFormat, write: Callable[[str], object]):
        self.line, self.write_text = output.line, write
        self.format_cell = _format_decimal_comma if output.decimal_comma else format_cell
        write(output.header)

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        texts = [[v if isinstance(v, str) else self.format_cell(v) for v in column] for column in added]
        rows = zip(chunk.rows(), zip(*texts, strict=True), strict=True)
        # A few lines at a time: all rows of a chunk with long cells, once more as text, could fill the memory.
        while lines := "".join(self.line([*row, *new]) for row, new in islice(rows, _LINES_PER_WRITE)):
            self.write_text(lines)

    def close(self) -> None:
        pass


class ParquetFormat:
    """Parquet, with the types of the input if it is typed, and strings otherwise."""

    suffix = ".parquet"
    max_rows: int | None = None

    def __init__(self, stream: RowStream, added: Sequence[NewColumn]):
        import pyarrow as pa

        types = {"string": pa.string(), "float64": pa.float64(), "float32": pa.float32()}
        types |= {f"list<{kind}>": pa.list_(types[kind]) for kind in ("string", "float64")}
        fields = [pa.field(name, pa.string()) for name in stream.columns] if stream.schema is None else stream.schema
        # Without the metadata of the schema: that of pandas describes the columns of the input.
        self.schema = pa.schema([*fields, *(pa.field(a.name, types[a.kind]) for a in added)])

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

        self.schema, self.inner, self.pending = schema, pq.ParquetWriter(file, schema), []

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        import pyarrow as pa

        typed = chunk.arrow_table is not None
        columns = chunk.arrow_table.columns if typed else [list(cells) for cells in zip(*chunk.rows(), strict=True)]
        self.pending.append(pa.table([*columns, *added], schema=self.schema))
        if len(self.pending) == _CHUNKS_PER_ROW_GROUP:
            self._flush()

    def close(self) -> None:
        if self.pending:
            self._flush()
        self.inner.close()

    def _flush(self) -> None:
        import pyarrow as pa

        self.inner.write_table(pa.concat_tables(self.pending).combine_chunks())
        self.pending = []


def format_number(value: float | None) -> str:
    """The number with seven significant digits, the precision of float32; empty for None."""
    return "" if value is None else f"{value:.7g}"


def format_cell(value: str | float | Sequence[str] | Sequence[float | None] | None) -> str:
    """The text of a cell that holds a string, a number, or a list of these."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, int | float):
        return format_number(value)
    return format_list([item if isinstance(item, str) else format_number(item) for item in value])


def _format_decimal_comma(value: str | float | Sequence[str] | Sequence[float | None] | None) -> str:
    """As `format_cell`, with a decimal comma in a number; numbers in a list keep decimal points."""
    text = format_cell(value)
    return text.replace(".", ",") if isinstance(value, float) else text
