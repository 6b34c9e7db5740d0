"""Tables of text parsed into SMILES and numbers, with a reason for every row that is rejected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from molattn.data.tables.atom_lists import parse_list
from molattn.data.tables.bounds import LOWER, split_bound
from molattn.data.tables.columns import (
    format_names,
    guess_smiles_column,
    missing_value_reason,
    parse_finite,
    parse_numbers,
    parse_required_numbers,
    replace_decimal_commas,
)
from molattn.data.tables.table import Table, column, column_index
from molattn.errors import UsageError, short_repr


@dataclass(frozen=True)
class RejectedRow:
    """A row that cannot be used."""

    row: int
    """Its index among the data rows, from 0."""
    line: int
    """The number of the line on which it starts, or of another `unit`."""
    smiles: str
    reason: str
    unit: str = "line"
    """What `line` counts: "line", "record" or "sheet row", from 1, or "row", from 0."""

    @property
    def location(self) -> str:
        """Where it is in the source, such as `line 5`."""
        return f"{self.unit} {self.line}"


@dataclass(frozen=True)
class Records:
    """The n rows of a table that can be used, with t targets."""

    rows: npt.NDArray[np.int64]
    """(n,) their indices among the data rows, from 0, ascending."""
    smiles: list[str]
    """n SMILES, as in the table; they are not parsed here."""
    targets: npt.NDArray[np.float64]
    """(n, t), NaN for a missing value."""
    rejected: list[RejectedRow]
    """The rows that cannot be used, in the order of the table."""
    weights: npt.NDArray[np.float64] | None = None
    """(n,) sample weights, 0 or more; None without a weight column."""
    groups: list[str] | None = None
    """n names of groups, as in the table; None without a group column."""
    descriptors: npt.NDArray[np.float64] | None = None
    """(n, k) extra descriptors of each molecule, without missing values; None without descriptor columns."""
    atom_targets: list[list[npt.NDArray[np.float64]]] | None = None
    """n times t arrays with a value for each atom, NaN for a missing value, empty for an empty cell; `targets` is then
    (n, 0). None if the targets are those of molecules. The numbers of atoms are not checked here."""
    warnings: tuple[str, ...] = ()
    """Warnings about how the table was read."""
    bounds: npt.NDArray[np.float64] | None = None
    """(n, t, 2) the lower and the upper bounds of targets that are not known exactly, which are NaN in `targets`; NaN
    where there is none. None if there are no bounds at all."""


def read_records(
    table: Table,
    smiles_column: str | None,
    target_columns: Sequence[str],
    weight_column: str = "",
    group_column: str = "",
    of_atoms: bool = False,
    descriptor_columns: Sequence[str] = (),
) -> Records:
    """The SMILES and targets of a table; `smiles_column` None guesses it, `of_atoms` parses target cells as lists.

    An empty target is a missing value, and one such as >10 is a bound: see `molattn.data.tables.bounds`. If the
    delimiter of the table is a semicolon, decimal commas are read as such in columns whose fractions all have them. A
    row is rejected if a target is not a finite number, or all targets are missing; if its weight is not a number of 0
    or more, its group is empty, or a descriptor is not a finite number; and if the structure of its SDF record cannot
    be read. Without target columns no row is rejected for its targets.

    Raises UsageError for a column that is missing or requested twice.
    """
    if smiles_column is None:
        smiles_column = guess_smiles_column(table.columns, table.smiles_column)
    requested = {
        "smiles": [smiles_column],
        "target": target_columns,
        "weight": [weight_column] if weight_column else [],
        "group": [group_column] if group_column else [],
        "descriptor": descriptor_columns,
    }
    indices = {what: [column_index(table, name) for name in names] for what, names in requested.items()}
    all_indices = [index for found in indices.values() for index in found]
    if len(set(all_indices)) < len(all_indices):
        names = format_names(name for names in requested.values() for name in names)
        raise UsageError(
            f"a column is requested twice among the SMILES, target, weight, group and descriptor columns {names}"
        )

    used: list[int] = []
    values: list[list[float]] = []
    bounds: list[list[tuple[float, float]]] = []
    atom_targets: list[list[npt.NDArray[np.float64]]] = []
    weights: list[list[float]] = []
    groups: list[str] = []
    descriptors: list[list[float]] = []
    rejected: list[RejectedRow] = []
    all_smiles = column(table, smiles_column)
    numeric = [*(() if of_atoms else requested["target"]), *requested["weight"], *requested["descriptor"]]
    table, warnings = with_decimal_points(table, numeric)
    for row, (cells, line) in enumerate(zip(table.rows, table.lines, strict=True)):
        target, weight, group, descriptor = (
            [cells[index] for index in indices[what]] for what in ("target", "weight", "group", "descriptor")
        )
        numbers, of_bounds, found = [], [], []
        if of_atoms:
            found, no_target = parse_lists(target, target_columns)
            if not no_target and not any(np.isfinite(of_target).any() for of_target in found):
                no_target = missing_value_reason(target_columns)
        else:
            numbers, of_bounds, no_target = _targets(target, target_columns)
        weight, no_weight = _weight(weight, requested["weight"])
        described, no_descriptor = parse_required_numbers(descriptor, descriptor_columns)
        no_group = None if all(map(str.strip, group)) else missing_value_reason(requested["group"])
        reason = no_target or no_weight or no_group or no_descriptor
        if row in table.unreadable and not all_smiles[row]:
            reason = table.unreadable[row]
        if reason is None:
            used.append(row)
            values.append(numbers)
            bounds.append(of_bounds)
            atom_targets.append(found)
            weights.append(weight)
            groups += group
            descriptors.append(described)
        else:
            rejected.append(RejectedRow(row, line, all_smiles[row], reason, table.unit))
    n, k = len(used), len(descriptor_columns)
    return Records(
        rows=np.array(used, dtype=np.int64),
        smiles=[all_smiles[row] for row in used],
        targets=np.array(values, dtype=np.float64).reshape(n, 0 if of_atoms else len(target_columns)),
        rejected=rejected,
        weights=np.array(weights, dtype=np.float64).reshape(n) if weight_column else None,
        groups=groups if group_column else None,
        descriptors=np.array(descriptors, dtype=np.float64).reshape(n, k) if k else None,
        atom_targets=atom_targets if of_atoms else None,
        warnings=warnings,
        bounds=_bounds_array(bounds, len(target_columns)),
    )


def with_decimal_points(table: Table, names: Sequence[str]) -> tuple[Table, tuple[str, ...]]:
    """The table with decimal points instead of decimal commas, and a warning for each column that changed."""
    rows, warnings = table.rows, []
    for name in names if table.decimal_commas else ():
        index = column_index(table, name)
        before = [row[index] for row in rows]
        after = replace_decimal_commas(before)
        if after is None:
            continue
        rows = [[*row[:index], str(cell), *row[index + 1 :]] for row, cell in zip(rows, after, strict=True)]
        old, new = next((a, b) for a, b in zip(before, after, strict=True) if a != b)
        warnings.append(
            f"column {short_repr(name)} has decimal commas: {short_repr(old)} is read as {str(new).strip()}"
        )
    return (replace(table, rows=rows) if warnings else table), tuple(warnings)


def _targets(cells: Sequence[str], names: Sequence[str]) -> tuple[list[float], list[tuple[float, float]], str | None]:
    """The targets of one row, NaN for a missing one, and their bounds, or the reason why they cannot be used.

    The list of bounds is empty if there are none.
    """
    signs = [parse_bound(cell) for cell in cells]
    bounds = [(math.nan, math.nan) if sign is None else sign for sign in signs] if any(signs) else []
    numbers, reason = parse_numbers(["" if sign else cell for cell, sign in zip(cells, signs, strict=True)], names)
    if numbers and all(map(math.isnan, numbers)) and not bounds:
        return [], [], missing_value_reason(names)
    return numbers, bounds, reason


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


def _bounds_array(bounds: Sequence[Sequence[tuple[float, float]]], t: int) -> npt.NDArray[np.float64] | None:
    """The bounds of n rows, (n, t, 2), from their lists, which may be empty; None if all are."""
    if not any(bounds):
        return None
    none = [(math.nan, math.nan)] * t
    return np.array([of_row or none for of_row in bounds], dtype=np.float64)


def parse_lists(texts: Sequence[str], names: Sequence[str]) -> tuple[list[npt.NDArray[np.float64]], str | None]:
    """The lists of one row, empty for an empty cell, or the reason why they cannot be used."""
    lists: list[npt.NDArray[np.float64]] = []
    for text, name in zip(texts, names, strict=True):
        try:
            items = parse_list(text) if text.strip() else []
        except ValueError as error:
            return [], f"column {short_repr(name)}: {short_repr(text)}: {error}"
        for atom, item in enumerate(items):
            if item and parse_finite(item) is None:
                return [], f"column {short_repr(name)}, atom {atom} (from 0): {short_repr(item)} is not a finite number"
        lists.append(np.array([float(item) if item else math.nan for item in items], dtype=np.float64))
    return lists, None


def _weight(cells: Sequence[str], names: Sequence[str]) -> tuple[list[float], str | None]:
    """The weight of one row, if there is a weight column, or the reason why it cannot be used."""
    numbers, reason = parse_required_numbers(cells, names)
    if any(number < 0 for number in numbers):
        return [], f"column {short_repr(names[0])}: {short_repr(cells[0])} is below 0"
    return numbers, reason
