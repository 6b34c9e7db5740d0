"""Tables as text: CSV read strictly, so that no row is lost or shifted in silence, and written atomically.

Every cell is kept as it stands in the file. What the cells mean is read in `molattn.data.records`.
"""

import csv
import difflib
import io
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from molattn.data.files import atomic, read_bytes, suffix_of
from molattn.errors import InputError, UsageError, shown

OTHER_FORMATS = (".parquet", ".pq", ".smi", ".sdf", ".sd")
"""Endings of what is not text with a header; read in `molattn.data.readers`."""

QUOTING = 'a field that holds the delimiter must stand in double quotes, as in "2,4-D"'


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
    """n line numbers; the header is usually line 1. A quoted cell may span lines. In a source without lines, rows."""
    unit: str = "line"
    """What `lines` counts: `line`, from 1, or `row`, from 0."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Why a row (from 0) has no SMILES, where the source holds its molecule in another form that cannot be read."""

    def place(self, row: int) -> str:
        """Where a row (from 0) stands in its source, in words: `line 5`."""
        return f"{self.unit} {self.lines[row]}"


def read_table(source: Any, *, number_repeats: bool = False) -> Table:
    """Read a table: CSV, semicolons or tabs, Parquet, SMI, SDF, or a data frame.

    The ending of the name decides: `.parquet`, `.smi`, `.sdf`; `.tsv` and `.tab` are split at tabs. Any other is text
    with a header, UTF-8 with or without a byte-order mark, split at commas, or, when its header has none, at
    semicolons, or else at tabs. A wholly empty line is no row. Lines may end with LF, CRLF or CR. A `.gz` is read
    through. A frame of pandas, polars or pyarrow is read as its Parquet file would be.

    Args:
        source: the file's path, or the frame.
        number_repeats: whether a name that stands twice in the header of a text gets a number, `y` and `y.1`,
            instead of being refused.

    Raises InputError, with line and column, for a missing or empty file, a text that is not UTF-8, names in
    the header that are missing or stand twice, rows that are too short or too long and quotes that do not
    match.
    """
    if not isinstance(source, str | Path):
        from molattn.data.readers import from_frame  # here, because it brings pyarrow

        return from_frame(source)
    path = Path(source)
    data = read_bytes(path)
    if suffix_of(path) in OTHER_FORMATS:
        from molattn.data.readers import READERS

        return READERS[suffix_of(path)](data, path)
    return parse_table(text_of(path, data), path, number_repeats=number_repeats)


def parse_table(text: str, path: Path, *, delimiter: str = "", number_repeats: bool = False) -> Table:
    """The table in `text`, which stands in the file `path`; otherwise as `read_table`. No delimiter: it is found."""
    delimiter = delimiter or _delimiter(path, text)
    # The text is in memory already: csv's limit on a field would only let one hostile cell refuse the file.
    if len(text) > csv.field_size_limit():
        csv.field_size_limit(len(text))
    # strict: without it an unclosed quote swallows the rest of the file as one cell.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)

    columns: tuple[str, ...] | None = None
    rows: list[list[str]] = []
    lines: list[int] = []
    line = 1
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{path}, line {line}: the quotes do not match ({error}): {QUOTING}") from error
        if cells is None:
            break
        if not cells:
            continue
        if columns is None:
            columns = header(f"{path}, line {line}", _numbered(cells) if number_repeats else cells)
        elif len(cells) != len(columns):
            raise InputError(_wrong_width(path, line, cells, columns))
        else:
            rows.append(cells)
            lines.append(line)
    if columns is None:
        raise InputError(f"{path}: the file is empty; the first line must name the columns")
    return Table(columns=columns, rows=rows, source=str(path), lines=lines)


def write_table(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table that `read_table` reads back equal: at `path` stands the old file or the whole new one.

    A `.tsv` or `.tab` file gets tabs, any other commas; UTF-8, lines end with LF. The text goes to a
    temporary file in the same folder, is synced to disk and then takes the place of `path`.

    Raises UsageError for a name that says another format, a missing folder, a path that is no ordinary file, or a
    row that is not as wide as the header.
    """
    path = Path(os.path.realpath(path))
    if suffix_of(path) in OTHER_FORMATS or path.suffix.lower() == ".gz":
        raise UsageError(f"{path}: tables are written as text: give a name that ends with .csv or .tsv")
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


def text_of(path: Path, data: bytes) -> str:
    """The text of a file's bytes, without a byte-order mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}, line 1: the text is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A lone CR ends a line too, and CR before LF is one end, not two. The last piece holds the bad byte.
        lines = re.split(rb"\r\n|\r|\n", error.object[: error.start])
        byte = error.object[error.start]
        raise InputError(
            f"{path}, line {len(lines)}, byte {len(lines[-1]) + 1} of it: 0x{byte:02x} is not UTF-8 text; "
            "save the file as UTF-8"
        ) from error


def _tab_by_name(path: Path) -> str | None:
    return "\t" if suffix_of(path) in (".tsv", ".tab") else None


def _delimiter(path: Path, text: str) -> str:
    """What separates the cells, from the file's name or its header; one of a single column has a comma."""
    by_name = _tab_by_name(path)
    if by_name is not None:
        return by_name
    # The header ends at the first line end outside quotes, and a delimiter inside quotes separates nothing.
    header = re.match(r'[\r\n]*((?:"[^"]*"|[^"\r\n])*)', text)
    bare = re.sub(r'"[^"]*"', "", header[1]) if header else ""
    return next((mark for mark in ",;\t" if mark in bare), ",")


def header(where: str, cells: list[str]) -> tuple[str, ...]:
    """The names of the columns, each there and each once; `where` begins an error."""
    first_place: dict[str, int] = {}
    for place, cell in enumerate(cells, start=1):
        name = cell.strip()
        if not name:
            raise InputError(f"{where}: column {place} of {len(cells)} has no name; give it one")
        if "\0" in name:
            raise InputError(f"{where}: NUL in column {place} of the header; save the file as UTF-8 text")
        if name in first_place:
            raise InputError(
                f"{where}: columns {first_place[name]} and {place} are both named {shown(name)}; rename one"
            )
        first_place[name] = place
    return tuple(cells)


def _numbered(names: list[str]) -> list[str]:
    """The names, with .1, .2 and so on after one that stood before."""
    times: dict[str, int] = {}
    numbered = []
    for name in names:
        times[name] = times.get(name, -1) + 1
        numbered.append(f"{name}.{times[name]}" if times[name] else name)
    return numbered


def _wrong_width(path: Path, line: int, cells: list[str], columns: tuple[str, ...]) -> str:
    """Why a row that is too short or too long cannot be read."""
    found = f"{path}, line {line}: {len(cells)} fields where the header has {len(columns)}"
    if len(cells) < len(columns):
        missing = shown(columns[len(cells)])
        return f"{found}: nothing for column {missing}; is a delimiter missing or a quote unclosed?"
    return f"{found}: {shown(cells[len(columns)])} follows column {shown(columns[-1])}; {QUOTING}"


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
