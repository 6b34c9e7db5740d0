"""The header of a table: detection below title rows, names for columns without one, and tables without a header."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from molattn.data.tables.cells import NUMBER
from molattn.data.tables.columns import has_smiles_column, name_columns, number_duplicates, validate_column_names
from molattn.data.tables.options import Warn
from molattn.errors import InputError, SmilesError, UsageError, short_repr

MAX_HEADER_ROWS = 10
"""Maximum number of rows that are searched for the header."""

_MAX_SEARCHED_CELLS = 1000
"""Maximum number of cells of a row that are searched for a SMILES."""
_MIN_SMILES = 2
"""Minimum length of a column name that can be a SMILES: C and N are also symbols of elements."""
# Atoms, bonds, branches and ring closures; an atom comes first.
_SMILES_LIKE = re.compile(
    r"(\[[^\[\]\s]+\]|Br|Cl|[BCNOPSFIbcnops*])(\[[^\[\]\s]+\]|Br|Cl|[BCNOPSFIbcnops*\d=#$:/\\.~()%+-])*"
)


@dataclass(frozen=True)
class Header:
    """The names of the columns of a table.

    Attributes:
        columns: a name for each column.
        source_columns: the names in the file, some of which may be empty; () for a table without a header.
        smiles_column: the SMILES column that was found in a table without a header; otherwise None.
    """

    columns: tuple[str, ...]
    source_columns: tuple[str, ...] = ()
    smiles_column: str | None = None


def read_header(cells: Sequence[str], where: str, number_duplicate_columns: bool, warn: Warn) -> Header:
    """Read the header from the cells of a row.

    Args:
        cells: the cells of the row.
        where: the table and the row, for errors.
        number_duplicate_columns: whether duplicate names are numbered instead of raising an error.
        warn: called if columns have no name.

    Raises InputError for duplicate names or no names, UsageError for a row of data.
    """
    source_columns = tuple(cells)
    if not any(map(str.strip, source_columns)):
        raise InputError(f"{where}: no column has a name; give each one, or add --no-header-row")
    _check_is_header(source_columns, where)
    named = name_columns(source_columns)
    columns = validate_column_names(where, number_duplicates(named) if number_duplicate_columns else named)
    if named != source_columns:
        warn(describe_unnamed(where, columns, source_columns))
    return Header(columns, source_columns)


def describe_unnamed(where: str, columns: Sequence[str], source_columns: Sequence[str]) -> str:
    """The warning that some of `source_columns` are empty, with their names in `columns`."""
    unnamed = [i for i, name in enumerate(source_columns) if not name.strip()]
    names = ", ".join(short_repr(columns[i]) for i in unnamed[:5])
    if len(unnamed) == 1:
        return f"{where}: column {unnamed[0] + 1} has no name: it is read as {names}"
    more = f" and {len(unnamed) - 5} more" if len(unnamed) > 5 else ""
    return f"{where}: {len(unnamed)} columns have no name: they are read as {names}{more}"


def generate_header(rows: Sequence[Sequence[str]], source: str, warn: Warn) -> Header:
    """Generate the header of a table without one, column_1 and so on; `rows` are its first rows."""
    columns = [f"column_{i + 1}" for i in range(len(rows[0]))]
    found = detect_smiles_column(rows)
    smiles_column = None if found is None else columns[found]
    last = f" to {columns[-1]}" if len(columns) > 1 else ""
    smiles = "" if smiles_column is None else f"; {smiles_column} holds the SMILES"
    warn(f"{source} is read without a header row: its columns are named {columns[0]}{last}{smiles}")
    return Header(tuple(columns), (), smiles_column)


def detect_smiles_column(rows: Sequence[Sequence[str]]) -> int | None:
    """The index of the column of which most cells are SMILES, of several the one with the longest texts; or None."""
    lengths: dict[int, int] = {}
    for index in range(min(_MAX_SEARCHED_CELLS, *map(len, rows))):
        cells = [cell for row in rows if (cell := row[index].strip())]
        # More than half, because some SMILES may be invalid.
        num_valid = sum(map(_is_smiles, cells))
        if num_valid and 2 * num_valid > len(cells):
            lengths[index] = sum(map(len, cells))
    return max(lengths, key=lambda index: lengths[index], default=None)


def is_certainly_header(cells: Sequence[str]) -> bool:
    """Whether a first row must be the header: it names a SMILES column, and is not a single line of text."""
    names = [cell for cell in cells if cell.strip()]
    return any(cell.strip().casefold() == "smiles" for cell in names) or (len(names) > 1 and has_smiles_column(names))


def has_no_empty_cell(cells: Sequence[str]) -> bool:
    """Whether a row has several cells, none of them empty, so that it cannot be a title."""
    return len(cells) > 1 and all(map(str.strip, cells))


def is_header_below_titles(rows: Sequence[Sequence[str]], index: int) -> bool:
    """Whether a row is the header below title rows: it names a SMILES column, all rows above have fewer cells, and all
    rows below have the same number."""
    header = rows[index]
    return (
        has_smiles_column(header)
        and row_width(header) > 1
        and all(row_width(row) < row_width(header) for row in rows[:index])
        and all(len(row) == len(header) for row in rows[index + 1 :])
    )


def describe_titles(source: str, line_kind: str, line: int, titles: Sequence[Sequence[str]]) -> str:
    """The warning that rows above the header are skipped."""
    texts = [next(cell for cell in row if cell.strip()) for row in titles if any(map(str.strip, row))]
    shown = f": {', '.join(map(short_repr, texts[:3]))}" if texts else ""
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return f"{source}: the header is {line_kind} {line}; the rows above it are skipped{shown}{more}"


def row_width(cells: Sequence[str]) -> int:
    """The number of cells without empty ones at the end."""
    return next((i for i in range(len(cells), 0, -1) if cells[i - 1].strip()), 0)


def _check_is_header(cells: Sequence[str], where: str) -> None:
    """Raise UsageError for a row that contains a SMILES and a number, and so is data."""
    first = [cell.strip() for cell in cells[:_MAX_SEARCHED_CELLS]]
    if not any(map(NUMBER.fullmatch, first)) or has_smiles_column(cells):
        return
    smiles = next((cell for cell in first if len(cell) >= _MIN_SMILES and _is_smiles(cell)), None)
    if smiles is not None:
        raise UsageError(
            f"{where}: the header holds the SMILES {short_repr(smiles)} and a number, as a row of data does: if the "
            "table has no header, add --no-header-row"
        )


def _is_smiles(cell: str) -> bool:
    text = cell.strip()
    if not _SMILES_LIKE.fullmatch(text) or NUMBER.fullmatch(text):
        return False
    from molattn.chem.parse import read_smiles  # imported here, because it imports RDKit

    try:
        read_smiles(text)
    except SmilesError:
        return False
    return True
