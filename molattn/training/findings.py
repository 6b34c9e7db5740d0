"""The finding of a check of the data: one sentence, and whether it needs attention."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_EXAMPLES = 10
"""The maximum number of examples in the details of a finding."""


@dataclass(frozen=True)
class Finding:
    """The result of a check of the data.

    Attributes:
        check: the name of the check: "replicates", "fragments", "standardize", "size", "range", "labels", "classes",
            "splits" or "reading".
        message: one sentence.
        needs_attention: whether it can make the model or its metrics worse; otherwise it is for information.
        details: numbers and examples, plain values.
    """

    check: str
    message: str
    needs_attention: bool = True
    details: dict[str, Any] = field(default_factory=dict)


def count_noun(number: int, one: str, several: str) -> str:
    """`1 row is`, `2 rows are`."""
    return f"{number:,} {one if number == 1 else several}"


def list_words(values: Sequence[object], limit: int = 5) -> str:
    """The first values as text: `1, 2 and 3`, or `1, 2, ...` beyond the limit."""
    shown = [str(value) for value in values[:limit]]
    if len(values) > limit:
        return f"{', '.join(shown)}, ..."
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
