"""CSV and TSV: delimiter and header are inferred, parsing is strict, and lines that are written are read back equal."""

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from molattn.data.tables.header import (
    MAX_HEADER_ROWS,
    describe_titles,
    detect_smiles_column,
    generate_header,
    has_no_empty_cell,
    is_certainly_header,
    is_header_below_titles,
    read_header,
)
from molattn.data.tables.number_formats import is_number
from molattn.data.tables.options import Warn, ignore_warning
from molattn.data.tables.row_stream import RowStream, SourceRow, chunk_rows
from molattn.errors import InputError, short_repr

MAX_CELL_CHARS = 2**24
"""Maximum characters of a cell; reading stops there after an unclosed quote."""

DELIMITERS = ",;\t"
"""The delimiters that are searched for in a header, in this order."""

_MAX_SEARCHED_TEXT = 2**20
"""Characters after which no more rows are searched for the header."""

_OPENING_QUOTE = re.compile(rf'(?:^|[{DELIMITERS}])"')

QUOTING_HINT = 'a field that holds the delimiter must be in double quotes, as in "2,4-D"'


def csv_stream(
    lines: Iterable[str],
    source: str,
    delimiter: str = "",
    number_duplicate_columns: bool = False,
    header_row: bool = True,
    warn: Warn = ignore_warning,
) -> RowStream:
    """The rows of a CSV; empty lines, and title lines above the header, are skipped.

    Args:
        lines: the lines, with their line ends.
        source: the name of the file, for errors.
        delimiter: between cells; inferred from the header if empty.
        number_duplicate_columns: whether duplicate names in the header are numbered instead of raising an error.
        header_row: whether the first row names the columns.
        warn: called with messages about the header.

    Raises InputError, with the line, for duplicate names in the header, and, when the row is reached, for one that is
    too short or too long and for unmatched quotes; UsageError for a header that is a row of data.
    """
    # The limit is global to the process: it is never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
    lines = iter(lines)
    first = _first_rows(lines, delimiter, header_row)
    start, delimiter = _find_header(first, delimiter) if header_row else (0, delimiter or _infer_delimiter(first))
    # Title lines are replaced by empty lines, so that line numbers do not change.
    titles = itertools.repeat("\n", sum(len(row.lines) for row in first[:start]))
    lines = itertools.chain(titles, *(row.lines for row in first[start:]), lines)
    # strict: without it, an unclosed quote makes the rest of the file one cell.
    rows = _rows(csv.reader(lines, delimiter=delimiter, strict=True), source)
    line, names = next(rows, (1, []))
    if not names:
        raise InputError(f"{source}: the file is empty; the first line must name the columns")
    if start:
        warn(describe_titles(source, "line", line, [_cells(title, delimiter) for title in first[:start]]))
    if header_row:
        header = read_header(names, f"{source}, line {line}", number_duplicate_columns, warn)
    else:
        full = [cells for row in first if len(cells := _cells(row, delimiter)) == len(names)]
        header = generate_header(full or [names], source, warn)
        rows = itertools.chain([(line, names)], rows)
    return RowStream(
        source,
        header.columns,
        chunk_rows(_check_widths(rows, source, header.columns), source, "line"),
        smiles_column=header.smiles_column,
        # Programs write semicolons as delimiters where the comma is the decimal mark.
        decimal_commas=delimiter == ";",
        source_columns=header.source_columns,
    )


def csv_line(cells: Sequence[str], delimiter: str = ",", quote_commas: bool = True) -> str:
    """A line of a table, with LF; cells are quoted if necessary.

    csv.writer is not used, because it does not quote a cell with a carriage return when lines end with LF.

    Args:
        cells: the cells.
        delimiter: the delimiter between cells.
        quote_commas: whether cells with commas are quoted, even if the delimiter is another one. It must be True for a
            header, from which the delimiter is inferred.
    """
    if len(cells) == 1 and not cells[0]:
        return '""\n'  # an empty line would be skipped
    special = _SPECIAL if quote_commas else _SPECIAL_EXCEPT_COMMA
    return delimiter.join(_quoted(cell, special) for cell in cells) + "\n"


@dataclass(frozen=True)
class _UnparsedRow:
    """A row of a table, whose cells may span several lines of the file."""

    lines: list[str]
    """The empty lines above it, then its own."""
    unquoted: str
    """Its text outside of quotes."""


def _next_row(lines: Iterator[str]) -> _UnparsedRow:
    """The next row, after the empty lines above it; a row without lines at the end of the file.

    Every character is scanned once, even if an unclosed quote spans many lines.
    """
    num_empty, num_chars = 0, 0
    row: list[str] = []
    unquoted = io.StringIO()
    in_quotes = False
    for line in lines:
        if not row and not line.strip("\r\n"):
            num_empty += 1
            continue
        row.append(line)
        num_chars += len(line)
        text, in_quotes = _remove_quoted(line, in_quotes)
        unquoted.write(text)
        if not in_quotes or num_chars > MAX_CELL_CHARS:
            break
    return _UnparsedRow(["\n"] * num_empty + row if row else [], unquoted.getvalue())


