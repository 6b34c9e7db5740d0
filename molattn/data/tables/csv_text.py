"""CSV and TSV: delimiter and header are inferred, rows are parsed strictly, and written rows are read back equal."""

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from molattn.data.tables.header import (
    MAX_LINES,
    find_smiles,
    is_below_titles,
    is_full,
    is_plain_header,
    numbered_header,
    read_header,
    titles_message,
)
from molattn.data.tables.options import Tell, say_nothing
from molattn.data.tables.row_stream import CHUNK_SIZE, Chunk, MemoryLimit, RowStream
from molattn.errors import InputError, short_repr

MAX_CELL_CHARS = 2**24
"""Maximum characters of a cell; reading stops there after an unclosed quote."""

DELIMITERS = ",;\t"
"""The delimiters that are searched for in a header, in this order."""

_MAX_HEAD = 2**20
"""Characters after which no more lines are searched for the header."""

_OPENING = re.compile(rf'(?:^|[{DELIMITERS}])"')

QUOTING_HINT = 'a field that holds the delimiter must be in double quotes, as in "2,4-D"'


def csv_stream(
    lines: Iterable[str],
    source: str,
    delimiter: str = "",
    number_duplicate_columns: bool = False,
    header_row: bool = True,
    tell: Tell = say_nothing,
) -> RowStream:
    """The rows of a CSV; empty lines, and title lines above the header, are skipped.

    Args:
        lines: with their line ends.
        source: the name of the file, for errors.
        delimiter: between cells; inferred from the header if empty.
        number_duplicate_columns: whether duplicate names in the header are numbered instead of raising an error.
        header_row: whether the first row names the columns.
        tell: called with messages about the header.

    Raises InputError, with the line, for duplicate names in the header, and, when the row is reached, for one that is
    too short or too long and for unmatched quotes; UsageError for a header that is a row of data.
    """
    # The limit is global to the process: it is never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
    lines = iter(lines)
    head = _first_lines(lines, delimiter, header_row)
    start, delimiter = _find_header(head, delimiter) if header_row else (0, delimiter or _delimiter_of_rows(head))
    # Title lines are replaced by empty lines, so that line numbers do not change.
    titles = itertools.repeat("\n", sum(len(line.text) for line in head[:start]))
    lines = itertools.chain(titles, *(line.text for line in head[start:]), lines)
    # strict: without it, an unclosed quote makes the rest of the file one cell.
    rows = _rows(csv.reader(lines, delimiter=delimiter, strict=True), source)
    line, names = next(rows, (1, []))
    if not names:
        raise InputError(f"{source}: the file is empty; the first line must name the columns")
    if start:
        tell(titles_message(source, "line", line, [_cells(title, delimiter) for title in head[:start]]))
    if header_row:
        header = read_header(names, f"{source}, line {line}", number_duplicate_columns, tell)
    else:
        first = [cells for line in head if len(cells := _cells(line, delimiter)) == len(names)]
        header = numbered_header(first or [names], source, tell)
        rows = itertools.chain([(line, names)], rows)
    # Programs use semicolons as the delimiter where the comma is the decimal mark.
    return RowStream(
        source,
        header.columns,
        row_chunks(rows, source, header.columns),
        smiles_column=header.smiles_column,
        decimal_commas=delimiter == ";",
        header=header.written,
    )


def csv_line(cells: Sequence[str], delimiter: str = ",", quote_commas: bool = True) -> str:
    """One line of a table, each cell quoted if necessary.

    csv.writer is not used, because it leaves a carriage return within a cell unquoted when lines end with LF.

    quote_commas: whether cells with commas are quoted even if the delimiter is another, as those of a header must be.
    """
    if len(cells) == 1 and not cells[0]:
        return '""\n'  # an empty line would be skipped
    special = _SPECIAL if quote_commas else _SPECIAL_BUT_COMMAS
    return delimiter.join(_quoted(cell, special) for cell in cells) + "\n"


