"""The encoded target columns of a table, and their cells that hold no label."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from molattn.data.tables.table import Table
from molattn.errors import InputError

GENERAL_ADVICE = (
    "correct or empty them, choose other --target-columns, or raise --max-unreadable to continue without them"
)
MAX_SHOWN_CELLS = 3
"""The maximum number of unreadable cells that an error shows."""


@dataclass(frozen=True)
class UnreadableCell:
    """A target cell that is not empty and holds no label.

    Attributes:
        row: of the table, from 0.
        reason: its column, what is written there, and why that is no label.
    """

    row: int
    reason: str


@dataclass(frozen=True)
class EncodedTable:
    """A table whose target columns hold numbers.

    Attributes:
        table: with empty cells in place of words for a missing value, and of bounds that cannot be used; for classes
            with the index of the class in each cell, or in each item of its list.
        classes: the names of the classes of each target, the negative one of two first; empty if there are none.
        reasons: why a row has no valid class, no valid list, or only bounds that cannot be used, by row; the targets of
            such a row are empty in `table`.
        warnings: messages for the user.
        unreadable: the target cells that hold no label.
        num_cells: the number of target cells that are not empty.
        advice: what to do if too many cells are unreadable; empty for the general advice.
    """

    table: Table
    classes: tuple[tuple[str, ...], ...] = ()
    reasons: dict[int, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    unreadable: tuple[UnreadableCell, ...] = ()
    num_cells: int = 0
    advice: str = ""


def check_unreadable(
    table: Table, unreadable: Sequence[UnreadableCell], num_cells: int, max_share: float, advice: str = ""
) -> None:
    """Raise InputError if too many target cells cannot be read: a wrong column or number format is likely.

    Args:
        table: the table, for the places of the cells in messages.
        unreadable: the cells that cannot be read.
        num_cells: the number of target cells that are not empty.
        max_share: the largest share of these that may be unreadable.
        advice: see `EncodedTable`.
    """
    if len(unreadable) <= max_share * num_cells:
        return
    first = sorted(unreadable, key=lambda cell: cell.row)[:MAX_SHOWN_CELLS]
    shown = "; ".join(f"{table.location(cell.row)}, {cell.reason}" for cell in first)
    share = f"{100 * len(unreadable) / num_cells:.3g}%, and --max-unreadable allows {100 * max_share:g}%"
    raise InputError(
        f"{table.source}: {len(unreadable):,} of {num_cells:,} target values cannot be read ({share}); {shown}; "
        f"{advice or GENERAL_ADVICE}"
    )