def _remove_quoted(line: str, in_quotes: bool) -> tuple[str, bool]:
    """The unquoted text of a line, and whether it ends within quotes; `in_quotes` is whether it starts within them.

    A quote opens only at the start of a cell; within a cell it is an ordinary character.
    """
    unquoted: list[str] = []
    position = 0
    while True:
        if in_quotes:
            end = line.find('"', position)
            if end < 0:
                return "".join(unquoted), True
            in_quotes = line.startswith('"', end + 1)  # two quotes are an escaped one
            position = end + 1 + in_quotes
            continue
        opening = _OPENING_QUOTE.search(line, position)
        unquoted.append(line[position : opening.end() if opening else len(line)])
        if opening is None:
            return "".join(unquoted), False
        position, in_quotes = opening.end(), True


def _first_rows(lines: Iterator[str], delimiter: str, header_row: bool) -> list[_UnparsedRow]:
    """The first rows of a table: only as many as are needed to find the header and the delimiter."""
    rows: list[_UnparsedRow] = []
    while len(rows) < MAX_HEADER_ROWS and sum(len(line) for row in rows for line in row.lines) < _MAX_SEARCHED_TEXT:
        row = _next_row(lines)
        if not row.lines:
            break
        rows.append(row)
        if not header_row:
            continue
        cells = _cells(row, delimiter or _header_delimiter(row))
        # If the first two rows have no empty cell, the first is not a title.
        if (len(rows) == 1 and is_certainly_header(cells)) or (
            len(rows) == 2
            and has_no_empty_cell(cells)
            and has_no_empty_cell(_cells(rows[0], delimiter or _header_delimiter(rows[0])))
        ):
            break
    return rows


def _find_header(rows: Sequence[_UnparsedRow], delimiter: str) -> tuple[int, str]:
    """The index of the header in `rows`, and the delimiter."""
    for index in range(1, len(rows)):
        found = delimiter or _header_delimiter(rows[index])
        if is_header_below_titles([_cells(row, found) for row in rows], index):
            return index, found
    return 0, delimiter or (_header_delimiter(rows[0], rows) if rows else DELIMITERS[0])


def _header_delimiter(header: _UnparsedRow, rows: Sequence[_UnparsedRow] = ()) -> str:
    """The delimiter of a header; a comma for a single column.

    It is the first of `DELIMITERS` that occurs outside quotes. If several do, one that yields a column named smiles is
    preferred, then one with which all `rows` have the same number of cells.
    """
    found = [delimiter for delimiter in DELIMITERS if delimiter in header.unquoted] or [DELIMITERS[0]]
    if len(found) == 1:
        return found[0]
    with_smiles = (d for d in found if "smiles" in (cell.strip().casefold() for cell in _cells(header, d)))
    consistent = (d for d in found if len({len(_cells(row, d)) for row in rows}) == 1)
    return next(itertools.chain(with_smiles, consistent), found[0])


def _infer_delimiter(rows: Sequence[_UnparsedRow]) -> str:
    """The delimiter of a table without a header: all rows have the same number of cells, and a column holds SMILES."""
    for delimiter in DELIMITERS:
        cells = [_cells(row, delimiter) for row in rows]
        if len({len(row) for row in cells}) == 1 and len(cells[0]) > 1 and detect_smiles_column(cells) is not None:
            return delimiter
    return _header_delimiter(rows[0]) if rows else DELIMITERS[0]


def _cells(row: _UnparsedRow, delimiter: str) -> list[str]:
    """The cells of a row; empty if its quotes do not match."""
    try:
        return next(filter(None, csv.reader(row.lines, delimiter=delimiter, strict=True)), [])
    except csv.Error:
        return []


def _rows(reader: Any, source: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of the line on which it starts."""
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{source}, line {line}: the quotes do not match ({error}): {QUOTING_HINT}") from error


def _check_widths(rows: Iterator[tuple[int, list[str]]], source: str, columns: tuple[str, ...]) -> Iterator[SourceRow]:
    """The rows, unchanged. Raises InputError, with the line, for a row that is too short or too long."""
    width = len(columns)
    for line, cells in rows:
        if len(cells) != width:
            raise InputError(describe_wrong_width(f"{source}, line {line}", cells, columns))
        yield SourceRow(line, cells)


def describe_wrong_width(where: str, cells: Sequence[str], columns: tuple[str, ...]) -> str:
    """The error message of a row that is too short or too long."""
    found = f"{where}: {len(cells)} fields where the header has {len(columns)}"
    if len(cells) < len(columns):
        missing = short_repr(columns[len(cells)])
        return f"{found}: nothing for column {missing}; is a delimiter missing or a quote unclosed?"
    return f"{found}: {short_repr(cells[len(columns)])} follows column {short_repr(columns[-1])}; {QUOTING_HINT}"


def escape_formula(cell: str) -> str:
    """The cell, prefixed with an apostrophe if a spreadsheet would evaluate it as a formula.

    Numbers in any format, and a single hyphen, are unchanged.
    """
    if not cell.lstrip(" ").startswith(_FORMULA):
        return cell
    text = cell.strip(" ")
    return cell if text == "-" or is_number(text) else f"'{cell}"


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

# Cells with any of the delimiters are quoted, so that the delimiter of a header is inferred correctly.
_SPECIAL = re.compile(r'[",;\t\r\n]')
_SPECIAL_EXCEPT_COMMA = re.compile(r'[";\t\r\n]')


def _quoted(cell: str, special: re.Pattern[str]) -> str:
    # An unquoted byte-order mark at the start of a file would be removed on reading.
    if cell.startswith("\ufeff") or special.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell
