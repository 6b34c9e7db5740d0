"""Censored labels, such as `>10` and `<= 6.1`: only a lower or an upper bound of the value is known."""

import re

import numpy as np

_BOUND = re.compile("(>=|=>|>{1,2}|\u2265|\u2a7e|<=|=<|<{1,2}|\u2264|\u2a7d)\\s*(.*)", re.DOTALL)
_FIRST = frozenset("<>=\u2264\u2265\u2a7d\u2a7e")

LOWER, UPPER = 0, 1
"""Indices of the lower and the upper bound in an array of bounds, (n, T, 2); NaN where there is none."""


def split_bound(text: str) -> tuple[int, str] | None:
    """`LOWER` or `UPPER`, and the text after the sign; None for a cell without a sign.

    Strict and other bounds are not distinguished: `>10` and `>=10` are the same bound.

    >>> split_bound(" > 100")
    (0, '100')
    """
    text = text.strip()
    if text[:1] not in _FIRST or (match := _BOUND.fullmatch(text)) is None:
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
