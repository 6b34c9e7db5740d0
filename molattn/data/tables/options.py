"""Options for reading a table: encoding, header, sheet and number format."""

from collections.abc import Callable
from dataclasses import dataclass

from molattn.errors import UsageError

DECIMALS = (".", ",")
"""The decimal marks."""
THOUSANDS = (",", ".", " ", "'")
"""The thousands separators."""

Warn = Callable[[str], object]
"""Callback for a warning about how a table is read."""


@dataclass(frozen=True)
class TableOptions:
    """Options for reading a table.

    Attributes:
        encoding: of text, the name of a Python codec; empty to detect UTF-8, UTF-16, UTF-32 or Windows-1252.
        header_row: whether the table has a header; otherwise its columns are named column_1, column_2 and so on.
        sheet: the name of the sheet of a workbook; empty for the first sheet.
        decimal: the decimal mark in columns of numbers, one of `DECIMALS`; empty to infer it for each column.
        thousands: the thousands separator in columns of numbers, one of `THOUSANDS`; empty to infer it for each column.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from molattn.data import TableOptions, read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "no-header.csv")
    ...     _ = path.write_text("CCO,1.1\\nCCC,-1.9\\n")
    ...     read_table(path, TableOptions(header_row=False)).columns
    ('column_1', 'column_2')
    """

    encoding: str = ""
    header_row: bool = True
    sheet: str = ""
    decimal: str = ""
    thousands: str = ""

    def check(self, format: str, source: str) -> None:
        """Raise UsageError for an invalid option, or an option that does not apply to files of this format.

        Args:
            format: one of `molattn.data.tables.readers.FILE_FORMATS`.
            source: the name of the file, for the error.
        """
        if self.encoding:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError) as error:
                raise UsageError(
                    f"there is no encoding {self.encoding!r} of text: give one such as utf-8, cp1252 or shift_jis"
                ) from error
        used = {
            "--encoding": bool(self.encoding) and format in ("parquet", "xlsx"),
            "--no-header-row": not self.header_row and format not in ("csv", "tsv", "xlsx"),
            "--sheet": bool(self.sheet) and format != "xlsx",
        }
        for option, wrong in used.items():
            if wrong:
                raise UsageError(f"{source}: {option} does not apply to a table of the format {format}: leave it out")
        self.check_number_format()

    def check_number_format(self) -> None:
        """Raise UsageError for an unknown decimal mark or thousands separator, or for two that are equal."""
        for name, value, known in (("decimal", self.decimal, DECIMALS), ("thousands", self.thousands, THOUSANDS)):
            if value and value not in known:
                raise UsageError(f"--{name} is {value!r}: give one of {', '.join(map(repr, known))}")
        if self.decimal and self.decimal == self.thousands:
            raise UsageError(f"--decimal and --thousands are both {self.decimal!r}: leave one of them out")


DEFAULT_TABLE_OPTIONS = TableOptions()


def warn_once(warn: Warn) -> Warn:
    """A callback that passes each distinct message to `warn` only once."""
    seen: set[str] = set()

    def warn_if_new(message: str) -> None:
        if message not in seen:
            seen.add(message)
            warn(message)

    return warn_if_new


def ignore_warning(message: str) -> None:
    """Ignore a warning."""
