"""Reading of sheets of Excel workbooks (.xlsx), row by row; a cell has the text that Excel writes to a CSV."""

import datetime
import difflib
import itertools
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from molattn.data.files import MAX_UNPACKED
from molattn.data.tables.columns import format_names
from molattn.data.tables.csv_text import describe_wrong_width
from molattn.data.tables.header import (
    MAX_HEADER_ROWS,
    describe_titles,
    generate_header,
    is_header_below_titles,
    read_header,
    row_width,
)
from molattn.data.tables.lines import MAX_LINE_BYTES
from molattn.data.tables.options import TableOptions, Warn
from molattn.data.tables.row_stream import RowStream, SourceRow, chunk_rows
from molattn.errors import InputError, MissingExtra, UsageError, short_repr

LINE_KIND = "sheet row"
MAX_ROWS = 2**20
"""Maximum rows of a sheet, by the format."""

MIN_PART_LIMIT, PART_PER_BYTE = 2**26, 16
"""A part of a workbook that is loaded into memory, such as its shared strings, may unpack to `MIN_PART_LIMIT` bytes, or
`PART_PER_BYTE` times the size of the file if that is more. Sheets are streamed."""

_ROW_END = re.compile(rb"</(?:\w+:)?row>|<(?:\w+:)?row [^<>]*/>")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")

Row = tuple[int, list[object]]
"""The number of a row in its sheet, from 1, and its values."""


@contextmanager
def workbook_stream(
    path: str | Path, source: str, options: TableOptions, number_duplicate_columns: bool, warn: Warn
) -> Iterator[RowStream]:
    """The rows of a sheet; empty rows, and title rows above the header, are skipped.

    The values of formulas are those that the workbook has stored. A cell without a value is empty; true is TRUE; a
    number has all its digits, and no point if it is whole; dates are 2024-01-31, with a time 2024-01-31 12:30:00.

    Raises:
        InputError: a file that is not a workbook, is damaged, or unpacks to far more than its size.
        UsageError: there is no such sheet.
        MissingExtra: openpyxl is not installed.
    """
    try:
        import openpyxl
    except ImportError:
        raise MissingExtra("openpyxl", "excel", f"{source}: a workbook") from None
    _check_parts(path, source)
    # Opened here: a copy of standard input does not have the suffix that openpyxl requires.
    with open(path, "rb") as file:
        with _errors_as_input_error(source), warnings.catch_warnings():
            # Warnings about features that are not read, such as the validation of cells.
            warnings.simplefilter("ignore")
            workbook = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        sheet = _find_sheet(workbook, options.sheet, source, warn)
        yield _sheet_stream(_rows(sheet, source), source, options, number_duplicate_columns, warn)


