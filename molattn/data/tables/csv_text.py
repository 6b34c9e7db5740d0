"""CSV and TSV: the delimiter is inferred, rows are read strictly, and written so that they are read back equal."""

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
"""Maximum characters of a cell, and so of the text that is read after an unclosed quote."""

DELIMITERS = ",;\t"
"""The delimiters that are looked for in a header, in this order."""

_OPENING = re.compile(rf'(?:^|[{DELIMITERS}])"')

QUOTING_HINT = 'a field that holds the delimiter must be in double quotes, as in "2,4-D"'


def csv_stream(
    lines: Iterable[str], source: str, delimiter: str = "", number_duplicate_columns: bool = False
) -> RowStream:
    """The rows of a CSV; empty lines are skipped.

    Args:
        lines: with their line ends.
        source: the name of the file, for errors.
        delimiter: between cells; inferred from the header if empty.
        number_duplicate_columns: whether duplicate names in the header are numbered instead of raising an error.

    Raises InputError, with the line, for missing or duplicate names in the header, and, when the row is reached, for
    one that is too short or too long and for unmatched quotes.
    """
    lines, delimiter = iter(lines), delimiter or ""
    if not delimiter:
        head, unquoted = _head(lines)
        lines, delimiter = itertools.chain(head, lines), _delimiter(unquoted)
    # The limit is global to the process: it is never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
    # strict: without it an unclosed quote swallows the rest of the file as one cell.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    rows = _rows(reader, source)
    line, names = next(rows, (1, []))
    if not names:
        raise InputError(f"{source}: the file is empty; the first line must name the columns")
    columns = validate_column_names(
        f"{source}, line {line}", number_duplicates(names) if number_duplicate_columns else names
    )
    # Programs use semicolons as the delimiter where the comma is the decimal mark.
    return RowStream(source, columns, _chunks(rows, source, columns), decimal_commas=delimiter == ";")


def csv_line(cells: Sequence[str], delimiter: str = ",") -> str:
    """One line of a table, each cell quoted if necessary.

    csv.writer is not used, because it leaves a carriage return within a cell unquoted when lines end with LF.
    """
    if len(cells) == 1 and not cells[0]:
        return '""\n'  # an empty line would be skipped
    return delimiter.join(_quoted(cell) for cell in cells) + "\n"


def _head(lines: Iterator[str]) -> tuple[Iterator[str], str]:
    """The lines up to the end of the header, whose cells may span several lines, and its unquoted text.

    Every character is scanned once, however many lines an unclosed quote includes.
    """
    blank = 0
    head, unquoted = io.StringIO(newline=""), io.StringIO()
    quoted = False
    for line in lines:
        if not head.tell() and not line.strip("\r\n"):
            blank += 1
            continue
        head.write(line)
        outside, quoted = _outside(line, quoted)
        unquoted.write(outside)
        if not quoted or head.tell() > MAX_CELL_CHARS:
            break
    head.seek(0)
    return itertools.chain(itertools.repeat("\n", blank), head), unquoted.getvalue()


def _outside(line: str, quoted: bool) -> tuple[str, bool]:
    """The unquoted text of a line, and whether the line ends within quotes; `quoted` is whether it starts within them.

    A quote opens only at the start of a cell; within a cell it is an ordinary character.
    """
    found: list[str] = []
    place = 0
    while True:
        if quoted:
            end = line.find('"', place)
            if end < 0:
                return "".join(found), True
            quoted = line.startswith('"', end + 1)  # two quotes are an escaped one
            place = end + 1 + quoted
            continue
        opening = _OPENING.search(line, place)
        found.append(line[place : opening.end() if opening else len(line)])
        if opening is None:
            return "".join(found), False
        place, quoted = opening.end(), True


def _delimiter(unquoted: str) -> str:
    """The delimiter of a header, given its unquoted text; a comma for a single column."""
    return next((mark for mark in DELIMITERS if mark in unquoted), DELIMITERS[0])


def _rows(reader: Any, source: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the line on which it starts."""
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{source}, line {line}: the quotes do not match ({error}): {QUOTING_HINT}") from error


def _chunks(rows: Iterator[tuple[int, list[str]]], source: str, columns: tuple[str, ...]) -> Iterator[Chunk]:
    width = len(columns)
    for start in itertools.count(0, CHUNK_SIZE):
        line_numbers: list[int] = []
        cells: list[list[str]] = []
        memory = MemoryLimit(source)
        for line, row in itertools.islice(rows, CHUNK_SIZE):
            if len(row) != width:
                raise InputError(_wrong_width(f"{source}, line {line}", row, columns))
            memory.add(row, f"line {line}")
            line_numbers.append(line)
            cells.append(row)
        if cells:
            yield Chunk(start, line_numbers, cells)
        if len(cells) < CHUNK_SIZE:
            return


def _wrong_width(where: str, cells: list[str], columns: tuple[str, ...]) -> str:
    """The error message of a row that is too short or too long."""
    found = f"{where}: {len(cells)} fields where the header has {len(columns)}"
    if len(cells) < len(columns):
        missing = short_repr(columns[len(cells)])
        return f"{found}: nothing for column {missing}; is a delimiter missing or a quote unclosed?"
    return f"{found}: {short_repr(cells[len(columns)])} follows column {short_repr(columns[-1])}; {QUOTING_HINT}"


def escape_formula(cell: str) -> str:
    """The cell, prefixed with an apostrophe if a spreadsheet would read it as a formula; numbers are unchanged."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(cell.strip(" ")) else cell


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?|-")

# Cells with any delimiter are quoted, so that the delimiter of a header is inferred correctly.
_SPECIAL = re.compile(r'[",;\t\r\n]')


def _quoted(cell: str) -> str:
    # A byte-order mark at the very start would be read as that of the file.
    if cell.startswith("\ufeff") or _SPECIAL.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell
