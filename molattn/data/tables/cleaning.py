"""Columns of numbers rewritten with decimal points, and with empty cells for missing values.

The decimal mark and the thousands separator are inferred for each column as a whole. `decimal` and `thousands` mean the
same as in `pandas.read_csv`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from molattn.data.tables.cells import (
    NUMBER,
    count_na_values,
    describe_na_values,
    replace_decimal_commas,
    split_bound,
)
from molattn.data.tables.options import DECIMALS, DEFAULT_TABLE_OPTIONS, THOUSANDS, TableOptions
from molattn.data.tables.table import Table, column_index
from molattn.errors import InputError, short_repr

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


FORMATS = tuple(NumberFormat(d, t) for d in DECIMALS for t in ("", *THOUSANDS) if t != d)


def has_grouped_digits(text: str) -> bool:
    """Whether a text is a number with spaces between groups of three digits, such as 1 234, and may not be a list."""
    return any(NumberFormat(mark, " ").normalize(text) is not None for mark in DECIMALS)


def infer_number_formats(
    texts: Iterable[str], options: TableOptions = DEFAULT_TABLE_OPTIONS
) -> list[tuple[NumberFormat, str]]:
    """The formats that fit all numbers, one for each interpretation, each with the first number that it changes.

    Args:
        texts: numbers without surrounding white space; text that cannot be a number is ignored.
        options: the decimal mark and the thousands separator, if they are known.
    """
    numbers = [text for text in dict.fromkeys(texts) if _NUMBER_LIKE.fullmatch(text)]
    interpretations: dict[tuple[str | None, ...], tuple[NumberFormat, str]] = {}
    for number_format in _allowed_formats(options):
        normalized = tuple(map(number_format.normalize, numbers))
        if None not in normalized and normalized not in interpretations:
            example = next((a for a, b in zip(numbers, normalized, strict=True) if a != b), "")
            interpretations[normalized] = number_format, example
    return list(interpretations.values())


def _allowed_formats(options: TableOptions) -> list[NumberFormat]:
    """The formats with the configured decimal mark and thousands separator."""
    return [f for f in FORMATS if options.decimal in ("", f.decimal) and options.thousands in ("", f.thousands)]


def normalize_numbers(
    table: Table, columns: Sequence[str], options: TableOptions = DEFAULT_TABLE_OPTIONS
) -> tuple[Table, tuple[str, ...]]:
    """The table with the numbers of some columns rewritten as 1234.5, and a warning for each column that changed.

    If the delimiter of the table is a semicolon, a comma is a decimal mark wherever it can be one.

    Args:
        table, columns: the table, and the names of the columns.
        options: the decimal mark and the thousands separator; if empty, they are inferred, column by column.

    Raises:
        UsageError: a format that does not exist.
        InputError: a column whose format is ambiguous, or with numbers that do not have the configured format.
    """
    options.check_number_format()
    configured = options.decimal or options.thousands
    warnings, replaced = [], {}
    for name in columns:
        index = column_index(table, name)
        cells = [row[index] for row in table.rows]
        texts = [_split_sign(cell.strip())[1] for cell in cells]
        if not configured and all(NUMBER.fullmatch(text) or not _NUMBER_LIKE.fullmatch(text) for text in texts):
            continue
        found = infer_number_formats(texts, options)
        if table.decimal_commas and not options.decimal:
            found = [pair for pair in found if pair[0].decimal == ","] or found
        if len(found) > 1:
            raise InputError(f"{table.source}: column {short_repr(name)} {_describe_ambiguity(found)}")
        if not found and configured:
            raise _format_error(table, name, texts, options)
        for number_format, example in found:
            if example:
                replaced[index] = [_rewrite(cell, number_format) for cell in cells]
                warnings.append(_describe(name, number_format, example))
    return table.replace_columns(replaced), tuple(warnings)


def normalize_decimal_commas(table: Table, columns: Sequence[str]) -> tuple[Table, tuple[str, ...]]:
    """The table with decimal points instead of decimal commas, and a warning for each column that changed.

    Only a table whose delimiter is a semicolon, and columns whose fractions all have decimal commas, are changed.
    """
    warnings, replaced = [], {}
    for name in columns if table.decimal_commas else ():
        index = column_index(table, name)
        cells = [row[index] for row in table.rows]
        if (points := replace_decimal_commas(cells)) is not None:
            replaced[index] = list(map(str, points))
            example = next(cell for cell, changed in zip(cells, points, strict=True) if cell != changed)
            warnings.append(_describe(name, NumberFormat(","), example.strip()))
    return table.replace_columns(replaced), tuple(warnings)


def replace_na_values(
    table: Table, columns: Sequence[str], classes: tuple[tuple[str, ...], ...] = ()
) -> tuple[Table, tuple[str, ...]]:
    """The table with empty cells in place of missing-value markers, and a warning about them, if there are any.

    A marker that is one of the classes of its column is unchanged.
    """
    replaced, names = {}, []
    total: Counter[str] = Counter()
    for t, name in enumerate(columns):
        index = column_index(table, name)
        cells = [row[index] for row in table.rows]
        counts = count_na_values(cells)
        for label in classes[t] if classes else ():
            del counts[label]
        if counts:
            replaced[index] = ["" if cell.strip() in counts else cell for cell in cells]
            names.append(name)
            total += counts
    return table.replace_columns(replaced), (describe_na_values(total, names),) if names else ()


def _rewrite(cell: str, number_format: NumberFormat) -> str:
    """The cell with its number in plain form, after the sign of a bound; other cells are unchanged."""
    sign, text = _split_sign(cell.strip())
    number = number_format.normalize(text)
    return cell if number is None or number == text else sign + number


def _split_sign(text: str) -> tuple[str, str]:
    """The sign of a bound, empty if there is none, and the rest of the cell."""
    if (bound := split_bound(text)) is None:
        return "", text
    return text[: len(text) - len(bound[1])], bound[1]


def _describe(name: str, number_format: NumberFormat, example: str) -> str:
    what = "decimal commas" if not number_format.thousands else f"thousands separators {number_format.thousands!r}"
    number = number_format.normalize(example)
    return f"column {short_repr(name)} has {what}: {short_repr(example)} is read as {number}"


def _describe_ambiguity(found: Sequence[tuple[NumberFormat, str]]) -> str:
    """The interpretations of the first ambiguous number, each with the option that selects it."""
    example = found[0][1]
    interpretations = [
        f"{f.normalize(example)} with "
        + (f"--thousands {f.thousands!r}" if f.thousands else f"--decimal {f.decimal!r}")
        for f, _ in found
    ]
    return f"is ambiguous: {short_repr(example)} is {' or '.join(interpretations)}; add one of these options"


def _format_error(table: Table, name: str, texts: Sequence[str], options: TableOptions) -> InputError:
    """The error for the first number of a column that does not have the configured format."""
    formats = _allowed_formats(options)
    flags = " ".join(f"--{k} {v!r}" for k, v in (("decimal", options.decimal), ("thousands", options.thousands)) if v)
    for row, text in enumerate(texts):
        if _NUMBER_LIKE.fullmatch(text) and all(f.normalize(text) is None for f in formats):
            return InputError(
                f"{table.source}, {table.location(row)}, column {short_repr(name)}: {short_repr(text)} does not match "
                f"{flags}: correct it, or leave the option out"
            )
    return InputError(f"{table.source}: not all numbers of column {short_repr(name)} match {flags}")
