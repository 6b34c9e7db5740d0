"""The sides of a split, and how molecules in an order, or whole groups of them, are dealt out to them."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from molattn.errors import InputError, UsageError

SPLIT_LABELS = ("train", "val", "test")
CALIBRATION = "cal"
"""A fourth side, where molecules are set aside for calibration."""
ALL_SPLIT_LABELS = (*SPLIT_LABELS, CALIBRATION)
DEFAULT_SIZES = (0.8, 0.1, 0.1)

Labels = np.ndarray
"""(n,) labels of type `<U5`, one per row."""


def validate_sizes(sizes: Sequence[float]) -> tuple[float, float, float]:
    """The three sizes, made to sum to 1 to the last digit.

    Raises UsageError for sizes that make no sense.
    """
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


def random_generator(seed: int) -> np.random.Generator:
    """Chance from a seed; UsageError for one below 0."""
    if seed < 0:
        raise UsageError(f"the seed must be 0 or more, not {seed}")
    return np.random.default_rng(seed)


def check_enough(number: int, sizes: Sequence[float], what: str = "molecule") -> None:
    """InputError when there are fewer molecules, or whatever they are dealt out by, than sides with a size."""
    wanted = sum(size > 0 for size in sizes)
    if number < wanted:
        raise InputError(
            f"{pluralize(number, what)} cannot fill the {wanted} sides of a split: "
            f"give more {what}s, or a split of fewer sides, with a size of 0"
        )


def assign_molecules(keys: Sequence[str], order: Sequence[str], sizes: Sequence[float]) -> Labels:
    """Molecules dealt out in `order`: the first to train, the next to val, the rest to test.

    Train takes as many as keep it within its share of the rows, then val, and test takes the rest. A side with
    a size above 0 gets at least one molecule.

    keys: n strings. order: the distinct ones, one per molecule. sizes: three shares that sum to 1.
    """
    rows_of = Counter(keys)
    wanted = [int(size > 0) for size in sizes]
    check_enough(len(order), sizes)
    filled = np.cumsum([rows_of[key] for key in order])  # rows dealt out once the k-th molecule is
    train_rows = round(sizes[0] * len(keys))
    val_rows = round((sizes[0] + sizes[1]) * len(keys))

    # The first `train_end` molecules train, those up to `val_end` validate; no side with a size stays empty.
    m = len(order)
    train_end = int(np.searchsorted(filled, train_rows, side="right"))
    train_end = min(max(train_end, wanted[0]), m - wanted[1] - wanted[2])
    val_end = int(np.searchsorted(filled, val_rows, side="right"))
    val_end = min(max(val_end, train_end + wanted[1]), m - wanted[2])
    sides = np.repeat(SPLIT_LABELS, [train_end, val_end - train_end, m - val_end])
    side_of = dict(zip(order, sides, strict=True))
    return np.array([side_of[key] for key in keys], dtype="<U5")


def assign_groups(groups: Iterable[Sequence[int]], n: int, sizes: Sequence[float]) -> Labels:
    """Whole groups of rows dealt out in their order, n rows in all.

    A group goes to train while it fits there, else to val while train and val together have room, else to test.
    """
    train_room = sizes[0] * n + 1e-9  # 0.7 + 0.1 is a little less than 0.8
    val_room = (sizes[0] + sizes[1]) * n + 1e-9
    train = val = 0
    labels = np.full(n, "test", dtype="<U5")
    for rows in groups:
        if train + len(rows) <= train_room:
            labels[rows] = "train"
            train += len(rows)
        elif train + val + len(rows) <= val_room:
            labels[rows] = "val"
            val += len(rows)
    return labels


def assign_groups_evenly(
    groups: Sequence[Sequence[int]], n: int, sizes: Sequence[float], what: str = "molecule"
) -> Labels:
    """Whole groups of rows dealt out in their order, n rows in all, each to the side that is furthest below its share.

    The last ones go to sides that are still empty and should not be.

    Raises InputError for fewer groups, which are called `what`, than sides with a size.
    """
    check_enough(len(groups), sizes, what)
    labels = np.full(n, "", dtype="<U5")
    shares, given, dealt = np.array(sizes), np.zeros(3), 0
    for number, rows in enumerate(groups):
        dealt += len(rows)
        # A side of size 0 is never behind: it would be the furthest when the others have more than theirs.
        open_to = shares > 0
        empty = open_to & (given == 0)
        if len(groups) - number <= empty.sum():
            open_to = empty
        behind = np.where(open_to, shares * dealt - given, -np.inf)
        side = int(np.round(behind, 9).argmax())
        labels[rows] = SPLIT_LABELS[side]
        given[side] += len(rows)
    return labels


def missing_labels(labels: Labels, sizes: Sequence[float]) -> list[str]:
    """The sides that should have rows and have none."""
    return [side for side, size in zip(SPLIT_LABELS, sizes, strict=True) if size > 0 and side not in labels]


def pluralize(number: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
