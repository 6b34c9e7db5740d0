"""Cells parsed as numbers, with a reason for each that is not one."""

import math
import re
from collections.abc import Sequence

from molattn.data.tables.columns import format_names
from molattn.errors import short_repr

# Stricter than float(), which also takes 1_000, full-width digits, nan and infinity.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.ASCII)


def parse_numbers(cells: Sequence[object], names: Sequence[str]) -> tuple[list[float], str | None]:
    """The numbers in some cells of one row, NaN for an empty one, or the reason why they cannot be used.

    cells: text, or typed values, of which None and NaN are missing. names: those of their columns.
    """
    numbers = []
    for cell, name in zip(cells, names, strict=True):
        stripped = cell.strip() if isinstance(cell, str) else cell
        number = math.nan if stripped is None or stripped == "" else parse_finite(stripped)
        if number is None:
            hint = _hint(stripped) if isinstance(stripped, str) else ""
            return [], f"column {short_repr(name)}: {short_repr(cell)} is not a finite number{hint}"
        numbers.append(number)
    return numbers, None


def parse_required_numbers(cells: Sequence[object], names: Sequence[str]) -> tuple[list[float], str | None]:
    """As `parse_numbers`, but a missing value is a reason as well."""
    numbers, reason = parse_numbers(cells, names)
    missing = [name for number, name in zip(numbers, names, strict=False) if math.isnan(number)]
    if missing:
        return [], missing_value_reason(missing)
    return numbers, reason


def replace_decimal_commas(cells: Sequence[object]) -> list[object] | None:
    """The cells of a column with commas replaced by points, if it has fractions, all with decimal commas; else None.

    If a decimal point occurs as well, a comma may be a thousands separator.

    >>> replace_decimal_commas(["-11,01", "", "3"])
    ['-11.01', '', '3']
    """
    texts = [cell.strip() for cell in cells if isinstance(cell, str)]
    if not any(map(DECIMAL_COMMA.fullmatch, texts)) or any("." in t and NUMBER.fullmatch(t) for t in texts):
        return None
    return [
        cell.replace(",", ".") if isinstance(cell, str) and DECIMAL_COMMA.fullmatch(cell.strip()) else cell
        for cell in cells
    ]


def missing_value_reason(names: Sequence[str]) -> str:
    """The reason for rejecting a row without values in these columns."""
    return f"no value in column{'s' if len(names) > 1 else ''} {format_names(names)}"


def parse_finite(value: object) -> float | None:
    """The number, NaN for a missing one, None for a value that is not a finite number."""
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        return None
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isinf(number) else number


def _hint(text: str) -> str:
    if DECIMAL_COMMA.fullmatch(text):
        return f": write a decimal point, {text.replace(',', '.')}"
    if text.casefold() in ("nan", "na", "n/a", "n/d", "nd", "null", "none", "-", "?"):
        return ": leave the field empty for a missing value"
    if NUMBER.fullmatch(text.replace("\u2212", "-")) and "\u2212" in text:
        return ": write the minus sign as -"
    return ""
