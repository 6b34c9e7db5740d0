"""The labels of a split, and how ordered molecules, or groups of them, are assigned to its subsets."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from molattn.errors import InputError, UsageError

SPLIT_LABELS = ("train", "val", "test")
CALIBRATION = "cal"
"""The label of the calibration subset, if molecules are held out for it."""
ALL_SPLIT_LABELS = (*SPLIT_LABELS, CALIBRATION)
DEFAULT_SIZES = (0.8, 0.1, 0.1)

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


def check_enough(number: int, sizes: Sequence[float], what: str = "molecule") -> None:
    """Raise InputError for fewer molecules, or groups, than subsets with a size above 0."""
    required = sum(size > 0 for size in sizes)
    if number < required:
        raise InputError(
            f"{pluralize(number, what)} cannot fill the {required} subsets of a split: "
            f"give more {what}s, or a split with fewer subsets, with a size of 0"
        )


def assign_molecules(keys: Sequence[str], order: Sequence[str], sizes: Sequence[float]) -> Labels:
    """Labels of molecules in `order`: the first are assigned to train, the next to val, the rest to test.

    Train gets as many molecules as fit into its share of the rows, then val, and test gets the rest. A subset with a
    size above 0 gets at least one molecule.

    keys: n strings. order: the distinct keys, one per molecule. sizes: three shares that sum to 1.
    """
    num_rows = Counter(keys)
    required = [int(size > 0) for size in sizes]
    check_enough(len(order), sizes)
    filled = np.cumsum([num_rows[key] for key in order])  # rows assigned up to the k-th molecule
    train_rows = round(sizes[0] * len(keys))
    val_rows = round((sizes[0] + sizes[1]) * len(keys))

    # The first `train_end` molecules are train, those up to `val_end` val; no subset with a size above 0 stays empty.
    m = len(order)
    train_end = int(np.searchsorted(filled, train_rows, side="right"))
    train_end = min(max(train_end, required[0]), m - required[1] - required[2])
    val_end = int(np.searchsorted(filled, val_rows, side="right"))
    val_end = min(max(val_end, train_end + required[1]), m - required[2])
    labels = np.repeat(SPLIT_LABELS, [train_end, val_end - train_end, m - val_end])
    label_of = dict(zip(order, labels, strict=True))
    return np.array([label_of[key] for key in keys], dtype="<U5")


def assign_groups(groups: Iterable[Sequence[int]], n: int, sizes: Sequence[float]) -> Labels:
    """Labels of n rows in groups, which are assigned as a whole, in order.

    A group is assigned to train if it fits there, else to val if train and val together have room, else to test.
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
    groups: Sequence[Sequence[int]], n: int, sizes: Sequence[float], what: str = "molecule"
) -> Labels:
    """Labels of n rows in groups, each assigned, in order, to the subset that is furthest below its share.

    The last groups are assigned to subsets with a size above 0 that are still empty.

    Raises InputError for fewer groups than subsets with a size above 0; its message calls a group `what`.
    """
    check_enough(len(groups), sizes, what)
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


def missing_labels(labels: Labels, sizes: Sequence[float]) -> list[str]:
    """The subsets with a size above 0 that are empty."""
    return [label for label, size in zip(SPLIT_LABELS, sizes, strict=True) if size > 0 and label not in labels]


def pluralize(number: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
