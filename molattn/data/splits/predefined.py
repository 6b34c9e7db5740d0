"""Predefined splits: from a column of the table, or from a file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from molattn.data.splits.labels import CALIBRATION, SPLIT_LABELS, Labels, pluralize
from molattn.data.tables.table import Table, column, read_table
from molattn.errors import InputError, short_repr

_SPELLINGS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test", "": ""}
_SPELLINGS |= {"cal": CALIBRATION, "calib": CALIBRATION, "calibration": CALIBRATION}


def read_split_file(path: str | Path, smiles: Sequence[str]) -> Labels:
    """The labels in a split file.

    It is a table with the columns `smiles` and `split`, with a row for each row of the data, in the same order and
    with the same SMILES text. `split` is train, val (or valid, validation), test or cal (or calib, calibration); an
    empty one leaves the row out.

    smiles: the n SMILES of the data, unchanged. Returns (n,) labels.
    Raises InputError, with row and line, for another label or a row that differs from the data, and if train, val or
    test is empty; UsageError if a column is missing.
    """
    table = read_table(path)
    found = column(table, "smiles")
    counts = f"the split file has {pluralize(len(found), 'row')}, the data {len(smiles)}"
    for row, (in_file, in_data) in enumerate(zip(found, smiles, strict=False)):
        if in_file != in_data:
            more = f"; {counts}" if len(found) != len(smiles) else ""
            raise InputError(
                f"{path}, {table.location(row)}: row {row} (from 0) is {short_repr(in_file)}, that of the data is "
                f"{short_repr(in_data)}{more}; a split file has the rows of the data in the same order"
            )
    if len(found) != len(smiles):
        row = min(len(found), len(smiles))
        raise InputError(f"{path}: {counts}; they are the same before row {row} (from 0)")

    return read_split_column(table, "split")


def read_split_column(table: Table, name: str) -> Labels:
    """The labels in a column of a table: as for `read_split_file`.

    Raises InputError, with the line, for another label and if train, val or test is empty; UsageError if there is no
    such column.
    """
    labels = np.full(len(table.rows), "", dtype="<U5")
    for row, text in enumerate(column(table, name)):
        label = _SPELLINGS.get(text.strip().lower())
        if label is None:
            raise InputError(
                f"{table.source}, {table.location(row)}: column {short_repr(name)} has {short_repr(text)}; "
                "it must be train, val, test, cal for calibration, or empty to leave the row out"
            )
        labels[row] = label
    empty = [label for label in SPLIT_LABELS if label not in labels]
    if empty:
        raise InputError(f"{table.source}: no row is {' or '.join(empty)}; each of train, val and test needs one")
    return labels
