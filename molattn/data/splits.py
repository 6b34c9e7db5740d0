"""Which molecules train, validate and test: a label per row, `train`, `val` or `test`, or `""` if left out.

Splits see keys, one per row: the canonical SMILES, so that rows of one molecule share a key and never part.
Adding a split is writing its function and naming it in the table at the foot.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from molattn.data.tables import column, read_table
from molattn.errors import InputError, UsageError, shown

SIDES = ("train", "val", "test")
DEFAULT_SIZES = (0.8, 0.1, 0.1)

_SPELLINGS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test", "": ""}

Labels = np.ndarray
"""(n,) labels of type `<U5`, one per row."""


def random_split(keys: Sequence[str], sizes: Sequence[float] = DEFAULT_SIZES, seed: int = 0) -> Labels:
    """Molecules at random, whole molecules at a time; the order of the rows does not matter.

    The distinct keys are sorted, permuted with `seed` and dealt out in that order: train takes as many as
    keep it within its share of the rows, then val, and test takes the rest. A side with a size above 0 gets
    at least one molecule.

    keys: n strings. sizes: the shares of train, val and test. Returns (n,) labels.
    Raises UsageError for sizes or a seed that make no sense, InputError when there are fewer molecules than
    sides.
    """
    sizes = _checked_sizes(sizes)
    if seed < 0:
        raise UsageError(f"the seed must be 0 or more, not {seed}")
    rows_of = Counter(keys)
    wanted = [int(size > 0) for size in sizes]
    if len(rows_of) < sum(wanted):
        raise InputError(
            f"{_count(len(rows_of), 'molecule')} cannot fill the {sum(wanted)} sides of a split: "
            "give more molecules, or a split of fewer sides, with a size of 0"
        )
    order = np.random.default_rng(seed).permutation(np.array(sorted(rows_of), dtype=object))
    filled = np.cumsum([rows_of[key] for key in order])  # rows dealt out once the k-th molecule is
    train_rows = round(sizes[0] * len(keys))
    val_rows = round((sizes[0] + sizes[1]) * len(keys))

    # The first `train_end` molecules train, those up to `val_end` validate; no side with a size stays empty.
    m = len(order)
    train_end = int(np.searchsorted(filled, train_rows, side="right"))
    train_end = min(max(train_end, wanted[0]), m - wanted[1] - wanted[2])
    val_end = int(np.searchsorted(filled, val_rows, side="right"))
    val_end = min(max(val_end, train_end + wanted[1]), m - wanted[2])
    sides = np.repeat(SIDES, [train_end, val_end - train_end, m - val_end])
    side_of = dict(zip(order, sides, strict=True))
    return np.array([side_of[key] for key in keys], dtype="<U5")


def scaffold_split(
    keys: Sequence[str],
    sizes: Sequence[float] = DEFAULT_SIZES,
    seed: int = 0,  # noqa: ARG001 (every split takes one; this one leaves nothing to chance)
    scaffold_of: Callable[[str], str] | None = None,
) -> Labels:
    """Whole Bemis-Murcko scaffolds, the largest to training, as in MoleculeNet.

    The order of the rows does not matter. Groups of rows with one scaffold come largest first, ties by the
    scaffold's SMILES. A group goes to train while it fits there, else to val while train and val together
    have room, else to test. Molecules without rings share the empty scaffold.

    keys: n canonical SMILES. sizes: the shares of train, val and test. scaffold_of: SMILES to scaffold, by
    default `molattn.chem.murcko_scaffold`. Returns (n,) labels.
    Raises UsageError for sizes that make no sense, InputError when a side stays empty.
    Reference: Wu et al. (2018), Chem. Sci. 9, 513, doi:10.1039/c7sc02664a.
    """
    sizes = _checked_sizes(sizes)
    if scaffold_of is None:
        from molattn.chem import murcko_scaffold  # here, because it brings RDKit

        scaffold_of = murcko_scaffold
    scaffold = {key: scaffold_of(key) for key in sorted(set(keys))}
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[scaffold[key]].append(row)

    n = len(keys)
    train_room = sizes[0] * n + 1e-9  # 0.7 + 0.1 is a little less than 0.8
    val_room = (sizes[0] + sizes[1]) * n + 1e-9
    train = val = 0
    labels = np.full(n, "test", dtype="<U5")
    for _, rows in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        if train + len(rows) <= train_room:
            labels[rows] = "train"
            train += len(rows)
        elif train + val + len(rows) <= val_room:
            labels[rows] = "val"
            val += len(rows)
    largest = max(map(len, groups.values()), default=0)
    empty = [side for side, size in zip(SIDES, sizes, strict=True) if size > 0 and side not in labels]
    if empty:
        raise InputError(
            f"the scaffold split leaves {' and '.join(empty)} empty: {_count(n, 'row')} with "
            f"{_count(len(groups), 'scaffold')}, the largest of {_count(largest, 'row')}; "
            "take the random split, other sizes or a split file"
        )
    return labels


def read_split_file(path: str | Path, smiles: Sequence[str]) -> Labels:
    """The labels in a split file, taken as they are.

    A table with the columns `smiles` and `split`, one row per row of the data, in the same order and with the
    same SMILES text. `split` is train, val (or valid, validation) or test; an empty one leaves the row out.

    smiles: the n SMILES of the data, as written there. Returns (n,) labels.
    Raises InputError, with row and line, for another label or a row that differs from the data, and when a
    side is empty; UsageError when a column is missing.
    """
    table = read_table(path)
    found = column(table, "smiles")
    counts = f"the split file has {_count(len(found), 'row')}, the data {len(smiles)}"
    for row, (here, there) in enumerate(zip(found, smiles, strict=False)):
        if here != there:
            more = f"; {counts}" if len(found) != len(smiles) else ""
            raise InputError(
                f"{path}, {table.place(row)}: row {row} (from 0) is {shown(here)}, that of the data is "
                f"{shown(there)}{more}; a split file has the rows of the data in their order"
            )
    if len(found) != len(smiles):
        row = min(len(found), len(smiles))
        raise InputError(f"{path}: {counts}; they are the same before row {row} (from 0)")

    labels = np.full(len(found), "", dtype="<U5")
    for row, text in enumerate(column(table, "split")):
        label = _SPELLINGS.get(text.strip().lower())
        if label is None:
            raise InputError(
                f"{path}, {table.place(row)}: column 'split' says {shown(text)}; "
                "it may say train, val, test, or nothing to leave the row out"
            )
        labels[row] = label
    empty = [side for side in SIDES if side not in labels]
    if empty:
        raise InputError(f"{path}: no row is {' or '.join(empty)}; each of train, val and test needs one")
    return labels


class Leak(NamedTuple):
    """A molecule on more than one side of a split."""

    key: str
    sides: tuple[str, ...]
    """Its sides, in the order train, val, test."""
    rows: tuple[int, ...]
    """Its rows, from 0, but for those left out."""


def leakage(keys: Sequence[str], labels: Sequence[str] | Labels) -> list[Leak]:
    """The molecules on more than one side, by their first row; rows with the label `""` do not count.

    keys: n canonical SMILES. labels: n labels.
    """
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, (key, label) in enumerate(zip(keys, labels, strict=True)):
        if label:
            rows_of[key].append(row)
    leaks = []
    for key, rows in rows_of.items():
        there = {str(labels[row]) for row in rows}
        if len(there) > 1:
            leaks.append(Leak(key, tuple(side for side in SIDES if side in there), tuple(rows)))
    return leaks


def describe_leakage(leaks: Sequence[Leak]) -> str:
    """What `leakage` found, as one sentence with counts and up to three examples."""
    if not leaks:
        return "no molecule stands on more than one side of the split"
    examples = "; ".join(
        f"{shown(leak.key)} in {' and '.join(leak.sides)}, rows {', '.join(map(str, leak.rows))}" for leak in leaks[:3]
    )
    more = "; ..." if len(leaks) > 3 else ""
    stand = "molecule stands" if len(leaks) == 1 else "molecules stand"
    rows = _count(sum(len(leak.rows) for leak in leaks), "row")
    return f"{len(leaks)} {stand} on more than one side of the split, {rows} in all ({examples}{more})"


def _checked_sizes(sizes: Sequence[float]) -> tuple[float, float, float]:
    """The three sizes, made to sum to 1 to the last digit."""
    numbers = [float(size) for size in sizes]
    total = sum(numbers)
    if len(numbers) != 3 or not all(number >= 0 for number in numbers) or not math.isclose(total, 1, abs_tol=1e-6):
        given = " ".join(f"{number:g}" for number in numbers)
        raise UsageError(
            f"the sizes of train, val and test must be three numbers from 0 to 1 that sum to 1, "
            f"such as 0.8 0.1 0.1, not {given or 'nothing'}"
        )
    train, val, test = numbers
    return train / total, val / total, test / total


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


SPLITS: dict[str, Callable[[Sequence[str], Sequence[float], int], Labels]] = {
    "random": random_split,
    "scaffold": scaffold_split,
}
