"""Parsing of tables into SMILES and numbers, with a reason for every row that is rejected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from molattn.data.tables.atom_lists import parse_list
from molattn.data.tables.cells import (
    missing_value_reason,
    parse_bound,
    parse_finite,
    parse_numbers,
    parse_required_numbers,
)
from molattn.data.tables.columns import format_names, guess_smiles_column
from molattn.data.tables.number_columns import normalize_numbers
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.table import RejectedRow, Table, column, column_index
from molattn.errors import UsageError, short_ascii, short_repr


@dataclass(frozen=True)
class Records:
    """The n rows of a table that can be used, with t targets.

    Attributes:
        rows: (n,) their indices among the data rows, from 0, ascending.
        smiles: n SMILES, as in the table; they are not validated.
        targets: (n, t), NaN for a missing value.
        rejected: the other rows, in the order of the table.
        weights: (n,) sample weights, 0 or more; None without a weight column.
        groups: n names of groups, as in the table; None without a group column.
        descriptors: (n, k) extra descriptors of each molecule, without missing values; None without descriptor columns.
        atom_targets: n times t arrays with a value for each atom, NaN for a missing value, empty for an empty cell;
            `targets` is then (n, 0). None for targets of molecules. The lengths are not compared with the molecules.
        warnings: warnings about how numbers were read, such as with decimal commas.
        bounds: (n, t, 2) the lower and the upper bounds of targets that are not known exactly, which are NaN in
            `targets`; NaN where there is none. None if there are no bounds at all.

    >>> import pyarrow as pa
    >>> from molattn.data import read_records, read_table
    >>> table = read_table(pa.table({"smiles": ["CCO", "CCC", "CCN"], "logS": ["1.1", ">2", "high"]}))
    >>> records = read_records(table, None, ["logS"])
    >>> records.rows.tolist(), records.targets.tolist(), records.bounds.tolist()
    ([0, 1], [[1.1], [nan]], [[[nan, nan]], [[2.0, nan]]])
    >>> records.rejected[0].reason
    "column 'logS': 'high' is not a finite number"
    """

    rows: npt.NDArray[np.int64]
    smiles: list[str]
    targets: npt.NDArray[np.float64]
    rejected: list[RejectedRow]
    weights: npt.NDArray[np.float64] | None = None
    groups: list[str] | None = None
    descriptors: npt.NDArray[np.float64] | None = None
    atom_targets: list[list[npt.NDArray[np.float64]]] | None = None
    warnings: tuple[str, ...] = ()
    bounds: npt.NDArray[np.float64] | None = None


def read_records(
    table: Table,
    smiles_column: str | None,
    target_columns: Sequence[str],
    weight_column: str = "",
    group_column: str = "",
    atom_level: bool = False,
    descriptor_columns: Sequence[str] = (),
    options: TableOptions | None = DEFAULT_TABLE_OPTIONS,
) -> Records:
    """Parse the SMILES, targets and other columns of a table.

    An empty target is a missing value, and one such as >10 is a bound: see `molattn.data.tables.cells`. A row is
    rejected if a target is not a finite number, or all targets are missing; if its weight is not a number of 0 or more,
    its group is empty, or a descriptor is not a finite number; and if the structure of its SDF record cannot be read.
    Without target columns no row is rejected for its targets.

    Args:
        table: the table.
        smiles_column: the name of the SMILES column; None guesses it.
        target_columns: the names of the targets.
        weight_column, group_column: the names of the columns of weights and groups; empty for none.
        atom_level: whether a target cell holds a list, with a value for each atom.
        descriptor_columns: the names of the descriptors.
        options: the decimal mark and the thousands separator of targets, weights and descriptors, which are inferred
            where they are empty: see `normalize_numbers`. None if the numbers are normalized already.

    Raises:
        UsageError: a column that is missing or requested twice.
        InputError: a column of numbers in a format that is ambiguous, or other than that of `options`.

    >>> import pyarrow as pa
    >>> from molattn.data import read_records, read_table
    >>> frame = pa.table({"smiles": ["CCO", "CCN"], "logS": ["1.1", ""], "logP": ["-0.3", "-0.1"]})
    >>> records = read_records(read_table(frame), "smiles", ["logS", "logP"])
    >>> records.smiles, records.targets.tolist()
    (['CCO', 'CCN'], [[1.1, -0.3], [nan, -0.1]])
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
    indices = {role: [column_index(table, name) for name in names] for role, names in requested.items()}
    all_indices = [index for of_role in indices.values() for index in of_role]
    if len(set(all_indices)) < len(all_indices):
        names = format_names(name for names in requested.values() for name in names)
        raise UsageError(
            f"a column is requested twice among the SMILES, target, weight, group and descriptor columns {names}"
        )

    rows: list[int] = []
    targets: list[list[float]] = []
    bounds: list[list[tuple[float, float]]] = []
    atom_targets: list[list[npt.NDArray[np.float64]]] = []
    weights: list[list[float]] = []
    groups: list[str] = []
    descriptors: list[list[float]] = []
    rejected: list[RejectedRow] = []
    all_smiles = column(table, smiles_column)
    warnings: tuple[str, ...] = ()
    if options is not None:
        numeric = [*(() if atom_level else requested["target"]), *requested["weight"], *requested["descriptor"]]
        table, warnings = normalize_numbers(table, numeric, options)
    for row, cells in enumerate(table.rows):
        target, weight, group, descriptor = (
            [cells[index] for index in indices[role]] for role in ("target", "weight", "group", "descriptor")
        )
        row_targets, row_bounds, lists = [], [], []
        if atom_level:
            lists, target_reason = parse_lists(target, target_columns)
            if not target_reason and not any(np.isfinite(values).any() for values in lists):
                target_reason = missing_value_reason(target_columns)
        else:
            row_targets, row_bounds, target_reason = _parse_targets(target, target_columns)
        row_weight, weight_reason = _parse_weight(weight, requested["weight"])
        row_descriptors, descriptor_reason = parse_required_numbers(descriptor, descriptor_columns)
        group_reason = None if all(map(str.strip, group)) else missing_value_reason(requested["group"])
        reason = target_reason or weight_reason or group_reason or descriptor_reason
        if row in table.structure_errors and not all_smiles[row]:
            reason = table.structure_errors[row]
        if reason is None:
            rows.append(row)
            targets.append(row_targets)
            bounds.append(row_bounds)
            atom_targets.append(lists)
            weights.append(row_weight)
            groups += group
            descriptors.append(row_descriptors)
        else:
            rejected.append(table.reject(row, all_smiles[row], reason))
    n, k = len(rows), len(descriptor_columns)
    return Records(
        rows=np.array(rows, dtype=np.int64),
        smiles=[all_smiles[row] for row in rows],
        targets=np.array(targets, dtype=np.float64).reshape(n, 0 if atom_level else len(target_columns)),
        rejected=rejected,
        weights=np.array(weights, dtype=np.float64).reshape(n) if weight_column else None,
        groups=groups if group_column else None,
        descriptors=np.array(descriptors, dtype=np.float64).reshape(n, k) if k else None,
        atom_targets=atom_targets if atom_level else None,
        warnings=warnings,
        bounds=_bounds_array(bounds, len(target_columns)),
    )


