"""From a table of text to SMILES and numbers, with a reason for every row that cannot be used."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from molattn.data.tables.atom_lists import parse_list
from molattn.data.tables.columns import format_names, guess_smiles_column
from molattn.data.tables.numbers import (
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
    """Its place among the data rows, from 0."""
    line: int
    """The line in the file that it starts on; in a source without lines the record, from 1, or the row, from 0."""
    smiles: str
    reason: str
    unit: str = "line"
    """What `line` counts: "line", "record" or "row"."""

    @property
    def place(self) -> str:
        """Where it stands, in words: `line 5`."""
        return f"{self.unit} {self.line}"


@dataclass(frozen=True)
class Records:
    """The rows of a table that can be used: n of them, with t targets."""

    rows: npt.NDArray[np.int64]
    """(n,) where each stands among the data rows, from 0, ascending."""
    smiles: list[str]
    """n SMILES, as written in the table; whether they are molecules is not looked at here."""
    targets: npt.NDArray[np.float64]
    """(n, t), NaN where the table has no value."""
    rejected: list[RejectedRow]
    """The other rows, in the order of the table."""
    weights: npt.NDArray[np.float64] | None = None
    """(n,) how much each row counts, 0 or more; None where no column says so."""
    groups: list[str] | None = None
    """n names of what each row belongs to, as written; None where no column says so."""
    descriptors: npt.NDArray[np.float64] | None = None
    """(n, k) numbers that stand beside each molecule, none missing; None where no column is asked for."""
    lists: list[list[npt.NDArray[np.float64]]] | None = None
    """n times t lists of numbers, NaN where missing, none in an empty cell; None where targets are of molecules.
    `targets` is then (n, 0). Whether a list fits its molecule is not looked at here."""
    warnings: tuple[str, ...] = ()
    """What a user should know of how they were read."""


def read_records(
    table: Table,
    smiles_column: str | None,
    target_columns: Sequence[str],
    weight_column: str = "",
    group_column: str = "",
    of_atoms: bool = False,
    descriptor_columns: Sequence[str] = (),
) -> Records:
    """The SMILES and targets of a table; `smiles_column` None guesses, `of_atoms` reads a list from every target cell.

    An empty target is a missing value. A column of numbers whose fractions all have decimal commas is read so where the
    table's cells are parted by semicolons. A row is rejected when a target is not a finite number, or when it has
    targets and all of them are missing; when its weight is not a number of 0 or more, its group is empty, or a
    descriptor is no finite number; and when its source holds the molecule in a form that cannot be read. With no
    target columns every other row is kept.

    Raises UsageError for a column that is not there or is named twice.
    """
    if smiles_column is None:
        smiles_column = guess_smiles_column(table.columns, table.smiles_column)
    asked = {
        "smiles": [smiles_column],
        "target": target_columns,
        "weight": [weight_column] if weight_column else [],
        "group": [group_column] if group_column else [],
        "descriptor": descriptor_columns,
    }
    places = {what: [column_index(table, name) for name in names] for what, names in asked.items()}
    every = [place for found in places.values() for place in found]
    if len(set(every)) < len(every):
        names = format_names(name for names in asked.values() for name in names)
        raise UsageError(
            f"a column is asked for twice among the SMILES, target, weight, group and descriptor columns {names}"
        )

    kept: list[int] = []
    values: list[list[float]] = []
    lists: list[list[npt.NDArray[np.float64]]] = []
    weights: list[list[float]] = []
    groups: list[str] = []
    descriptors: list[list[float]] = []
    rejected: list[RejectedRow] = []
    all_smiles = column(table, smiles_column)
    of_numbers = [*(() if of_atoms else asked["target"]), *asked["weight"], *asked["descriptor"]]
    rows, said = _with_points(table, of_numbers)
    for row, (cells, line) in enumerate(zip(rows, table.lines, strict=True)):
        target, weight, group, descriptor = (
            [cells[place] for place in places[what]] for what in ("target", "weight", "group", "descriptor")
        )
        numbers, found = [], []
        if of_atoms:
            found, no_target = _lists(target, target_columns)
        else:
            numbers, no_target = _targets(target, target_columns)
        weight, no_weight = _weight(weight, asked["weight"])
        described, no_descriptor = parse_required_numbers(descriptor, descriptor_columns)
        no_group = None if all(map(str.strip, group)) else missing_value_reason(asked["group"])
        reason = no_target or no_weight or no_group or no_descriptor
        if row in table.unreadable and not all_smiles[row]:
            reason = table.unreadable[row]
        if reason is None:
            kept.append(row)
            values.append(numbers)
            lists.append(found)
            weights.append(weight)
            groups += group
            descriptors.append(described)
        else:
            rejected.append(RejectedRow(row, line, all_smiles[row], reason, table.unit))
    n, k = len(kept), len(descriptor_columns)
    return Records(
        rows=np.array(kept, dtype=np.int64),
        smiles=[all_smiles[row] for row in kept],
        targets=np.array(values, dtype=np.float64).reshape(n, 0 if of_atoms else len(target_columns)),
        rejected=rejected,
        weights=np.array(weights, dtype=np.float64).reshape(n) if weight_column else None,
        groups=groups if group_column else None,
        descriptors=np.array(descriptors, dtype=np.float64).reshape(n, k) if k else None,
        lists=lists if of_atoms else None,
        warnings=said,
    )


def _with_points(table: Table, names: Sequence[str]) -> tuple[list[list[str]], tuple[str, ...]]:
    """The rows with decimal points where columns have decimal commas, and a sentence for each of these columns."""
    rows, said = table.rows, []
    for name in names if table.decimal_commas else ():
        place = column_index(table, name)
        before = [row[place] for row in rows]
        after = replace_decimal_commas(before)
        if after is None:
            continue
        rows = [[*row[:place], str(cell), *row[place + 1 :]] for row, cell in zip(rows, after, strict=True)]
        old, new = next((a, b) for a, b in zip(before, after, strict=True) if a != b)
        said.append(f"column {short_repr(name)} has decimal commas: {short_repr(old)} is read as {str(new).strip()}")
    return rows, tuple(said)


def _targets(cells: Sequence[str], names: Sequence[str]) -> tuple[list[float], str | None]:
    """The targets of one row, NaN for a missing one, or the reason why they cannot be used."""
    numbers, reason = parse_numbers(cells, names)
    if numbers and all(map(math.isnan, numbers)):
        return [], missing_value_reason(names)
    return numbers, reason


def _lists(texts: Sequence[str], names: Sequence[str]) -> tuple[list[npt.NDArray[np.float64]], str | None]:
    """The lists of one row, none in an empty cell, or the reason why they cannot be used."""
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
    if not any(np.isfinite(numbers).any() for numbers in lists):
        return [], missing_value_reason(names)
    return lists, None


def _weight(cells: Sequence[str], names: Sequence[str]) -> tuple[list[float], str | None]:
    """The weight of one row, if a column says so, or the reason why there is none."""
    numbers, reason = parse_required_numbers(cells, names)
    if any(number < 0 for number in numbers):
        return [], f"column {short_repr(names[0])}: {short_repr(cells[0])} is below 0"
    return numbers, reason
