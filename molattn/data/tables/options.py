"""Options for reading a table: encoding, header and sheet."""

from collections.abc import Callable
from dataclasses import dataclass

from molattn.errors import UsageError

Tell = Callable[[str], object]
"""Callback for a message to the user about how a table is read."""


@dataclass(frozen=True)
class TableOptions:
    """Options for reading a table.

    Attributes:
        encoding: of text, the name of a Python codec; empty to detect UTF-8, UTF-16, UTF-32 or Windows-1252.
        header_row: whether the table has a header; otherwise its columns are named column_1, column_2 and so on.
        sheet: the name of the sheet of a workbook; empty for the first sheet.
    """

    encoding: str = ""
    header_row: bool = True
    sheet: str = ""

    def check(self, format: str, source: str) -> None:
        """Raise UsageError for an encoding that does not exist, or an option that files of this format do not have."""
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
                raise UsageError(f"{source}: {option} does not go with a table of the format {format}: leave it out")


DEFAULT_TABLE_OPTIONS = TableOptions()


def say_once(tell: Tell) -> Tell:
    """A callback that passes each distinct message to `tell` only once."""
    said: set[str] = set()

    def say(message: str) -> None:
        if message not in said:
            said.add(message)
            tell(message)

    return say


def say_nothing(message: str) -> None:
    """Ignore a message."""
