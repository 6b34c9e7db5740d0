"""Missing-value markers: the words that pandas reads as NaN, and a few more that occur in laboratory tables."""

from collections import Counter
from collections.abc import Sequence

# The default `na_values` of pandas.read_csv, in any letter case.
_OF_PANDAS = (
    *("#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "-nan", "1.#ind", "1.#qnan", "<na>", "n/a", "na", "null"),
    *("nan", "none"),
)
MISSING = frozenset((*_OF_PANDAS, "n.a.", "n.a", "n/d", "n.d.", "n.d", "nd", "?"))
"""The words, in lower case."""

DASHES = frozenset(("-", "--", "\u2013", "\u2014"))
"""Markers as well, except in a column that also holds `+`: there `-` is the negative class."""


def is_missing_word(text: str) -> bool:
    """Whether a cell, without surrounding white space, is a missing-value marker."""
    return text in DASHES or text.casefold() in MISSING


def missing_words(cells: Sequence[str]) -> Counter[str]:
    """The count of each missing-value marker in the cells of a column, as written.

    >>> missing_words(["1.5", "NA", " NA ", "-", ""])
    Counter({'NA': 2, '-': 1})
    """
    found = Counter(text for cell in cells if is_missing_word(text := cell.strip()))
    if any(cell.strip() == "+" for cell in cells):
        for dash in DASHES:
            del found[dash]
    return found


def describe_missing_words(found: Counter[str], names: Sequence[str]) -> str:
    """The message that cells of the columns `names` were read as missing: how many, and the most frequent markers."""
    count = found.total()
    where = f"column {names[0]!r}" if len(names) == 1 else "the target columns"
    cells, are = ("1 cell", "is") if count == 1 else (f"{count:,} cells", "are")
    shown = ", ".join(f"{word!r} ({times:,})" for word, times in found.most_common(6))
    more = f" and {len(found) - 6} other words" if len(found) > 6 else ""
    return f"{cells} of {where} {are} read as missing: {shown}{more}"
