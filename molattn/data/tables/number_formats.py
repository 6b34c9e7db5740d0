"""Number formats: the decimal mark and the thousands separator of a column, found in its cells.

A column has one format: one in which every cell reads that is a number in any format. `decimal` and `thousands` mean
the same as in `pandas.read_csv`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from molattn.data.tables.options import DECIMALS, DEFAULT_TABLE_OPTIONS, THOUSANDS, TableOptions
from molattn.errors import InputError, short_repr

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
"""The format of numbers that are left as they are."""

NUMBER_FORMATS = tuple(NumberFormat(d, t) for d in DECIMALS for t in ("", *THOUSANDS) if t != d)
"""All formats, those with a decimal point first."""


def is_number(text: str) -> bool:
    """Whether a text without surrounding white space is a number in any format."""
    return any(f.pattern.fullmatch(text) for f in NUMBER_FORMATS)


def has_grouped_digits(text: str) -> bool:
    """Whether a text is a number with spaces between groups of three digits, such as 1 234, and may not be a list."""
    return any(NumberFormat(mark, " ").normalize(text) is not None for mark in DECIMALS)


@dataclass(frozen=True)
class Reading:
    """Formats that give a column the same numbers.

    Attributes:
        formats: one or more of them.
        example: the first number that they rewrite; empty if there is none.
    """

    formats: tuple[NumberFormat, ...]
    example: str = ""

    @property
    def format(self) -> NumberFormat:
        """One of the formats."""
        return self.formats[0]

    @property
    def decimal(self) -> str:
        """The decimal mark; empty if the numbers have none, so that it could be either."""
        marks = {f.decimal for f in self.formats}
        return self.format.decimal if len(marks) == 1 else ""

    def describe(self, name: str) -> str:
        """The warning that the column `name` is read in this way."""
        thousands = self.format.thousands
        what = f"thousands separators {thousands!r}" if thousands else "decimal commas"
        number = self.format.normalize(self.example)
        return f"column {short_repr(name)} has {what}: {short_repr(self.example)} is read as {number}"


class FormatCandidates:
    """The formats in which all numbers of a column read, narrowed down while its cells are added.

    Args:
        options: the decimal mark and the thousands separator, if they are known.
    """

    def __init__(self, options: TableOptions = DEFAULT_TABLE_OPTIONS):
        self._options = options
        decimal, thousands = options.decimal, options.thousands
        self._allowed = tuple(
            f for f in NUMBER_FORMATS if decimal in ("", f.decimal) and thousands in ("", f.thousands)
        )
        self._readings = (Reading(self._allowed),)
        self.contradiction = ""
        """The first number that none of the formats reads in which all numbers before it read; empty if there is
        none."""

    def add(self, texts: Iterable[str]) -> None:
        """Leave out the formats in which one of the numbers does not read.

        Args:
            texts: cells without surrounding white space; a text that is a number in no format is ignored.
        """
        for text in dict.fromkeys(texts):
            # Most numbers exclude nothing: whole ones read alike in all formats, plain ones in all with a point.
            if _DIGITS.fullmatch(text) or (self._has_points and PLAIN.pattern.fullmatch(text)):
                continue
            if readings := _narrow(self._readings, text):
                self._readings = readings
            elif self._readings and is_number(text):
                self._readings, self.contradiction = (), text

    @property
    def _has_points(self) -> bool:
        return all(reading.decimal == "." for reading in self._readings)

    def choose(self, where: str, comma_first: bool = False) -> Reading:
        """The reading of the column: the numbers as they are, if all are plain, else the only one that is possible.

        Without a format for all numbers they stay as they are, too: those that are not plain cannot be used.

        Args:
            where: the table and the column, for errors.
            comma_first: whether a comma that may be either is the decimal mark, as between semicolons.

        Raises InputError if there are two readings, or if the numbers do not have the format of `options`.
        """
        if self.contradiction and (self._options.decimal or self._options.thousands):
            raise InputError(f"{where}: {short_repr(self.contradiction)} {self._why_contradictory()}")
        if unchanged := [reading for reading in self._readings if not reading.example]:
            return unchanged[0]
        readings = [r for r in self._readings if comma_first and r.decimal == ","] or self._readings
        if len(readings) > 1:
            example = readings[0].example
            possible = (
                f"{r.format.normalize(example)} with "
                + (f"--thousands {r.format.thousands!r}" if r.format.thousands else f"--decimal {r.format.decimal!r}")
                for r in readings
            )
            raise InputError(
                f"{where} is ambiguous: {short_repr(example)} is {' or '.join(possible)}; add one of these options"
            )
        return readings[0] if readings else Reading((PLAIN,))

    def _why_contradictory(self) -> str:
        flags = (("decimal", self._options.decimal), ("thousands", self._options.thousands))
        given = " ".join(f"--{name} {mark!r}" for name, mark in flags if mark)
        if any(f.pattern.fullmatch(self.contradiction) for f in self._allowed):
            return f"has another format than the numbers before it, with {given}: correct it"
        return f"does not match {given}: correct it, or leave the option out"


def first_misfit(texts: Sequence[str], reading: Reading) -> int:
    """The index of the first number that does not read in any of the formats, of which those before it leave fewer.

    Raises ValueError if there is none.
    """
    readings: tuple[Reading, ...] = (reading,)
    for index, text in enumerate(texts):
        narrowed = _narrow(readings, text)
        if not narrowed and is_number(text):
            return index
        readings = narrowed or readings
    raise ValueError("all numbers have one of the formats")


def _narrow(readings: Iterable[Reading], text: str) -> tuple[Reading, ...]:
    """The formats of `readings` in which the number `text` reads, those that give it the same value together."""
    narrowed: list[Reading] = []
    for reading in readings:
        formats: dict[str, list[NumberFormat]] = {}
        for number_format in reading.formats:
            if (number := number_format.normalize(text)) is not None:
                formats.setdefault(number, []).append(number_format)
        for number, alike in formats.items():
            narrowed.append(Reading(tuple(alike), reading.example or ("" if number == text else text)))
    return tuple(narrowed)
