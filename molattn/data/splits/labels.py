"""The labels of a split: assignment by size, columns and files of labels, and checks for leakage."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from molattn.data.tables.table import Table, column, read_table
from molattn.errors import InputError, UsageError, short_repr

SPLIT_LABELS = ("train", "val", "test")
"""The labels of the three subsets of a split."""
CALIBRATION = "cal"
"""The label of the calibration subset, if molecules are held out for it."""
ALL_SPLIT_LABELS = (*SPLIT_LABELS, CALIBRATION)
"""All labels that a row can have; a row that is in no subset has the label ""."""
DEFAULT_SIZES = (0.8, 0.1, 0.1)
"""The default shares of train, val and test."""

Labels = np.ndarray
"""(n,) labels of type `<U5`, one for each row."""


def validate_sizes(sizes: Sequence[float]) -> tuple[float, float, float]:
    """The three sizes, normalized to sum to 1.

    Raises UsageError for invalid sizes.
    """
    numbers = [float(size) for size in sizes]
    total = sum(numbers)
    if len(numbers) != 3 or not all(number >= 0 for number in numbers) or not math.isclose(total, 1, abs_tol=1e-6):
        numbers_text = " ".join(f"{number:g}" for number in numbers)
        raise UsageError(
            f"the sizes of train, val and test must be three numbers from 0 to 1 that sum to 1, "
            f"such as 0.8 0.1 0.1, not {numbers_text or 'nothing'}"
        )
    train, val, test = numbers
    return train / total, val / total, test / total


def random_generator(seed: int) -> np.random.Generator:
    """A random generator. Raises UsageError for a negative seed."""
    if seed < 0:
        raise UsageError(f"the seed must be 0 or more, not {seed}")
    return np.random.default_rng(seed)


def check_number(number: int, sizes: Sequence[float], noun: str = "molecule") -> None:
    """Raise InputError if there are fewer molecules, or groups, than subsets with a size above 0.

    Args:
        number: number of molecules or groups.
        sizes: the shares of train, val and test.
        noun: "molecule" or "group", for the error.
    """
    required = sum(size > 0 for size in sizes)
    if number < required:
        linked = ", counting groups that share a molecule as one," if noun == "group" else ""
        raise InputError(
            f"{pluralize(number, noun)}{linked} cannot fill the {required} subsets of a split: give {required} or more"
        )


def assign_molecules(names: Sequence[str], order: Sequence[str], sizes: Sequence[float]) -> Labels:
    """Assign molecules in `order`: the first to train, the next to val, the others to test.

    Train gets as many molecules as fit into its share of the rows, then val, and test gets the others. A subset with a
    size above 0 gets at least one molecule.

    Args:
        names: n names, one for each row: canonical SMILES, or names of groups.
        order: the distinct names, in the order of assignment.
        sizes: the shares of train, val and test, which sum to 1.

    Returns:
        (n,) labels.

    Raises:
        InputError: fewer molecules than subsets with a size above 0.
    """
    num_rows = Counter(names)
    required = [int(size > 0) for size in sizes]
    check_number(len(order), sizes)
    cumulative = np.cumsum([num_rows[name] for name in order])  # rows of the first k molecules
    train_rows = round(sizes[0] * len(names))
    val_rows = round((sizes[0] + sizes[1]) * len(names))

    # The first `train_end` molecules are train, those up to `val_end` val; no subset with a size above 0 stays empty.
    m = len(order)
    train_end = int(np.searchsorted(cumulative, train_rows, side="right"))
    train_end = min(max(train_end, required[0]), m - required[1] - required[2])
    val_end = int(np.searchsorted(cumulative, val_rows, side="right"))
    val_end = min(max(val_end, train_end + required[1]), m - required[2])
    labels = np.repeat(SPLIT_LABELS, [train_end, val_end - train_end, m - val_end])
    label_of = dict(zip(order, labels, strict=True))
    return np.array([label_of[name] for name in names], dtype="<U5")


def assign_groups(groups: Iterable[Sequence[int]], n: int, sizes: Sequence[float]) -> Labels:
    """Assign whole groups of rows in order, each to the first subset that has room.

    A group is assigned to train if it fits there, else to val if train and val together have room, else to test.

    Args:
        groups: the rows of each group.
        n: number of rows.
        sizes: the shares of train, val and test, which sum to 1.

    Returns:
        (n,) labels.
    """
    train_capacity = sizes[0] * n + 1e-9  # 0.7 + 0.1 is a little less than 0.8
    val_capacity = (sizes[0] + sizes[1]) * n + 1e-9
    train = val = 0
    labels = np.full(n, "test", dtype="<U5")
    for rows in groups:
        if train + len(rows) <= train_capacity:
            labels[rows] = "train"
            train += len(rows)
        elif train + val + len(rows) <= val_capacity:
            labels[rows] = "val"
            val += len(rows)
    return labels


def assign_groups_evenly(
    groups: Sequence[Sequence[int]], n: int, sizes: Sequence[float], noun: str = "molecule"
) -> Labels:
    """Assign whole groups of rows in order, each to the subset that is furthest below its share.

    The last groups are assigned to subsets with a size above 0 that are still empty.

    Args:
        groups, n, sizes: as for `assign_groups`.
        noun: "molecule" or "group", for the error.

    Returns:
        (n,) labels.

    Raises:
        InputError: fewer groups than subsets with a size above 0.
    """
    check_number(len(groups), sizes, noun)
    labels = np.full(n, "", dtype="<U5")
    shares, counts, total = np.array(sizes), np.zeros(3), 0
    for number, rows in enumerate(groups):
        total += len(rows)
        # A subset of size 0 never gets a group, even if all others are above their shares.
        allowed = shares > 0
        empty = allowed & (counts == 0)
        if len(groups) - number <= empty.sum():
            allowed = empty
        deficit = np.where(allowed, shares * total - counts, -np.inf)
        subset = int(np.round(deficit, 9).argmax())
        labels[rows] = SPLIT_LABELS[subset]
        counts[subset] += len(rows)
    return labels


def find_empty_subsets(labels: Labels, sizes: Sequence[float]) -> list[str]:
    """The subsets with a size above 0 that are empty."""
    return [label for label, size in zip(SPLIT_LABELS, sizes, strict=True) if size > 0 and label not in labels]


def pluralize(number: int, noun: str) -> str:
    """The number with its noun: `1 row`, `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Leak(NamedTuple):
    """A molecule, or a group, in more than one subset of a split.

    Attributes:
        name: its canonical SMILES, or the name of the group.
        labels: its split labels, in the order train, val, test, cal.
        rows: its rows, from 0, except those with the label "".

    >>> from molattn.data import find_leakage
    >>> leak = find_leakage(["CCO", "CCN", "CCO"], ["train", "val", "test"])[0]
    >>> leak.name, leak.labels, leak.rows
    ('CCO', ('train', 'test'), (0, 2))
    """

    name: str
    labels: tuple[str, ...]
    rows: tuple[int, ...]


def find_leakage(names: Sequence[str], labels: Sequence[str] | Labels) -> list[Leak]:
    """The molecules, or groups, in more than one subset, by their first row; rows with the label `""` are ignored.

    Args:
        names: n canonical SMILES, or names of groups; equal names are one molecule.
        labels: n of `ALL_SPLIT_LABELS`, or "".

    Raises:
        ValueError: there are more names than labels, or fewer.

    >>> from molattn.data import find_leakage
    >>> [leak.name for leak in find_leakage(["CCO", "CCN", "CCO", "CCN"], ["train", "val", "test", ""])]
    ['CCO']
    """
    rows_by_name: dict[str, list[int]] = defaultdict(list)
    for row, (name, label) in enumerate(zip(names, labels, strict=True)):
        if label:
            rows_by_name[name].append(row)
    leaks = []
    for name, rows in rows_by_name.items():
        found = {str(labels[row]) for row in rows}
        if len(found) > 1:
            leaks.append(Leak(name, tuple(label for label in ALL_SPLIT_LABELS if label in found), tuple(rows)))
    return leaks


def describe_leakage(leaks: Sequence[Leak], noun: str = "molecule") -> str:
    """The result of `find_leakage` as a sentence with counts and up to three examples.

    Args:
        leaks: what `find_leakage` returned.
        noun: what is in several subsets, in the singular: "molecule" or "group".

    >>> from molattn.data import describe_leakage, find_leakage
    >>> describe_leakage(find_leakage(["CCO", "CCN"], ["train", "test"]))
    'no molecule is in more than one subset of the split'
    >>> print(describe_leakage(find_leakage(["CCO", "CCO"], ["train", "test"])))
    1 molecule is in more than one subset of the split, 2 rows in all ('CCO' in train and test, rows 0, 1)
    """
    if not leaks:
        return f"no {noun} is in more than one subset of the split"
    examples = "; ".join(
        f"{short_repr(leak.name)} in {' and '.join(leak.labels)}, rows {_format_rows(leak.rows)}" for leak in leaks[:3]
    )
    more = "; ..." if len(leaks) > 3 else ""
    subject = f"{noun} is" if len(leaks) == 1 else f"{noun}s are"
    rows = pluralize(sum(len(leak.rows) for leak in leaks), "row")
    return f"{len(leaks)} {subject} in more than one subset of the split, {rows} in all ({examples}{more})"


def _format_rows(rows: Sequence[int], max_rows: int = 6) -> str:
    return ", ".join([*map(str, rows[:max_rows]), *(["..."] if len(rows) > max_rows else [])])


_LABEL_ALIASES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test", "": ""}
_LABEL_ALIASES |= {"cal": CALIBRATION, "calib": CALIBRATION, "calibration": CALIBRATION}


def read_split_file(path: str | Path, smiles: Sequence[str]) -> Labels:
    """The labels in a split file.

    A split file is a table with the columns `smiles` and `split`. It has a row for each row of the data, in the same
    order and with the same SMILES text. `split` is train, val (or valid, validation), test or cal (or calib,
    calibration); if it is empty, the row is in no subset.

    Args:
        path: the file: see `read_table`.
        smiles: the n SMILES of the data, unchanged.

    Returns:
        (n,) labels.

    Raises:
        InputError: with row and line, another label or a row that differs from the data; train, val or test is empty;
            or the file cannot be read.
        UsageError: a column is missing.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from molattn.data import read_split_file, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "split.csv")
    ...     write_table(path, ["smiles", "split"], [["CCO", "train"], ["CCN", "valid"], ["CCC", "test"]])
    ...     read_split_file(path, ["CCO", "CCN", "CCC"]).tolist()
    ['train', 'val', 'test']
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
    """The labels in a column of a table; the column has the values of `split` in `read_split_file`.

    Args:
        table: the table, of n rows.
        name: the name of the column.

    Returns:
        (n,) labels.

    Raises:
        InputError: with the line, another label; or train, val or test is empty.
        UsageError: there is no such column.

    >>> import pyarrow as pa
    >>> from molattn.data import read_split_column, read_table
    >>> table = read_table(pa.table({"smiles": ["CCO", "CCN", "CCC", "C"], "set": ["Train", "valid", "test", ""]}))
    >>> read_split_column(table, "set").tolist()
    ['train', 'val', 'test', '']
    """
    labels = np.full(len(table.rows), "", dtype="<U5")
    for row, text in enumerate(column(table, name)):
        label = _LABEL_ALIASES.get(text.strip().lower())
        if label is None:
            raise InputError(
                f"{table.source}, {table.location(row)}: column {short_repr(name)} has {short_repr(text)}; "
                "it must be train, val, test, cal for calibration, or empty to leave the row out"
            )
        labels[row] = label
    if empty := find_empty_subsets(labels, DEFAULT_SIZES):
        raise InputError(f"{table.source}: no row is {' or '.join(empty)}; each of train, val and test needs one")
    return labels