def _parse_targets(
    cells: Sequence[str], names: Sequence[str]
) -> tuple[list[float], list[tuple[float, float]], str | None]:
    """Parse the targets of one row: the numbers, NaN for a missing one, their bounds, and the reason to reject the row.

    The list of bounds is empty if there are none; the reason is None if the row can be used.
    """
    parsed = [parse_bound(cell) for cell in cells]
    bounds = [bound or (math.nan, math.nan) for bound in parsed] if any(parsed) else []
    numbers, reason = parse_numbers(["" if bound else cell for cell, bound in zip(cells, parsed, strict=True)], names)
    if numbers and all(map(math.isnan, numbers)) and not bounds:
        return [], [], missing_value_reason(names)
    return numbers, bounds, reason


def _bounds_array(bounds: Sequence[Sequence[tuple[float, float]]], t: int) -> npt.NDArray[np.float64] | None:
    """The bounds of n rows as an array, (n, t, 2), or None; the list of a row without bounds is empty."""
    if not any(bounds):
        return None
    none = [(math.nan, math.nan)] * t
    return np.array([of_row or none for of_row in bounds], dtype=np.float64)


def parse_lists(texts: Sequence[str], names: Sequence[str]) -> tuple[list[npt.NDArray[np.float64]], str | None]:
    """Parse the lists in cells of one row, empty for an empty cell; and the reason to reject the row, or None."""
    lists: list[npt.NDArray[np.float64]] = []
    for text, name in zip(texts, names, strict=True):
        try:
            items = parse_list(text) if text.strip() else []
        except ValueError as error:
            return [], f"column {short_repr(name)}: {short_ascii(text)}: {error}"
        for atom, item in enumerate(items):
            if item and parse_finite(item) is None:
                where = f"column {short_repr(name)}, atom {atom} (from 0)"
                return [], f"{where}: {short_ascii(item)} is not a finite number"
        lists.append(np.array([float(item) if item else math.nan for item in items], dtype=np.float64))
    return lists, None


def _parse_weight(cells: Sequence[str], names: Sequence[str]) -> tuple[list[float], str | None]:
    """Parse the weight of one row, if there is a weight column; and the reason to reject the row."""
    numbers, reason = parse_required_numbers(cells, names)
    if any(number < 0 for number in numbers):
        return [], f"column {short_repr(names[0])}: {short_repr(cells[0])} is below 0"
    return numbers, reason
