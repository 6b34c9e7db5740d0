"""Rows of a table that are the same molecule: which they are, and whether their labels agree."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from molattn.models.magnitude import standard_deviation
from molattn.models.task import Task
from molattn.models.tasks import Regression

CONFLICT = 0.5
"""Numbers of one molecule are in conflict if they differ by more than this many standard deviations of all labels."""


@dataclass(frozen=True)
class Duplicates:
    """The molecules that are in several rows.

    Attributes:
        order: (m,) the indices of these rows, molecule by molecule, ascending within each.
        starts: (g + 1,) row pointers: molecule i has the rows order[starts[i] : starts[i + 1]].
    """

    order: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def rows(self, group: int) -> np.ndarray:
        """The rows of one of the molecules, ascending."""
        return self.order[self.starts[group] : self.starts[group + 1]]

    def lowest(self, targets: np.ndarray) -> np.ndarray:
        """(g, T) the smallest known label of each molecule, from those of all rows, (n, T); NaN without labels."""
        return self._reduced(np.fmin, targets)

    def highest(self, targets: np.ndarray) -> np.ndarray:
        """(g, T) the largest known label of each molecule, from those of all rows, (n, T); NaN without labels."""
        return self._reduced(np.fmax, targets)

    def _reduced(self, function: np.ufunc, targets: np.ndarray) -> np.ndarray:
        if not len(self):
            return np.empty((0, targets.shape[1]))
        return function.reduceat(targets[self.order], self.starts[:-1], axis=0)


def find_duplicates(keys: Sequence[object]) -> Duplicates:
    """The molecules that are in several rows, in the order of their first rows.

    keys: n keys, such as canonical SMILES; rows with equal keys are one molecule.
    """
    number: dict[object, int] = {}
    ids = np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
    counts = np.bincount(ids, minlength=len(number))
    repeated = np.flatnonzero(counts[ids] > 1)
    order = repeated[np.argsort(ids[repeated], kind="stable")]
    sizes = counts[counts > 1]
    return Duplicates(order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def label_spread(targets: np.ndarray, task: Task) -> np.ndarray:
    """(T,) how much labels of one molecule may differ: `CONFLICT` standard deviations of all labels; 0 for classes.

    targets: (n, T), NaN where missing; each target has a label.
    """
    if not isinstance(task, Regression):
        return np.zeros(targets.shape[1])
    return CONFLICT * np.array([standard_deviation(y[np.isfinite(y)]) for y in targets.T])


def find_conflicts(duplicates: Duplicates, targets: np.ndarray, task: Task) -> np.ndarray:
    """(g, T) whether the labels of each molecule are in conflict: they differ by more than `label_spread`.

    targets: (n, T), NaN where missing.
    """
    difference = duplicates.highest(targets) - duplicates.lowest(targets)
    return np.nan_to_num(difference) > label_spread(targets, task)
