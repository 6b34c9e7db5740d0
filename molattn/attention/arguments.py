"""Validation of layer arguments: names, sizes and probabilities."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import TypeVar

from molattn.errors import unknown_choice

T = TypeVar("T")


def resolve_name(choice: str | T, table: Mapping[str, T], kind: str) -> T:
    """The entry of `table` that `choice` names; a choice that is not a name is returned unchanged.

    Raises:
        ValueError: the name is unknown; the message lists the known ones and begins with "unknown" and `kind`.
        TypeError: the choice is neither a name nor a function.
    """
    if not isinstance(choice, str):
        if not callable(choice):
            raise TypeError(f"the {kind} is a name or a function, not {choice!r}")
        return choice
    if choice not in table:
        raise ValueError(unknown_choice(kind, choice, table, "a function"))
    return table[choice]


def check_sizes(at_least: int = 1, /, **sizes: int | None) -> None:
    """Checks that every size is an integer of at least `at_least`; None means not set.

    Raises:
        ValueError: a size is invalid; the message names it.
    """
    for name, size in sizes.items():
        if not isinstance(size, Integral | None):
            raise ValueError(f"{name} must be an integer, not {size}")
        if size is not None and size < at_least:
            raise ValueError(f"{name} must be at least {at_least}, not {size}")


def check_dropout(p: float) -> None:
    """Checks that a dropout probability is in [0, 1): with p = 1 nothing would be learned.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(p, Real) or not 0 <= p < 1:
        raise ValueError(f"dropout probability must be from 0 to below 1, not {p!r}")
