"""The decimal mark and the thousands separator of numbers, inferred for each column as a whole.

`decimal` and `thousands` mean the same as in `pandas.read_csv`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from molattn.data.tables.bounds import split_bound
from molattn.data.tables.columns import NUMBER
from molattn.data.tables.table import Table, column_index
from molattn.errors import InputError, UsageError, short_repr

DECIMALS = (".", ",")
THOUSANDS = (",", ".", " ", "'")
# Other characters that are used as a space and as an apostrophe between digits.
_VARIANTS = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
_MARKS = ".,'\u2019 \u00a0\u2009\u202f"
_NUMBER_LIKE = re.compile(rf"[+-]?[{_MARKS}]*\d[\d{_MARKS}]*([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class NumberFormat:
    """A number format.

    Attributes:
        decimal: the decimal mark.
        thousands: the separator of groups of three digits; empty for none.
    """

    decimal: str = "."
    thousands: str = ""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        mark, digits = re.escape(self.decimal), r"\d+"
        if self.thousands:
            digits = rf"(?:[1-9]\d{{0,2}}(?:[{_VARIANTS.get(self.thousands, self.thousands)}]\d{{3}})+|\d+)"
        return re.compile(rf"[+-]?(?:{digits}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?", re.ASCII)

    def normalize(self, text: str) -> str | None:
        """The number with a decimal point and without thousands separators; None if it does not have this format.

        >>> NumberFormat(",", ".").normalize("-1.234,5")
        '-1234.5'
        """
        if not self._pattern.fullmatch(text):
            return None
        for separator in _VARIANTS.get(self.thousands, self.thousands):
            text = text.replace(separator, "")
        return text.replace(self.decimal, ".")


PLAIN = NumberFormat()
FORMATS = (PLAIN, *(NumberFormat(d, t) for d in DECIMALS for t in ("", *THOUSANDS) if t != d and (d, t) != (".", "")))


def is_grouped(text: str) -> bool:
    """Whether a text is a number with spaces between groups of three digits, such as 1 234, and may not be a list."""
    return any(NumberFormat(mark, " ").normalize(text) is not None for mark in DECIMALS)


def formats_of(texts: Iterable[str], decimal: str = "", thousands: str = "") -> list[tuple[NumberFormat, str]]:
    """The formats that fit all numbers, one for each interpretation, each with the first number that it changes.

    Args:
        texts: numbers without surrounding white space; text that cannot be a number is ignored.
        decimal, thousands: as configured; empty for any.
    """
    numbers = [text for text in dict.fromkeys(texts) if _NUMBER_LIKE.fullmatch(text)]
    readings: dict[tuple[str | None, ...], tuple[NumberFormat, str]] = {}
    for number_format in FORMATS:
        if decimal not in ("", number_format.decimal) or thousands not in ("", number_format.thousands):
            continue
        found = tuple(map(number_format.normalize, numbers))
        if None not in found and found not in readings:
            example = next((a for a, b in zip(numbers, found, strict=True) if a != b), "")
            readings[found] = number_format, example
    return list(readings.values())


def check_number_format(decimal: str, thousands: str) -> None:
    """Raise UsageError for a decimal mark or a thousands separator that does not exist, or for two that are equal."""
    for name, value, known in (("decimal", decimal, DECIMALS), ("thousands", thousands, THOUSANDS)):
        if value and value not in known:
            raise UsageError(f"--{name} is {value!r}: give one of {', '.join(map(repr, known))}")
    if decimal and decimal == thousands:
        raise UsageError(f"--decimal and --thousands are both {decimal!r}: leave one of them out")


def with_plain_numbers(
    table: Table, columns: Sequence[str], decimal: str = "", thousands: str = ""
) -> tuple[Table, tuple[str, ...]]:
    """The table with the numbers of some columns rewritten as 1234.5, and a message for each column that changed.

    If the delimiter of the table is a semicolon, a comma is a decimal mark wherever it can be one.

    Args:
        table, columns: the table, and the names of the columns.
        decimal, thousands: as configured; empty to infer them, column by column.

    Raises:
        UsageError: a format that does not exist.
        InputError: a column whose format is ambiguous, or with numbers that do not have the configured format.
    """
    check_number_format(decimal, thousands)
    messages, rows = [], table.rows
    for name in columns:
        position = column_index(table, name)
        texts = [_split(row[position].strip())[1] for row in rows]
        odd = any(text and not NUMBER.fullmatch(text) and _NUMBER_LIKE.fullmatch(text) for text in texts)
        if not (odd or decimal or thousands):
            continue
        found = formats_of(texts, decimal, thousands)
        if table.decimal_commas and not decimal:
            found = [pair for pair in found if pair[0].decimal == ","] or found
        if len(found) > 1:
            raise InputError(f"{table.source}: column {short_repr(name)} {_two_ways(found)}")
        if not found:
            if decimal or thousands:
                _raise_first(table, name, texts, decimal, thousands)
            continue
        ((number_format, example),) = found
        if not example:
            continue
        changed = []
        for row, text in zip(rows, texts, strict=True):
            number = number_format.normalize(text)
            if number is None or number == text:
                changed.append(row)
            else:
                sign, _ = _split(row[position].strip())
                changed.append([*row[:position], sign + number, *row[position + 1 :]])
        rows = changed
        messages.append(_describe(name, number_format, example))
    return (replace(table, rows=rows) if messages else table), tuple(messages)


def _split(text: str) -> tuple[str, str]:
    """The sign of a bound, empty if there is none, and the rest of the cell."""
    if (bound := split_bound(text)) is None:
        return "", text
    return text[: len(text) - len(bound[1])], bound[1]


def _describe(name: str, number_format: NumberFormat, example: str) -> str:
    what = "decimal commas" if not number_format.thousands else f"thousands separators {number_format.thousands!r}"
    number = number_format.normalize(example)
    return f"column {short_repr(name)} has {what}: {short_repr(example)} is read as {number}"


def _two_ways(found: Sequence[tuple[NumberFormat, str]]) -> str:
    """The interpretations of the first ambiguous number, each with the option that selects it."""
    example = found[0][1]
    ways = [
        f"{f.normalize(example)} with "
        + (f"--thousands {f.thousands!r}" if f.thousands else f"--decimal {f.decimal!r}")
        for f, _ in found
    ]
    return f"reads two ways: {short_repr(example)} is {' and '.join(ways)}; add the one that is meant"


def _raise_first(table: Table, name: str, texts: Sequence[str], decimal: str, thousands: str) -> None:
    """Raise InputError for the first number that does not have the configured format; return if there is none."""
    formats = [f for f in FORMATS if decimal in ("", f.decimal) and thousands in ("", f.thousands)]
    options = " ".join(f"--{k} {v!r}" for k, v in (("decimal", decimal), ("thousands", thousands)) if v)
    for row, text in enumerate(texts):
        if _NUMBER_LIKE.fullmatch(text) and all(f.normalize(text) is None for f in formats):
            raise InputError(
                f"{table.source}, {table.location(row)}, column {short_repr(name)}: {short_repr(text)} is not written "
                f"as {options} says: correct it, or leave that out"
            )
    raise InputError(f"{table.source}: the numbers of column {short_repr(name)} are not all written as {options} says")
