"""Parsing of text cells: numbers, bounds such as `>10` and `<= 6.1` (censored labels), and missing-value markers."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from molattn.data.tables.columns import format_names
from molattn.data.tables.number_formats import PLAIN, NumberFormat
from molattn.errors import short_ascii, short_repr

NUMBER = PLAIN.pattern
"""Matches numbers; stricter than `float`, which also accepts 1_000, full-width digits, nan and infinity."""
_APPROXIMATE = "~\u2248\u223c"

_BOUND = re.compile("(>=|=>|>{1,2}|\u2265|\u2a7e|<=|=<|<{1,2}|\u2264|\u2a7d)\\s*(.*)", re.DOTALL)
_BOUND_SIGNS = frozenset("<>=\u2264\u2265\u2a7d\u2a7e")

LOWER, UPPER = 0, 1
"""Indices of the lower and the upper bound in an array of bounds, (n, T, 2); NaN where there is none."""

# The default `na_values` of pandas.read_csv, in any letter case.
_PANDAS_NA_VALUES = (
    *("#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "-nan", "1.#ind", "1.#qnan", "<na>", "n/a", "na", "null"),
    *("nan", "none"),
)
NA_VALUES = frozenset((*_PANDAS_NA_VALUES, "n.a.", "n.a", "n/d", "n.d.", "n.d", "nd", "?"))
"""Missing-value markers, in lower case: those of pandas, and some that occur in laboratory tables."""

DASHES = frozenset(("-", "--", "\u2013", "\u2014"))
"""Further missing-value markers, except in a column that also contains `+`, where `-` is the negative class."""


def parse_numbers(cells: Sequence[object], names: Sequence[str]) -> tuple[list[float], str | None]:
    """Parse cells of one row as numbers.

    Args:
        cells: text, or typed values, of which None and NaN are missing.
        names: the names of their columns.

    Returns:
        The numbers, NaN for a missing one, and None; or an empty list and the reason why a cell is not a number.
    """
    numbers = []
    for cell, name in zip(cells, names, strict=True):
        stripped = cell.strip() if isinstance(cell, str) else cell
        number = math.nan if stripped is None or stripped == "" else parse_finite(stripped)
        if number is None:
            hint = _hint(stripped) if isinstance(stripped, str) else ""
            return [], f"column {short_repr(name)}: {short_ascii(cell)} is not a finite number{hint}"
        numbers.append(number)
    return numbers, None


def parse_required_numbers(cells: Sequence[object], names: Sequence[str]) -> tuple[list[float], str | None]:
    """As `parse_numbers`, but a missing value is not allowed either."""
    numbers, reason = parse_numbers(cells, names)
    missing = [name for number, name in zip(numbers, names, strict=False) if math.isnan(number)]
    if missing:
        return [], missing_value_reason(missing)
    return numbers, reason


def missing_value_reason(names: Sequence[str]) -> str:
    """The reason for rejecting a row without values in these columns."""
    return f"no value in column{'s' if len(names) > 1 else ''} {format_names(names)}"


def parse_finite(value: object) -> float | None:
    """The number, NaN for the float NaN; None for a value that is not a number or is infinite."""
    if isinstance(value, bytes) or (isinstance(value, str) and not NUMBER.fullmatch(value)):
        return None
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isinf(number) else number


def _hint(text: str) -> str:
    """How to correct a text that is not a number, to be appended to the reason; empty if that is not known."""
    if "," in text and (number := NumberFormat(",").normalize(text)) is not None:
        return f": write a decimal point, {number}"
    if is_na_value(text):
        return ": leave the field empty for a missing value"
    if text[:1] in _APPROXIMATE and NUMBER.fullmatch(exact := text.lstrip(_APPROXIMATE + " ")):
        return f", but an approximate one: write {exact} to use it as exact"
    if NUMBER.fullmatch(text.replace("\u2212", "-")) and "\u2212" in text:
        return ": write the minus sign as -"
    return ""


def split_bound(text: str) -> tuple[int, str] | None:
    """Split a cell into `LOWER` or `UPPER`, and the text after the sign; None for a cell without a sign.

    Strict bounds are not distinguished from others: `>10` and `>=10` are the same bound.

    >>> split_bound(" > 100")
    (0, '100')
    """
    text = text.strip()
    if text[:1] not in _BOUND_SIGNS or (match := _BOUND.fullmatch(text)) is None:
        return None
    return LOWER if match[1].strip("=") in (">", ">>", "\u2265", "\u2a7e") else UPPER, match[2].strip()


def format_bound(lower: float, upper: float) -> str:
    """A bound as text, `>10.0`; empty if both are NaN."""
    if np.isfinite(lower):
        return f">{float(lower)!r}"
    return f"<{float(upper)!r}" if np.isfinite(upper) else ""


def has_bounds(bounds: np.ndarray) -> np.ndarray:
    """(n, T), True where a label is a bound; `bounds` is (n, T, 2)."""
    return np.isfinite(bounds[..., LOWER]) | np.isfinite(bounds[..., UPPER])


def parse_bound(cell: str) -> tuple[float, float] | None:
    """The lower and the upper bound in a cell, one of them NaN; None for a cell without a bound.

    >>> parse_bound("<= 6.1")
    (nan, 6.1)
    """
    if (split := split_bound(cell)) is None:
        return None
    side, text = split
    number = parse_finite(text)
    if number is None:
        return None
    return (number, math.nan) if side == LOWER else (math.nan, number)


def is_na_value(text: str) -> bool:
    """Whether a cell, without surrounding whitespace, is a missing-value marker."""
    return text in DASHES or text.casefold() in NA_VALUES


def count_na_values(cells: Sequence[str]) -> Counter[str]:
    """The number of cells of a column with each missing-value marker, as written.

    >>> count_na_values(["1.5", "NA", " NA ", "-", ""])
    Counter({'NA': 2, '-': 1})
    """
    counts = Counter(text for cell in cells if is_na_value(text := cell.strip()))
    if any(cell.strip() == "+" for cell in cells):
        for dash in DASHES:
            del counts[dash]
    return counts


def describe_na_values(counts: Counter[str], names: Sequence[str]) -> str:
    """The warning that cells of the columns `names` were read as missing: how many, and the most frequent markers."""
    total = counts.total()
    where = f"column {names[0]!r}" if len(names) == 1 else "the target columns"
    cells, are = ("1 cell", "is") if total == 1 else (f"{total:,} cells", "are")
    frequent = ", ".join(f"{marker!r} ({count:,})" for marker, count in counts.most_common(6))
    more = f" and {len(counts) - 6} other markers" if len(counts) > 6 else ""
    return f"{cells} of {where} {are} read as missing: {frequent}{more}"
