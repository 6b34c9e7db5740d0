"""Streams of table rows, read in chunks of bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from molattn.data.tables.numbers import replace_decimal_commas
from molattn.errors import InputError, SmilesError

CHUNK_SIZE = 1024
"""Rows in a chunk. Chunks begin at multiples of it, wherever reading starts: the last digit of a prediction can depend
on the other molecules in its batch."""

MAX_CHUNK_BYTES = 3 * 2**27
"""Maximum bytes of the rows of a chunk. A whole chunk is in memory, and two of them while the next is read."""

CELL_BYTES = 64
"""Bytes of a text cell in addition to its characters, including the pointer in its row."""
_POINTER_BYTES = 8
"""Bytes of a cell that is empty or has one character: Python interns these strings."""


class MemoryLimit:
    """Counts the bytes of the rows of one chunk, and raises once they exceed `MAX_CHUNK_BYTES`.

    Args:
        source: the name of the table, for errors.
    """

    def __init__(self, source: str):
        self.source, self.bytes, self.first = source, 0, ""

    def add(self, cells: Sequence[str], location: str) -> None:
        """Count a row; `location` is where it is in the source, such as "line 5", for the error.

        Raises InputError once the rows are too large.
        """
        self.first = self.first or location
        self.bytes += row_bytes(cells)
        if self.bytes > MAX_CHUNK_BYTES:
            raise chunk_too_large(self.source, f"the rows from {self.first} to {location}")


def row_bytes(cells: Sequence[str]) -> int:
    """Bytes of the cells of a row."""
    lengths = [length for cell in cells if (length := len(cell)) > 1]
    return _POINTER_BYTES * (len(cells) - len(lengths)) + CELL_BYTES * len(lengths) + sum(lengths)


def chunk_too_large(source: str, rows: str) -> InputError:
    """The error for rows that do not fit into the memory."""
    return InputError(
        f"{source}: {rows} hold over {MAX_CHUNK_BYTES >> 20} MiB, more than fits in the memory at once: leave out "
        "columns or cells that are not needed"
    )


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table."""

    start: int
    """The index of the first row, from 0."""
    lines: Sequence[int]
    """The n numbers of the lines on which the rows start, or of what `RowStream.unit` names."""
    cells: list[list[str]] | None = None
    """n rows of text cells; None if the source is typed."""
    arrow_table: Any = None
    """The n rows as a `pyarrow.Table`, if the source is typed."""
    errors: Mapping[int, SmilesError] = field(default_factory=dict)
    """The error of each row of an SDF whose structure cannot be read, by index in the chunk."""
    atom_maps: Mapping[int, Any] = field(default_factory=dict)
    """The `MolblockAtomMap` of each row of an SDF, from the atoms of its SMILES to those of its record, by index in the
    chunk, if requested."""

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self) -> list[list[str]]:
        """The rows as text; a missing value is empty."""
        if self.cells is not None:
            return self.cells
        from molattn.data.tables.arrow import table_text  # imported here, because it imports pyarrow

        return table_text(self.arrow_table)

    def column(self, index: int) -> list[object]:
        """The n values of a column, unchanged."""
        if self.cells is not None:
            return [row[index] for row in self.cells]
        return self.arrow_table.column(index).to_pylist()


@dataclass(frozen=True)
class RowStream:
    """A table that is read in chunks, once."""

    source: str
    """The name of the table, for errors."""
    columns: tuple[str, ...]
    """The names of its columns."""
    chunks: Iterator[Chunk]
    """Its rows, `CHUNK_SIZE` in each chunk but the last."""
    unit: str = "line"
    """What `Chunk.lines` counts: "line" or "record", from 1, or "row", from 0."""
    smiles_column: str | None = None
    """The column of molecules, if the format defines it."""
    schema: Any = None
    """The `pyarrow.Schema` of the columns, if the source is typed."""
    decimal_commas: bool = False
    """Whether numbers may have a decimal comma: the delimiter is a semicolon."""

    def numeric_column(self, chunk: Chunk, index: int) -> list[object]:
        """The values of a column of numbers in a chunk, unchanged except for decimal commas."""
        values = chunk.column(index)
        return (replace_decimal_commas(values) or values) if self.decimal_commas else values

    def molecule_column(self, chunk: Chunk, index: int) -> list[object]:
        """The values of a column in a chunk; in the column of molecules, the errors of rows that have none."""
        values = chunk.column(index)
        if self.columns[index] == self.smiles_column:
            for row, error in chunk.errors.items():
                values[row] = error
        return values
