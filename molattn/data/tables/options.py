"""How a table is read where its file does not say it: encoding, header and sheet."""

from collections.abc import Callable
from dataclasses import dataclass

from molattn.errors import UsageError

Tell = Callable[[str], object]
"""Takes a message for the user about how a table is read."""


@dataclass(frozen=True)
class TableOptions:
    """How a table is read; the defaults find it out.

    Attributes:
        encoding: of text, a name that Python knows; empty for UTF-8, or UTF-16 if a byte-order mark says so, or else
            Windows-1252.
        header_row: whether the first row names the columns; otherwise they are column_1, column_2 and so on.
        sheet: of a workbook; its first one when empty.
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
    """A function that passes each message on once."""
    said: set[str] = set()

    def say(message: str) -> None:
        if message not in said:
            said.add(message)
            tell(message)

    return say


def say_nothing(message: str) -> None:
    """Ignore a message."""
