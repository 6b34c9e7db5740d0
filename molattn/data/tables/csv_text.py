"""CSV and TSV as text: what separates the cells, rows read strictly, and rows written so that they are read back."""

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from molattn.data.tables.columns import number_duplicates, validate_column_names
from molattn.data.tables.row_stream import CHUNK_SIZE, Chunk, MemoryLimit, RowStream
from molattn.errors import InputError, short_repr

MAX_CELL_CHARS = 2**24
"""Characters in a cell: what an unclosed quote may swallow before it is called one."""

DELIMITERS = ",;\t"
"""What is looked for in a header, the first first."""

_OPENING = re.compile(rf'(?:^|[{DELIMITERS}])"')

QUOTING = 'a field that holds the delimiter must stand in double quotes, as in "2,4-D"'


def csv_stream(lines: Iterable[str], source: str, delimiter: str = "", number_repeats: bool = False) -> RowStream:
    """The rows of a CSV as they come; a wholly empty line is no row.

    Args:
        lines: with their ends.
        source: what errors begin with.
        delimiter: between cells; found in the header when empty.
        number_repeats: whether a name that stands twice in the header gets a number instead of being refused.

    Raises InputError, with the line, for names in the header that are missing or stand twice, and, when it comes to
    it, for a row that is too short or too long and quotes that do not match.
    """
    lines, delimiter = iter(lines), delimiter or ""
    if not delimiter:
        head, bare = _head(lines)
        lines, delimiter = itertools.chain(head, lines), _delimiter(bare)
    # The limit is one for the whole process: it is never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
    # strict: without it an unclosed quote swallows the rest of the file as one cell.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    rows = _rows(reader, source)
    line, names = next(rows, (1, []))
    if not names:
        raise InputError(f"{source}: the file is empty; the first line must name the columns")
    columns = validate_column_names(f"{source}, line {line}", number_duplicates(names) if number_repeats else names)
    # Programs part cells by semicolons where the comma is the decimal mark.
    return RowStream(source, columns, _chunks(rows, source, columns), decimal_commas=delimiter == ";")


def csv_line(cells: Sequence[str], delimiter: str = ",") -> str:
    """One line of a table, each cell quoted where it must be.

    Written here because csv.writer leaves a carriage return inside a cell unquoted when lines end with LF.
    """
    if len(cells) == 1 and not cells[0]:
        return '""\n'  # an empty line would be no row
    return delimiter.join(_quoted(cell) for cell in cells) + "\n"


def _head(lines: Iterator[str]) -> tuple[Iterator[str], str]:
    """The lines up to the end of the header, whose cells may span several, and what of it stands outside quotes.

    Every character is looked at once, however many lines a quote that is never closed takes in.
    """
    blank = 0
    head, bare = io.StringIO(newline=""), io.StringIO()
    quoted = False
    for line in lines:
        if not head.tell() and not line.strip("\r\n"):
            blank += 1
            continue
        head.write(line)
        outside, quoted = _outside(line, quoted)
        bare.write(outside)
        if not quoted or head.tell() > MAX_CELL_CHARS:
            break
    head.seek(0)
    return itertools.chain(itertools.repeat("\n", blank), head), bare.getvalue()


def _outside(line: str, quoted: bool) -> tuple[str, bool]:
    """What of a line stands outside quotes, and whether its end is within them; `quoted` says it of its start.

    A quote opens where a cell begins, and nowhere else: one within a cell is a character like any other.
    """
    found: list[str] = []
    place = 0
    while True:
        if quoted:
            end = line.find('"', place)
            if end < 0:
                return "".join(found), True
            quoted = line.startswith('"', end + 1)  # two of them are one that is meant
            place = end + 1 + quoted
            continue
        opening = _OPENING.search(line, place)
        found.append(line[place : opening.end() if opening else len(line)])
        if opening is None:
            return "".join(found), False
        place, quoted = opening.end(), True


def _delimiter(bare: str) -> str:
    """What separates the cells, from what of a header stands outside quotes; one of a single column has a comma."""
    return next((mark for mark in DELIMITERS if mark in bare), DELIMITERS[0])


def _rows(reader: Any, source: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the line it starts on."""
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{source}, line {line}: the quotes do not match ({error}): {QUOTING}") from error


def _chunks(rows: Iterator[tuple[int, list[str]]], source: str, columns: tuple[str, ...]) -> Iterator[Chunk]:
    width = len(columns)
    for start in itertools.count(0, CHUNK_SIZE):
        places: list[int] = []
        cells: list[list[str]] = []
        weight = MemoryLimit(source)
        for line, row in itertools.islice(rows, CHUNK_SIZE):
            if len(row) != width:
                raise InputError(_wrong_width(f"{source}, line {line}", row, columns))
            weight.add(row, f"line {line}")
            places.append(line)
            cells.append(row)
        if cells:
            yield Chunk(start, places, cells)
        if len(cells) < CHUNK_SIZE:
            return


def _wrong_width(where: str, cells: list[str], columns: tuple[str, ...]) -> str:
    """Why a row that is too short or too long cannot be read."""
    found = f"{where}: {len(cells)} fields where the header has {len(columns)}"
    if len(cells) < len(columns):
        missing = short_repr(columns[len(cells)])
        return f"{found}: nothing for column {missing}; is a delimiter missing or a quote unclosed?"
    return f"{found}: {short_repr(cells[len(columns)])} follows column {short_repr(columns[-1])}; {QUOTING}"


def escape_formula(cell: str) -> str:
    """The cell with an apostrophe in front where a spreadsheet would take it for a formula; numbers stay numbers."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(cell.strip(" ")) else cell


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?|-")

# Every delimiter is quoted, so that a header in one never looks like a header in another.
_SPECIAL = re.compile(r'[",;\t\r\n]')


def _quoted(cell: str) -> str:
    # A byte-order mark at the very start would be taken for the file's own.
    if cell.startswith("\ufeff") or _SPECIAL.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell
