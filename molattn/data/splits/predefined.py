"""Splits that someone else made: by a column of the table, or from a file; they are taken as they are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from molattn.data.splits.labels import CALIBRATION, SPLIT_LABELS, Labels, pluralize
from molattn.data.tables.table import Table, column, read_table
from molattn.errors import InputError, short_repr

_SPELLINGS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test", "": ""}
_SPELLINGS |= {"cal": CALIBRATION, "calib": CALIBRATION, "calibration": CALIBRATION}


def read_split_file(path: str | Path, smiles: Sequence[str]) -> Labels:
    """The labels in a split file, taken as they are.

    A table with the columns `smiles` and `split`, one row per row of the data, in the same order and with the
    same SMILES text. `split` is train, val (or valid, validation), test or cal (or calib, calibration); an empty
    one leaves the row out.

    smiles: the n SMILES of the data, as written there. Returns (n,) labels.
    Raises InputError, with row and line, for another label or a row that differs from the data, and when a
    side is empty; UsageError when a column is missing.
    """
    table = read_table(path)
    found = column(table, "smiles")
    counts = f"the split file has {pluralize(len(found), 'row')}, the data {len(smiles)}"
    for row, (here, there) in enumerate(zip(found, smiles, strict=False)):
        if here != there:
            more = f"; {counts}" if len(found) != len(smiles) else ""
            raise InputError(
                f"{path}, {table.place(row)}: row {row} (from 0) is {short_repr(here)}, that of the data is "
                f"{short_repr(there)}{more}; a split file has the rows of the data in their order"
            )
    if len(found) != len(smiles):
        row = min(len(found), len(smiles))
        raise InputError(f"{path}: {counts}; they are the same before row {row} (from 0)")

    return read_split_column(table, "split")


def read_split_column(table: Table, name: str) -> Labels:
    """The labels in a column of a table, taken as they are: train, val (or valid, validation), test, or nothing.

    Raises InputError, with the line, for another label and when a side is empty; UsageError when there is no such
    column.
    """
    labels = np.full(len(table.rows), "", dtype="<U5")
    for row, text in enumerate(column(table, name)):
        label = _SPELLINGS.get(text.strip().lower())
        if label is None:
            raise InputError(
                f"{table.source}, {table.place(row)}: column {short_repr(name)} says {short_repr(text)}; "
                "it may say train, val, test, cal for calibration, or nothing to leave the row out"
            )
        labels[row] = label
    empty = [side for side in SPLIT_LABELS if side not in labels]
    if empty:
        raise InputError(f"{table.source}: no row is {' or '.join(empty)}; each of train, val and test needs one")
    return labels
