"""A table as it is read: a stream of rows, some at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from molattn.data.tables.numbers import replace_decimal_commas
from molattn.errors import InputError, SmilesError

CHUNK_SIZE = 1024
"""Rows that travel together. Rows are cut at multiples of it, wherever reading starts: what a model answers can depend
on the company of a molecule in its batch, in the last digit."""

MAX_CHUNK_BYTES = 3 * 2**27
"""Bytes that the rows of a chunk may take up. All of them are held at once, and twice while the next are read."""

CELL_BYTES = 64
"""Bytes of a cell of text beside its characters, with the place that it takes in its row."""
_PLACE = 8
"""Bytes of a cell that is empty or of one character: Python has each of these texts once."""


class MemoryLimit:
    """What the rows of one chunk take up, so that few rows of a table never fill the memory.

    Args:
        source: what errors begin with.
    """

    def __init__(self, source: str):
        self.source, self.bytes, self.first = source, 0, ""

    def add(self, cells: Sequence[str], place: str) -> None:
        """Count a row; its place, in words, is for the error.

        Raises InputError once the rows are too heavy.
        """
        self.first = self.first or place
        self.bytes += row_bytes(cells)
        if self.bytes > MAX_CHUNK_BYTES:
            raise chunk_too_large(self.source, f"the rows from {self.first} to {place}")


def row_bytes(cells: Sequence[str]) -> int:
    """Bytes that the cells of a row take up."""
    lengths = [length for cell in cells if (length := len(cell)) > 1]
    return _PLACE * (len(cells) - len(lengths)) + CELL_BYTES * len(lengths) + sum(lengths)


def chunk_too_large(source: str, rows: str) -> InputError:
    """Why a table is not read on, whose rows fill the memory."""
    return InputError(
        f"{source}: {rows} hold over {MAX_CHUNK_BYTES >> 20} MiB, more than fits in the memory at once: leave out "
        "columns or cells that are not needed"
    )


@dataclass(frozen=True)
class Chunk:
    """Some rows that follow each other."""

    start: int
    """The number of the first, from 0."""
    places: Sequence[int]
    """n numbers, of the line that each row starts on or of the record that it is: see `RowStream.place`."""
    cells: list[list[str]] | None = None
    """n rows of text cells; None where the source has types."""
    frame: Any = None
    """The n rows as a `pyarrow.Table`, where the source has types."""
    refused: Mapping[int, SmilesError] = field(default_factory=dict)
    """Why there is no molecule in a row of an SDF, by its number in the chunk."""
    atoms: Mapping[int, Any] = field(default_factory=dict)
    """Which atoms of its record the SMILES of a row has, a `MolblockAtomMap`, by its number in the chunk; where an SDF
    was asked for them."""

    def __len__(self) -> int:
        return len(self.places)

    def rows(self) -> list[list[str]]:
        """The rows as text; a missing value is empty."""
        if self.cells is not None:
            return self.cells
        from molattn.data.tables.arrow import table_text  # here, because it brings pyarrow

        return table_text(self.frame)

    def column(self, index: int) -> list[object]:
        """The n values of a column, as they stand in the source."""
        if self.cells is not None:
            return [row[index] for row in self.cells]
        return self.frame.column(index).to_pylist()


@dataclass(frozen=True)
class RowStream:
    """A table that is read a chunk at a time, once."""

    source: str
    """What errors call it."""
    columns: tuple[str, ...]
    """The names of its columns."""
    chunks: Iterator[Chunk]
    """Its rows, `CHUNK_SIZE` in each but the last."""
    place: str = "line"
    """What the places of its rows are: "line" or "record", from 1, or "row", from 0 as everywhere else."""
    smiles_column: str | None = None
    """The column of molecules, where the format says which."""
    schema: Any = None
    """The types of the columns, a `pyarrow.Schema`, where the source has types."""
    decimal_commas: bool = False
    """Whether numbers may be written with a decimal comma: cells are parted by semicolons."""

    def numbers(self, chunk: Chunk, index: int) -> list[object]:
        """The values of a column of numbers in a chunk, as they stand in the source but for decimal commas."""
        values = chunk.column(index)
        return (replace_decimal_commas(values) or values) if self.decimal_commas else values

    def molecules(self, chunk: Chunk, index: int) -> list[object]:
        """The molecules of a chunk: the values of a column, or why the record holds none."""
        values = chunk.column(index)
        if self.columns[index] == self.smiles_column:
            for row, error in chunk.refused.items():
                values[row] = error
        return values
