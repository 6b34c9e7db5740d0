"""Streams of table rows, in chunks and bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, NamedTuple

from molattn.errors import InputError, SmilesError

CHUNK_SIZE = 1024
"""Rows in a chunk. Chunks always begin at multiples of it, also if a command is resumed: the last digit of a prediction
can depend on the other molecules in its batch."""

MAX_CHUNK_BYTES = 3 * 2**27
"""Maximum bytes of the rows of a chunk. One chunk is in memory, and two while the next one is read."""

CELL_BYTES = 64
"""Bytes of a text cell in addition to its characters, including the pointer in its row."""
_POINTER_BYTES = 8
"""Bytes of a cell that is empty or has one character: Python interns these strings."""


def row_bytes(cells: Sequence[str]) -> int:
    """Bytes of the cells of a row."""
    lengths = [length for cell in cells if (length := len(cell)) > 1]
    return _POINTER_BYTES * (len(cells) - len(lengths)) + CELL_BYTES * len(lengths) + sum(lengths)


def chunk_too_large(source: str, rows: str) -> InputError:
    """The error for rows of a chunk that exceed `MAX_CHUNK_BYTES`."""
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
    """The n numbers of the lines on which the rows start, or of another `RowStream.line_kind`."""
    cells: list[list[str]] | None = None
    """n rows of text cells; None if the source is typed."""
    arrow_table: Any = None
    """The n rows as a `pyarrow.Table`, if the source is typed."""
    values: list[list[object]] | None = None
    """The n rows as the numbers, dates and strings of a workbook; `cells` has their text."""
    errors: Mapping[int, SmilesError] = field(default_factory=dict)
    """The error of each row of an SDF whose structure cannot be read, by index in the chunk."""
    atom_maps: Mapping[int, Any] = field(default_factory=dict)
    """The `MolblockAtomMap` of each row of an SDF, by index in the chunk, if requested."""
    molblocks: Sequence[str] = ()
    """The n mol blocks of an SDF, unchanged, if requested."""

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

    def take_row(self, index: int) -> "Chunk":
        """The row `index` of the chunk, as a chunk of one row."""

        def only(values: Sequence[Any] | None) -> list[Any] | None:
            return None if values is None else list(values[index : index + 1])

        def at_0(values: Mapping[int, Any]) -> dict[int, Any]:
            return {0: values[index]} if index in values else {}

        return Chunk(
            self.start + index,
            only(self.lines) or [],
            only(self.cells),
            None if self.arrow_table is None else self.arrow_table.slice(index, 1),
            only(self.values),
            at_0(self.errors),
            at_0(self.atom_maps),
            only(self.molblocks) or [],
        )


class SourceRow(NamedTuple):
    """A row of a source of text; see `Chunk` for its fields."""

    line: int
    cells: list[str]
    values: list[object] | None = None
    error: SmilesError | None = None
    atom_map: Any = None
    molblock: str | None = None


def chunk_rows(rows: Iterator[SourceRow], source: str, line_kind: str) -> Iterator[Chunk]:
    """The rows in chunks of `CHUNK_SIZE`.

    Args:
        rows: all with `values` and with `molblock`, or none.
        source: the name of the table, for errors.
        line_kind: what `SourceRow.line` counts: see `RowStream.line_kind`.

    Raises InputError once the rows of a chunk exceed `MAX_CHUNK_BYTES`.
    """
    for start in count(0, CHUNK_SIZE):
        chunk: list[SourceRow] = []
        size = 0
        for row in islice(rows, CHUNK_SIZE):
            chunk.append(row)
            size += row_bytes(row.cells if row.molblock is None else [*row.cells, row.molblock])
            if size > MAX_CHUNK_BYTES:
                raise chunk_too_large(source, f"the rows from {line_kind} {chunk[0].line} to {line_kind} {row.line}")
        if chunk:
            yield Chunk(
                start,
                lines=[row.line for row in chunk],
                cells=[row.cells for row in chunk],
                values=[row.values for row in chunk if row.values is not None] or None,
                errors={i: row.error for i, row in enumerate(chunk) if row.error is not None},
                atom_maps={i: row.atom_map for i, row in enumerate(chunk) if row.atom_map is not None},
                molblocks=[row.molblock for row in chunk if row.molblock is not None],
            )
        if len(chunk) < CHUNK_SIZE:
            return


@dataclass(frozen=True)
class RowStream:
    """A table that is read in chunks; it can be iterated over only once."""

    source: str
    """The name of the table, for errors."""
    columns: tuple[str, ...]
    """The names of its columns."""
    chunks: Iterator[Chunk]
    """Its rows, `CHUNK_SIZE` in each chunk but the last."""
    line_kind: str = "line"
    """What `Chunk.lines` counts: "line", "record" or "sheet row", from 1, or "row", from 0."""
    smiles_column: str | None = None
    """The SMILES column, if the format defines it, or if it was found in a table without a header."""
    schema: Any = None
    """The `pyarrow.Schema` of the columns, if the source is typed."""
    decimal_commas: bool = False
    """Whether numbers may have a decimal comma: the delimiter is a semicolon."""
    source_columns: tuple[str, ...] = ()
    """The names of the columns in the source, which may be empty; `columns` by default."""

    def __post_init__(self) -> None:
        if not self.source_columns:
            object.__setattr__(self, "source_columns", self.columns)

    def molecule_column(self, chunk: Chunk, index: int) -> list[object]:
        """The values of a column in a chunk; in the SMILES column, rows with an error have it in place of the value."""
        values = chunk.column(index)
        if self.columns[index] == self.smiles_column:
            for row, error in chunk.errors.items():
                values[row] = error
        return values
