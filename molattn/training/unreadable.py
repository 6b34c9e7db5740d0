"""Target cells of regression: bounds, cells that hold no label, and the limit on the number of the latter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from molattn.data.tables.columns import parse_numbers
from molattn.data.tables.records import parse_bound, parse_lists
from molattn.data.tables.table import Table, column_index
from molattn.errors import InputError, short_repr

SHOWN = 3
"""The number of cells that an error shows."""


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
class NumberCells:
    """Target columns of numbers.

    Attributes:
        table: with empty cells in place of bounds that cannot be used.
        unreadable: the cells that hold no label, those bounds among them.
        num_cells: the number of cells that are not empty.
        reasons: why a row has no label, by row, if it had only such bounds.
        warnings: messages for the user.
    """

    table: Table
    unreadable: tuple[UnreadableCell, ...]
    num_cells: int
    reasons: dict[int, str]
    warnings: tuple[str, ...] = ()


def read_number_cells(table: Table, columns: Sequence[str], of_atoms: bool, no_bounds: str) -> NumberCells:
    """Find the target cells that hold no number and no bound, or a bound that cannot be used.

    Args:
        table, columns: the table and its target columns.
        of_atoms: whether a cell holds a list, with a value for each atom.
        no_bounds: why bounds cannot be used; empty if they can.
    """
    positions = [column_index(table, name) for name in columns]
    unreadable: list[UnreadableCell] = []
    rows, reasons, num_cells, num_bounds, example = list(table.rows), {}, 0, 0, ""
    for name, position in zip(columns, positions, strict=True):
        for row, cells in enumerate(table.rows):
            if not (cell := cells[position]).strip():
                continue
            num_cells += 1
            reason = parse_lists([cell], [name])[1] if of_atoms else parse_numbers([cell], [name])[1]
            is_bound = reason is not None and not of_atoms and parse_bound(cell) is not None
            if reason is None or (is_bound and not no_bounds):
                continue
            if is_bound:
                reason = f"column {short_repr(name)}: {short_repr(cell)} is a bound, and {no_bounds}"
                num_bounds, example = num_bounds + 1, example or cell
                rows[row] = [*rows[row][:position], "", *rows[row][position + 1 :]]
                if not any(rows[row][k].strip() for k in positions):
                    reasons[row] = reason
            unreadable.append(UnreadableCell(row, reason))
    warnings = ()
    if num_bounds:
        what = "1 label is a bound" if num_bounds == 1 else f"{num_bounds:,} labels are bounds"
        warnings = (f"{what}, such as {short_repr(example)}, and missing, because {no_bounds}",)
        table = replace(table, rows=rows)
    return NumberCells(table, tuple(unreadable), num_cells, reasons, warnings)


def check_unreadable(table: Table, unreadable: Sequence[UnreadableCell], num_cells: int, max_share: float) -> None:
    """Raise InputError if too many target cells cannot be read: a wrong column or number format is likely.

    Args:
        table: the table, for the places of the cells in messages.
        unreadable: the cells that cannot be read.
        num_cells: the number of target cells that are not empty.
        max_share: the largest share of these that may be unreadable.
    """
    if len(unreadable) <= max_share * num_cells:
        return
    first = sorted(unreadable, key=lambda cell: cell.row)[:SHOWN]
    shown = "; ".join(f"{table.location(cell.row)}, {cell.reason}" for cell in first)
    share = f"{100 * len(unreadable) / num_cells:.3g}%, and --max-unreadable allows {100 * max_share:g}%"
    raise InputError(
        f"{table.source}: {len(unreadable):,} of {num_cells:,} target values cannot be read ({share}); {shown}; "
        "correct or empty them, choose other --target-columns, or raise --max-unreadable to go on without them"
    )