def cell_text(value: object) -> str:
    """The text of a value, as Excel writes it to a CSV.

    >>> cell_text(2.0), cell_text(0.5), cell_text(True), cell_text(None)
    ('2', '0.5', 'TRUE', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        form = "%Y-%m-%d" if value.time() == datetime.time() else "%Y-%m-%d %H:%M:%S"
        return value.strftime(form)
    return str(value)


def _find_sheet(workbook: Any, name: str, source: str, warn: Warn) -> Any:
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    if not sheets:
        raise InputError(f"{source} has no sheet of cells: is this a table?")
    if not name:
        first = next(iter(sheets))
        if len(sheets) > 1:
            warn(f"{source} has {len(sheets)} sheets: the first, {short_repr(first)}, is read; --sheet gives another")
        return sheets[first]
    if name not in sheets:
        close = difflib.get_close_matches(name, sheets, n=1)
        hint = f"; did you mean {short_repr(close[0])}?" if close else ""
        raise UsageError(f"{source} has no sheet {short_repr(name)}; it has {format_names(sheets)}{hint}")
    return sheets[name]


def _sheet_stream(
    rows: Iterator[Row], source: str, options: TableOptions, number_duplicate_columns: bool, warn: Warn
) -> RowStream:
    first = list(itertools.islice(rows, MAX_HEADER_ROWS))
    if not first:
        raise InputError(f"{source}: the sheet is empty; its first row must name the columns")
    texts = [[cell_text(value) for value in values] for _, values in first]
    start = _header_index(texts) if options.header_row else 0
    number = first[start][0]
    # A sheet does not state the width of its table. A column without a name is detected in the first rows.
    width = max(map(row_width, texts[start:]))
    padded = [_pad_row(row, width, "") for row in texts[start:]]
    if start:
        warn(describe_titles(source, LINE_KIND, number, texts[:start]))
    if options.header_row:
        header = read_header(padded[0], f"{source}, {LINE_KIND} {number}", number_duplicate_columns, warn)
        start += 1
    else:
        header = generate_header(padded, source, warn)
    data_rows = _typed_rows(itertools.chain(first[start:], rows), source, header.columns)
    return RowStream(
        source,
        header.columns,
        chunk_rows(data_rows, source, LINE_KIND),
        line_kind=LINE_KIND,
        smiles_column=header.smiles_column,
        source_columns=header.source_columns,
    )


def _header_index(texts: Sequence[Sequence[str]]) -> int:
    """The index of the row that is the header: the first one, or one below titles."""
    for index in range(1, len(texts)):
        width = max(map(row_width, texts[index:]))
        if is_header_below_titles([[*row, *[""] * (width - len(row))] for row in texts], index):
            return index
    return 0


def _pad_row(row: Sequence[Any], width: int, missing: Any) -> list[Any]:
    """The row without empty cells beyond `width`, padded to `width` with `missing`."""
    return [*row[: max(width, row_width([cell_text(value) for value in row]))], *[missing] * (width - len(row))]


def _typed_rows(rows: Iterator[Row], source: str, columns: tuple[str, ...]) -> Iterator[SourceRow]:
    """The rows with their values and text, padded. Raises InputError, with the row, for one that is too long."""
    width = len(columns)
    for number, row in rows:
        values = row if len(row) == width else _pad_row(row, width, None)
        cells = [cell_text(value) for value in values]
        if len(cells) > width:
            raise InputError(describe_wrong_width(f"{source}, {LINE_KIND} {number}", cells, columns))
        yield SourceRow(number, cells, values)


def _rows(sheet: Any, source: str) -> Iterator[Row]:
    """The rows that are not empty."""
    # The size that a sheet states may be wrong, and every row would be padded to it.
    sheet.reset_dimensions()
    found = sheet.iter_rows(values_only=True)
    for number in itertools.count(1):
        with _errors_as_input_error(source), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = next(found, None)
        if values is None:
            return
        if number > MAX_ROWS:
            raise InputError(f"{source}: the sheet has over {MAX_ROWS:,} rows, more than Excel reads")
        if any(value is not None and value != "" for value in values):
            yield number, [_unescape(value) if isinstance(value, str) else value for value in values]


def _unescape(text: str) -> str:
    """The text with escapes such as _x001B_ decoded, which stand for characters that XML does not allow."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "_x" in text else text


def _check_parts(path: str | Path, source: str) -> None:
    """Raise InputError for a file that is not a workbook, or whose parts need too much memory."""
    with open(path, "rb") as file:
        start = file.read(4)
    if start == b"\xd0\xcf\x11\xe0":
        raise InputError(f"{source} has a password or is of an old Excel: save it as .xlsx without a password")
    with _errors_as_input_error(source), zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        limit = max(MIN_PART_LIMIT, PART_PER_BYTE * os.path.getsize(path))
        for part in parts:
            sheet = part.filename.startswith("xl/worksheets/") and part.filename.endswith(".xml")
            if part.file_size > (MAX_UNPACKED if sheet else limit):
                raise InputError(
                    f"{source}: {short_repr(part.filename)} in it unpacks to {part.file_size:,} bytes, far more than "
                    "its size: give the sheet as CSV"
                )
            # No more is unpacked than the size that an archive states.
            if sheet:
                with archive.open(part) as file:
                    _check_sheet(file, source)


def _check_sheet(file: Any, source: str) -> None:
    """Raise InputError for a sheet with a row over `MAX_LINE_BYTES`, or with a DOCTYPE, a comment or CDATA."""
    pending = 0
    tail = b""
    while block := file.read(2**20):
        text = tail + block
        if b"<!" in text:
            raise InputError(f"{source}: a sheet holds declarations, which Excel does not write: save it again")
        ends = [found.end() for found in _ROW_END.finditer(text)]
        pending = len(text) - ends[-1] if ends else pending + len(block)
        if pending > MAX_LINE_BYTES:
            raise InputError(f"{source}: a row of a sheet of over {MAX_LINE_BYTES:,} bytes: is this a table?")
        tail = text[-64:]


@contextmanager
def _errors_as_input_error(source: str) -> Iterator[None]:
    """Raise any error in the block as InputError: openpyxl has no exception class for damaged files."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        why = (str(error) or type(error).__name__).split("\n")[0].rstrip(".")
        raise InputError(f"{source} cannot be read as a workbook ({why}): save it again") from error
