"""Tables of text: CSV read strictly, so that no row is lost or shifted in silence, and written atomically.

Every cell is kept as it stands in the file. What the cells mean is read in `molattn.data.records`.
"""

import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from molattn.data.files import atomic
from molattn.data.lines import opened, text_lines
from molattn.data.streams import csv_rows, format_of
from molattn.errors import UsageError, shown


@runtime_checkable
class Writable(Protocol):
    """An open text file, as far as a table needs one."""

    def write(self, text: str, /) -> object:
        """Take some more text."""
        ...


@dataclass(frozen=True)
class Table:
    """A table of text, with the line in the file that each row starts on."""

    columns: tuple[str, ...]
    """The names in the header, c of them, as written."""
    rows: list[list[str]]
    """n rows of c cells each, as written."""
    source: str
    """The path the table was read from; errors begin with it."""
    lines: list[int]
    """n line numbers; the header is usually line 1. A quoted cell may span lines."""


def read_table(path: str | Path) -> Table:
    """Read a table with a header: CSV, semicolons or tabs; UTF-8 with or without a byte-order mark.

    A `.tsv` or `.tab` file is split at tabs. Any other is split at commas, or, when its header has none, at
    semicolons, or else at tabs. A wholly empty line is no row. Lines may end with LF, CRLF or CR.

    Raises InputError, with line and column, for a missing or empty file, a text that is not UTF-8, names in
    the header that are missing or stand twice, rows that are too short or too long and quotes that do not
    match.
    """
    path = Path(path)
    with opened(path) as file:
        columns, found = csv_rows(text_lines(file, str(path)), str(path), _tab_by_name(path))
        rows, lines = [], []
        for line, cells, _ in found:
            rows.append(cells)
            lines.append(line)
    return Table(columns=columns, rows=rows, source=str(path), lines=lines)


def write_table(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table that `read_table` reads back equal: at `path` stands the old file or the whole new one.

    A `.tsv` or `.tab` file gets tabs, any other commas; UTF-8, lines end with LF. The text goes to a
    temporary file in the same folder, is synced to disk and then takes the place of `path`.

    Raises UsageError for a missing folder, a path that is no ordinary file, or a row that is not as wide as
    the header.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}: create it first")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not an ordinary file: give another path")
    with atomic(path, "w", encoding="utf-8", newline="") as file:
        write_rows(file, columns, rows, _tab_by_name(path) or ",")


def write_rows(file: Writable, columns: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ",") -> None:
    """Write a header and rows to an open file, each cell quoted where it must be.

    Raises UsageError for a row that is not as wide as the header.
    """
    file.write(line_of(columns, delimiter))
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise UsageError(f"row {number} has {len(row)} cells; the header has {len(columns)}")
        file.write(line_of(row, delimiter))


def column(table: Table, name: str) -> list[str]:
    """The n cells of the column `name`.

    Raises UsageError when there is no such column.
    """
    index = column_index(table, name)
    return [row[index] for row in table.rows]


def column_index(table: Table, name: str) -> int:
    """Where the column `name` stands: see `index_of`."""
    return index_of(table.columns, name, table.source)


def index_of(columns: Sequence[str], name: str, source: str) -> int:
    """Where the column `name` stands; spaces around a name in the header, as in `smiles, y`, do not count.

    Raises UsageError, with the columns there are and the closest, when there is no such column.
    """
    plain = [known.strip() for known in columns]
    if name.strip() in plain:
        return plain.index(name.strip())
    known = ", ".join(shown(known) for known in plain)
    folded = [known.casefold() for known in plain]
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
    hint = f"; did you mean {shown(plain[folded.index(close[0])])}?" if close else ""
    raise UsageError(f"{source} has no column {shown(name)}; it has {known}{hint}")


def _tab_by_name(path: Path) -> str | None:
    return "\t" if format_of(path) == "tsv" else None


def line_of(cells: Sequence[str], delimiter: str) -> str:
    """One line of a table.

    Written here because csv.writer leaves a carriage return inside a cell unquoted when lines end with LF.
    """
    if len(cells) == 1 and not cells[0]:
        return '""\n'  # an empty line would be no row
    return delimiter.join(_quoted(cell, delimiter) for cell in cells) + "\n"


def _quoted(cell: str, delimiter: str) -> str:
    # A byte-order mark at the very start would be taken for the file's own. Every delimiter that `read_table`
    # knows is quoted, so that a header in one never looks like a header in another.
    if cell.startswith("\ufeff") or any(mark in cell for mark in (delimiter, ",", ";", "\t", '"', "\r", "\n")):
        return '"' + cell.replace('"', '""') + '"'
    return cell