def _head(lines: Iterator[str]) -> tuple[Iterator[str], str]:
    """The lines of the next row, whose cells may span several lines, after any empty lines; and its unquoted text.

    Every character is scanned once, even if an unclosed quote spans many lines.
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


@dataclass(frozen=True)
class _Line:
    """An unparsed row of a table, whose cells may span several lines of the file."""

    text: list[str]
    """Its lines, after the empty lines before it."""
    unquoted: str


def _first_lines(lines: Iterator[str], delimiter: str, header_row: bool) -> list[_Line]:
    """The first rows of a table: the header, and more rows if that could be a title or there is no header."""
    head: list[_Line] = []
    while len(head) < MAX_LINES and sum(len(text) for line in head for text in line.text) < _MAX_HEAD:
        text, unquoted = _head(lines)
        if not (line := _Line(list(text), unquoted)).text:
            break
        head.append(line)
        if not header_row:
            continue
        cells = _cells(line, delimiter or _delimiter(line))
        # If the first two rows have no empty cell, the first is not a title.
        if (len(head) == 1 and is_plain_header(cells)) or (
            len(head) == 2 and is_full(cells) and is_full(_cells(head[0], delimiter or _delimiter(head[0])))
        ):
            break
    return head


def _find_header(head: Sequence[_Line], delimiter: str) -> tuple[int, str]:
    """The index of the header in `head`, and the delimiter."""
    for index in range(1, len(head)):
        found = delimiter or _delimiter(head[index])
        if is_below_titles([_cells(line, found) for line in head], index):
            return index, found
    return 0, delimiter or (_delimiter(head[0], head) if head else DELIMITERS[0])


def _delimiter(line: _Line, rows: Sequence[_Line] = ()) -> str:
    """The delimiter of a header; a comma for a single column.

    It is the first of `DELIMITERS` that occurs outside quotes. If several do, one that yields a column named smiles is
    preferred, then one with which all `rows` have the same number of cells.
    """
    marks = [mark for mark in DELIMITERS if mark in line.unquoted] or [DELIMITERS[0]]
    if len(marks) == 1:
        return marks[0]
    named = (mark for mark in marks if "smiles" in (cell.strip().casefold() for cell in _cells(line, mark)))
    even = (mark for mark in marks if len({len(_cells(row, mark)) for row in rows}) == 1)
    return next(itertools.chain(named, even), marks[0])


def _delimiter_of_rows(head: Sequence[_Line]) -> str:
    """The delimiter of a table without a header: all rows have the same number of cells, and a column holds SMILES."""
    for mark in DELIMITERS:
        rows = [_cells(line, mark) for line in head]
        if len({len(row) for row in rows}) == 1 and len(rows[0]) > 1 and find_smiles(rows) is not None:
            return mark
    return _delimiter(head[0]) if head else DELIMITERS[0]


def _cells(line: _Line, delimiter: str) -> list[str]:
    """The cells of a row; empty if its quotes do not match."""
    try:
        return next(filter(None, csv.reader(line.text, delimiter=delimiter, strict=True)), [])
    except csv.Error:
        return []


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


def row_chunks(rows: Iterator[tuple[int, list[str]]], source: str, columns: tuple[str, ...]) -> Iterator[Chunk]:
    """The rows, each with its line, in chunks.

    Raises InputError, with the line, for a row that is too short or too long.
    """
    width = len(columns)
    for start in itertools.count(0, CHUNK_SIZE):
        line_numbers: list[int] = []
        cells: list[list[str]] = []
        memory = MemoryLimit(source)
        for line, row in itertools.islice(rows, CHUNK_SIZE):
            if len(row) != width:
                raise InputError(wrong_width(f"{source}, line {line}", row, columns))
            memory.add(row, f"line {line}")
            line_numbers.append(line)
            cells.append(row)
        if cells:
            yield Chunk(start, line_numbers, cells)
        if len(cells) < CHUNK_SIZE:
            return


def wrong_width(where: str, cells: Sequence[str], columns: tuple[str, ...]) -> str:
    """The error message of a row that is too short or too long."""
    found = f"{where}: {len(cells)} fields where the header has {len(columns)}"
    if len(cells) < len(columns):
        missing = short_repr(columns[len(cells)])
        return f"{found}: nothing for column {missing}; is a delimiter missing or a quote unclosed?"
    return f"{found}: {short_repr(cells[len(columns)])} follows column {short_repr(columns[-1])}; {QUOTING_HINT}"


def escape_formula(cell: str) -> str:
    """The cell, prefixed with an apostrophe if a spreadsheet would evaluate it as a formula; numbers are unchanged."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(cell.strip(" ")) else cell


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?|-")

# Cells with any delimiter are quoted, so that the delimiter of a header is inferred correctly.
_SPECIAL = re.compile(r'[",;\t\r\n]')
_SPECIAL_BUT_COMMAS = re.compile(r'[";\t\r\n]')


def _quoted(cell: str, special: re.Pattern[str]) -> str:
    # An unquoted byte-order mark at the start of a file would be removed on reading.
    if cell.startswith("\ufeff") or special.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell
