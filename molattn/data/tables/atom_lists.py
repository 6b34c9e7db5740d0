"""Cells with a list of one value for each atom, and the rows of labels of each molecule."""

import ast
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_MISSING = frozenset(("", "null", "none", "nan"))
# The syntax of JSON.
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_EXAMPLE = "write a list such as [0.1, -0.2, null]"


def parse_list(text: str) -> list[str]:
    """The values of a list in a cell, as text; empty for a missing value.

    The list may be JSON (`[0.1, -0.2, null]`), printed by Python (`[0.1, None]`) or NumPy (`[0.1 nan]`), or numbers
    separated by whitespace. null, None and NaN are missing; true is 1 and false 0.

    Raises:
        ValueError: it is not such a list; the message says why.

    >>> parse_list("[0.1, -2e-3, null]")
    ['0.1', '-2e-3', '']
    """
    stripped = text.strip()
    if stripped.startswith("[") != stripped.endswith("]"):
        raise ValueError(f"its brackets do not match: {_EXAMPLE}")
    inner = stripped[1:-1].strip() if stripped.startswith("[") else stripped
    if not inner:
        raise ValueError(f"it is an empty list: leave the field empty, or {_EXAMPLE}")
    if "[" in inner or "{" in inner:
        raise ValueError(f"it holds a list within a list: {_EXAMPLE}")
    if '"' in inner or "'" in inner:
        return list(map(_normalize, _parse_quoted(stripped)))
    items = [item.strip() for item in inner.split(",")] if "," in inner else inner.split()
    if "" in items:
        raise ValueError(f"a value is missing between two commas: write null for a missing value, {_EXAMPLE}")
    return list(map(_normalize, items))


def format_list(items: Sequence[str]) -> str:
    """The cell of a list, in JSON: numbers are unchanged, other strings are quoted, and an empty string is null.

    >>> format_list(["0.5", "", "sp2"])
    '[0.5, null, "sp2"]'
    """
    return f"[{', '.join(map(_format_item, items))}]"


def offsets_from_counts(counts: Sequence[int] | np.ndarray) -> npt.NDArray[np.int64]:
    """(n + 1,) the offsets of the rows of n consecutive molecules; `counts` are their numbers of rows.

    >>> offsets_from_counts([2, 1, 3]).tolist()
    [0, 2, 3, 6]
    """
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))])


def label_rows(offsets: npt.NDArray[np.int64], molecules: Sequence[int] | np.ndarray) -> npt.NDArray[np.int64]:
    """The rows of the labels of some molecules, molecule by molecule.

    Args:
        offsets: (n + 1,), see `offsets_from_counts`: a molecule has one row of labels, or one for each atom.
        molecules: indices of molecules.

    >>> label_rows(offsets_from_counts([2, 1, 3]), [2, 0]).tolist()
    [3, 4, 5, 0, 1]
    """
    chosen = np.asarray(molecules, dtype=np.int64)
    starts, sizes = offsets[chosen], offsets[chosen + 1] - offsets[chosen]
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def _parse_quoted(text: str) -> list[Any]:
    """The items of a list with quoted strings, in the syntax of JSON or Python."""
    for read in (json.loads, ast.literal_eval):
        try:
            items = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(items, list):
            return items
    raise ValueError(f'it is not a list: write ["a", "b", null] or {_EXAMPLE}')


def _format_item(item: str) -> str:
    if not item:
        return "null"
    return item if _NUMBER.fullmatch(item) else json.dumps(item)


def _normalize(item: Any) -> str:
    if item is True or item is False:
        return str(int(item))
    text = "" if item is None else str(item).strip()
    lower = text.casefold()
    return "" if lower in _MISSING else {"true": "1", "false": "0"}.get(lower, text)
