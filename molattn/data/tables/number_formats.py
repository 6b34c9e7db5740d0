"""Number formats: the decimal mark and the thousands separator of a column, inferred from its cells.

A column has one format: every cell that is a number in any format must match it. `decimal` and `thousands` have the
same meaning as in `pandas.read_csv`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from molattn.data.tables.options import DECIMALS, DEFAULT_TABLE_OPTIONS, THOUSANDS, TableOptions
from molattn.errors import InputError, short_ascii, short_repr

# Other characters that are used as a space and as an apostrophe between digits.
_VARIANTS = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
_DIGITS = re.compile(r"[+-]?\d+", re.ASCII)


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
    def pattern(self) -> re.Pattern[str]:
        """The numbers in this format, with or without separators."""
        mark, digits = re.escape(self.decimal), r"\d+"
        if self.thousands:
            digits = rf"(?:[1-9]\d{{0,2}}(?:[{_VARIANTS.get(self.thousands, self.thousands)}]\d{{3}})+|\d+)"
        return re.compile(rf"[+-]?(?:{digits}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?", re.ASCII)

    def normalize(self, text: str) -> str | None:
        """The number with a decimal point and without thousands separators; None if it does not have this format.

        >>> NumberFormat(",", ".").normalize("-1.234,5")
        '-1234.5'
        """
        if not self.pattern.fullmatch(text):
            return None
        for separator in _VARIANTS.get(self.thousands, self.thousands):
            text = text.replace(separator, "")
        return text.replace(self.decimal, ".")


PLAIN = NumberFormat()
"""The format of numbers that Python reads: a decimal point and no thousands separators."""

NUMBER_FORMATS = tuple(NumberFormat(d, t) for d in DECIMALS for t in ("", *THOUSANDS) if t != d)
"""All formats, those with a decimal point first."""


def is_number(text: str) -> bool:
    """Whether a text without surrounding whitespace is a number in any format."""
    return any(f.pattern.fullmatch(text) for f in NUMBER_FORMATS)


def has_grouped_digits(text: str) -> bool:
    """Whether a text is a number with spaces between groups of three digits, such as 1 234, which is not a list."""
    return any(NumberFormat(mark, " ").normalize(text) is not None for mark in DECIMALS)


@dataclass(frozen=True)
class EquivalentFormats:
    """Formats with which all cells of a column have the same values.

    Attributes:
        formats: one or more formats.
        example: the first number that is not plain in these formats, and so is rewritten; empty if all are plain.
    """

    formats: tuple[NumberFormat, ...]
    example: str = ""

    @property
    def format(self) -> NumberFormat:
        """One of the formats."""
        return self.formats[0]

    @property
    def decimal(self) -> str:
        """The decimal mark; empty if no number has one, so that it is unknown."""
        marks = {f.decimal for f in self.formats}
        return self.format.decimal if len(marks) == 1 else ""

    def describe(self, name: str) -> str:
        """The warning that the column `name` is read with these formats."""
        thousands = self.format.thousands
        what = f"thousands separators {thousands!r}" if thousands else "decimal commas"
        number = self.format.normalize(self.example)
        return f"column {short_repr(name)} has {what}: {short_ascii(self.example)} is read as {number}"


class FormatCandidates:
    """The formats that all numbers of a column match; there are fewer with each number that is added.

    Args:
        options: the decimal mark and the thousands separator; empty ones are inferred.
    """

    def __init__(self, options: TableOptions = DEFAULT_TABLE_OPTIONS):
        self._options = options
        decimal, thousands = options.decimal, options.thousands
        self._allowed = tuple(
            f for f in NUMBER_FORMATS if decimal in ("", f.decimal) and thousands in ("", f.thousands)
        )
        self._possible = (EquivalentFormats(self._allowed),)
        self.contradiction = ""
        """The first number that matches none of the formats of all numbers before it; empty if there is none."""

    def add(self, texts: Iterable[str]) -> None:
        """Exclude the formats that one of the numbers does not match.

        Args:
            texts: cells without surrounding whitespace; a text that is a number in no format is ignored.
        """
        for text in dict.fromkeys(texts):
            # Most numbers exclude no format: digits alone match all formats, a plain number all with a decimal point.
            if _DIGITS.fullmatch(text) or (self._has_points and PLAIN.pattern.fullmatch(text)):
                continue
            if possible := _narrow(self._possible, text):
                self._possible = possible
            elif self._possible and is_number(text):
                self._possible, self.contradiction = (), text

    @property
    def _has_points(self) -> bool:
        return all(formats.decimal == "." for formats in self._possible)

    def choose(self, where: str, comma_first: bool = False) -> EquivalentFormats:
        """The format of the column: the plain one if all numbers are plain, else the only one that all numbers match.

        It is the plain one as well if no format matches all numbers; numbers that are not plain are invalid then.

        Args:
            where: the table and the column, for errors.
            comma_first: whether a comma that may be a decimal mark or a thousands separator is the decimal mark, as if
                the delimiter is a semicolon.

        Raises InputError if formats with different values are possible, or if a number does not match `options`.
        """
        if self.contradiction and (self._options.decimal or self._options.thousands):
            raise InputError(f"{where}: {short_ascii(self.contradiction)} {self._why_contradictory()}")
        if plain := [formats for formats in self._possible if not formats.example]:
            return plain[0]
        possible = [f for f in self._possible if comma_first and f.decimal == ","] or self._possible
        if len(possible) > 1:
            example = possible[0].example
            values = (
                f"{f.format.normalize(example)} with "
                + (f"--thousands {f.format.thousands!r}" if f.format.thousands else f"--decimal {f.format.decimal!r}")
                for f in possible
            )
            raise InputError(
                f"{where} is ambiguous: {short_ascii(example)} is {' or '.join(values)}; add one of these options"
            )
        return possible[0] if possible else EquivalentFormats((PLAIN,))

    def _why_contradictory(self) -> str:
        options = (("decimal", self._options.decimal), ("thousands", self._options.thousands))
        used = " ".join(f"--{name} {mark!r}" for name, mark in options if mark)
        if any(f.pattern.fullmatch(self.contradiction) for f in self._allowed):
            return f"has another format than the numbers before it, with {used}: correct it"
        return f"does not match {used}: correct it, or leave the option out"


def first_mismatch(texts: Sequence[str], formats: EquivalentFormats) -> int:
    """The index of the first number that matches none of the formats that all numbers before it match.

    Raises ValueError if there is none.
    """
    possible: tuple[EquivalentFormats, ...] = (formats,)
    for index, text in enumerate(texts):
        narrowed = _narrow(possible, text)
        if not narrowed and is_number(text):
            return index
        possible = narrowed or possible
    raise ValueError("all numbers have one of the formats")


def _narrow(possible: Iterable[EquivalentFormats], text: str) -> tuple[EquivalentFormats, ...]:
    """The formats of `possible` that the number `text` matches, grouped by its value in them."""
    narrowed: list[EquivalentFormats] = []
    for formats in possible:
        by_number: dict[str, list[NumberFormat]] = {}
        for number_format in formats.formats:
            if (number := number_format.normalize(text)) is not None:
                by_number.setdefault(number, []).append(number_format)
        for number, equivalent in by_number.items():
            narrowed.append(EquivalentFormats(tuple(equivalent), formats.example or ("" if number == text else text)))
    return tuple(narrowed)
