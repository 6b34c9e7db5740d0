"""Writing of tables as Excel workbooks (.xlsx): predictions are numbers, and no text becomes a formula."""

import datetime
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from molattn.data.tables.row_stream import Chunk
from molattn.data.tables.workbook import MAX_ROWS
from molattn.data.tables.writers import Column, NewColumn, TableWriter, format_cell, format_number
from molattn.errors import MissingExtra, UsageError

MAX_COLUMNS, MAX_CELL = 2**14, 32_767
"""Maximum columns of a sheet and characters of a cell, by the format."""

MAX_DIGITS = 15
"""The digits of a number that Excel keeps."""

# Characters that XML cannot hold, and text that looks like their escape.
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_x[0-9A-Fa-f]{4}_")
# A fixed date instead of the current one, so that the same rows give the same bytes.
_DATE, _PROPERTIES = (1980, 1, 1, 0, 0, 0), "docProps/core.xml"
_TIME = re.compile(rb">\d{4}-\d\d-\d\dT[^<]*<")


class WorkbookFormat:
    """A workbook with one sheet.

    Numbers and dates of a workbook, and numbers of a typed input, keep their types; all other cells are strings.
    Integers of more than 15 digits, which a sheet cannot hold as numbers, are strings.

    Raises UsageError for more columns than a sheet has, MissingExtra without openpyxl.
    """

    suffix = ".xlsx"
    max_rows: int | None = MAX_ROWS - 1

    def __init__(self, columns: Sequence[str], added: Sequence[NewColumn]):
        try:
            import openpyxl  # noqa: F401
        except ImportError:
            raise MissingExtra("openpyxl", "excel", "a workbook") from None
        self.header = [*columns, *(a.name for a in added)]
        if len(self.header) > MAX_COLUMNS:
            raise UsageError(f"a sheet has {MAX_COLUMNS:,} columns, not {len(self.header):,}: write .csv or .parquet")

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole table into an open, binary file."""
        return _WorkbookWriter(self.header, file)

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several tables, in order, as one into an open, binary file."""
        import openpyxl

        sheet = _Sheet(self.header)
        for part in parts:
            workbook = openpyxl.load_workbook(part, read_only=True)
            try:
                for row in workbook.worksheets[0].iter_rows(min_row=2, values_only=True):
                    sheet.add(row, escaped=True)
            finally:
                workbook.close()
        sheet.save(file)


class _WorkbookWriter:
    def __init__(self, header: Sequence[str], file: Any):
        self.sheet, self.file = _Sheet(header), file

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        columns = [[_to_cell(value) for value in column] for column in added]
        for row, new in zip(_values(chunk), zip(*columns, strict=True), strict=True):
            self.sheet.add([*row, *new])

    def close(self) -> None:
        self.sheet.save(self.file)


class _Sheet:
    """A sheet that is written row by row into a temporary file."""

    def __init__(self, header: Sequence[str]):
        from openpyxl import Workbook

        self.book = Workbook(write_only=True)
        self.sheet = self.book.create_sheet("Sheet1")
        self.rows, self.saved = 0, False
        self.add(header)

    def __del__(self) -> None:
        # Without this, openpyxl writes to standard error if the sheet was not saved because of an error.
        if not getattr(self, "saved", True):
            with suppress(Exception):
                self.sheet.close()
                self.sheet._writer.cleanup()

    def add(self, row: Iterable[Any], escaped: bool = False) -> None:
        """Add a row; with `escaped`, its strings are already escaped."""
        self.rows += 1
        if self.rows > MAX_ROWS:
            raise UsageError(f"a sheet has {MAX_ROWS:,} rows, and the table more: write .csv or .parquet")
        self.sheet.append(list(self._cells(row, escaped)))

    def _cells(self, row: Iterable[Any], escaped: bool) -> Iterator[Any]:
        from openpyxl.cell import WriteOnlyCell

        for index, value in enumerate(row):
            if value == "":
                yield None
                continue
            if not isinstance(value, str):
                yield value if value is None or isinstance(value, int | float) else self._date_cell(value)
                continue
            if len(value) > MAX_CELL:
                raise UsageError(
                    f"row {self.rows} of the workbook, column {index + 1}: a cell of Excel holds {MAX_CELL:,} "
                    f"characters, not {len(value):,}: write .csv or .parquet"
                )
            cell = WriteOnlyCell(self.sheet)
            cell._value = value if escaped else _UNWRITABLE.sub(_escape, value)
            # A string even if it begins with =, as formulas do.
            cell.data_type = "s"
            yield cell

    def _date_cell(self, value: Any) -> Any:
        from openpyxl.cell import WriteOnlyCell

        cell = WriteOnlyCell(self.sheet, value)
        if isinstance(value, datetime.datetime) and value.time() == datetime.time():
            cell.number_format = "yyyy-mm-dd"
        return cell

    def save(self, file: Any) -> None:
        """Write the workbook into an open, binary file."""
        from openpyxl.writer.excel import ExcelWriter

        with _Archive(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            ExcelWriter(self.book, archive).write_data()
        self.saved = True


class _Archive(zipfile.ZipFile):
    """A zip archive whose entries have a fixed date instead of the current time."""

    def writestr(self, name: Any, data: Any, *_: Any, **__: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        data = data.encode() if isinstance(data, str) else data
        self._copy(str(name), io.BytesIO(_TIME.sub(b">1980-01-01T00:00:00Z<", data) if name == _PROPERTIES else data))

    def write(self, filename: Any, arcname: Any = None, *_: Any, **__: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        with open(filename, "rb") as file:
            self._copy(str(arcname or filename), file)

    def _copy(self, name: str, file: Any) -> None:
        part = zipfile.ZipInfo(name, _DATE)
        part.compress_type = zipfile.ZIP_DEFLATED
        with self.open(part, "w", force_zip64=True) as target:
            while block := file.read(2**20):
                target.write(block)


def _values(chunk: Chunk) -> Iterable[Sequence[Any]]:
    """The rows of a chunk; numbers of a typed source stay numbers."""
    if chunk.arrow_table is None:
        return chunk.rows() if chunk.values is None else chunk.values
    import pyarrow as pa

    from molattn.data.tables.arrow import column_text

    columns = []
    for column in chunk.arrow_table.columns:
        numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        # A float32 of 0.1 is not 0.10000000149011612.
        columns.append([_number(v) if numeric and v else v for v in column_text(column)])
    return zip(*columns, strict=True)


def _number(text: str) -> float | str:
    """A number; the text of an integer that Excel would round to its 15 digits."""
    return text if len(text.lstrip("-")) > MAX_DIGITS and text.lstrip("-").isdecimal() else float(text)


def _to_cell(value: str | float | Sequence[str] | Sequence[float | None] | None) -> str | float | None:
    """A number, rounded to the precision of text formats, or text."""
    if value is None:
        return None
    return float(format_number(value)) if isinstance(value, int | float) else format_cell(value)


def _escape(found: re.Match[str]) -> str:
    text = found[0]
    return f"_x005F{text}" if len(text) > 1 else f"_x{ord(text):04X}_"
