"""Merging the rows of one molecule into one row with one label: `data.duplicates`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from molattn.data import Table
from molattn.data.splits.groups import connect_groups
from molattn.data.tables.cells import format_bound, has_bounds
from molattn.errors import InputError, UsageError, molecule_level_only, short_repr, unknown_choice
from molattn.models.target_transform import TargetTransform
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.config import DUPLICATES, DataConfig
from molattn.training.data_messages import count_noun, no_row_error
from molattn.training.dataset import DuplicateRow
from molattn.training.duplicates import find_conflicts, find_duplicates
from molattn.training.usable_rows import UsableRows

KEEP, MEDIAN, DROP = "keep", "median", "drop"


@dataclass(frozen=True)
class MergedDuplicates:
    """The n usable rows of a table, merged.

    Attributes:
        indices: (k,) of the rows that remain, ascending: the first of each molecule.
        targets: (k, T) their labels.
        groups: for each molecule that was in several rows, the indices of these rows.
        labels: for each of these molecules, its label of every target; empty if the molecule was dropped.
        dropped: the reason for each molecule that was dropped, by its index in `groups`.
    """

    indices: np.ndarray
    targets: np.ndarray
    groups: list[np.ndarray] = field(default_factory=list)
    labels: list[tuple[float, ...]] = field(default_factory=list)
    dropped: dict[int, str] = field(default_factory=dict)

    def message(self, method: str, task: Task) -> str:
        """What was done, with counts; empty if no molecule was in several rows."""
        if not self.groups:
            return ""
        rows = [len(group) for number, group in enumerate(self.groups) if number not in self.dropped]
        how = "median" if method == MEDIAN else "mean"
        how = how if isinstance(task, Regression) else "most frequent class"
        text = f"{sum(rows):,} rows of {count_noun(len(rows), 'molecule', 'molecules')} are merged, by their {how}"
        if self.dropped:
            num_dropped = sum(len(self.groups[number]) for number in self.dropped)
            count = count_noun(len(self.dropped), "molecule", "molecules")
            text = f"{text}; {num_dropped:,} rows of {count} are left out, see rejected.csv"
        return f"{text}; see duplicates.csv"


@dataclass(frozen=True)
class MergeResult:
    """The rows of a table after those of one molecule were merged.

    Attributes:
        usable: the rows that remain.
        indices: (k,) of these rows among those before, ascending.
        duplicates: each row of a molecule in several rows, ascending.
        message: what was done, for the user; empty if no molecule was in several rows.
    """

    usable: UsableRows
    indices: np.ndarray
    duplicates: tuple[DuplicateRow, ...]
    message: str


def check_duplicates_setting(method: str, atom_level: bool) -> None:
    """Raise UsageError for an unknown value of `data.duplicates`, or one that does not apply to atom-level targets."""
    if method not in DUPLICATES:
        raise UsageError(unknown_choice("duplicates method", method, DUPLICATES))
    if method != KEEP and atom_level:
        raise UsageError(molecule_level_only("--duplicates"))


def merge_rows(
    config: DataConfig,
    usable: UsableRows,
    task: Task,
    transforms: Sequence[TargetTransform | None],
    table: Table,
    split_labels: np.ndarray | None,
) -> MergeResult:
    """Merge the rows of each molecule by the method `config.duplicates`, see `merge_duplicates`.

    Rows with different descriptors, such as pH, or with different labels in `split_labels` are not merged. A merged row
    has the mean of the weights, and belongs to the groups of all its rows.

    Args:
        config: the settings.
        usable: the rows to merge.
        task, transforms: of the targets.
        table: the table of these rows.
        split_labels: of every row of the table, from a column or file; None if the rows are split later.

    Raises:
        InputError: no row is left, or a label of a molecule that is in several rows is a bound.
    """
    keys: list[object] = [
        (
            key,
            None if usable.descriptors is None else tuple(usable.descriptors[i]),
            None if split_labels is None else split_labels[row],
        )
        for i, (key, row) in enumerate(zip(usable.keys, usable.rows.tolist(), strict=True))
    ]
    locations = [table.location(row) for row in usable.rows.tolist()]
    merged = merge_duplicates(
        config.duplicates, keys, usable.targets, task, transforms, config.target_columns, locations
    )
    _check_bounds(usable, merged.groups, config.target_columns, locations)
    rejected, duplicates = list(usable.rejected), []
    weights = None if usable.weights is None else usable.weights.copy()
    for number, (group, labels) in enumerate(zip(merged.groups, merged.labels, strict=True)):
        if weights is not None:
            weights[group[0]] = weights[group].mean()
        into = None if number in merged.dropped else int(usable.rows[group[0]])
        for i in group.tolist():
            row = int(usable.rows[i])
            values = tuple(usable.targets[i].tolist())
            duplicates.append(DuplicateRow(row, usable.keys[i], values, labels, into))
            if into is None:
                reason = merged.dropped[number]
                rejected.append(table.reject(row, usable.smiles[i], reason))
    rejected.sort(key=lambda r: r.row)
    if not len(merged.indices):
        raise no_row_error(table.source, rejected)
    if usable.groups is not None:
        usable = replace(usable, groups=connect_groups(usable.groups, usable.keys))
    remaining = replace(usable, weights=weights).select(merged.indices, merged.targets, rejected)
    duplicates.sort(key=lambda r: r.row)
    return MergeResult(remaining, merged.indices, tuple(duplicates), merged.message(config.duplicates, task))


def _check_bounds(
    usable: UsableRows, groups: Sequence[np.ndarray], names: Sequence[str], locations: Sequence[str]
) -> None:
    """Raise InputError if a label in one of these groups of rows is a bound: bounds have no mean."""
    if usable.bounds is None or not groups:
        return
    rows = np.concatenate(groups)
    found = np.argwhere(has_bounds(usable.bounds[rows]))
    if len(found):
        i, t = int(rows[found[0, 0]]), int(found[0, 1])
        raise InputError(
            f"{locations[i]}, column {short_repr(names[t])}: {format_bound(*usable.bounds[i, t])} is a bound, of a "
            "molecule in several rows, which --duplicates cannot merge: leave the row or --duplicates out"
        )


def merge_duplicates(
    method: str,
    keys: Sequence[object],
    targets: np.ndarray,
    task: Task,
    transforms: Sequence[TargetTransform | None],
    names: Sequence[str],
    locations: Sequence[str],
) -> MergedDuplicates:
    """Merge the rows of one molecule into the first of them.

    The label of a molecule is the mean or the median of its known labels, target by target, after the transform, which
    is then inverted: the geometric mean for a logarithm. For classes it is the most frequent one; a tie leaves the
    target without a label, and a molecule without any label is dropped. The method "drop" drops molecules whose labels
    are in conflict, see `find_conflicts`, and merges the others as "mean" does.

    Args:
        method: "mean", "median" or "drop".
        keys: n keys; rows with equal keys are one molecule.
        targets: (n, T), NaN where missing.
        task, names: of the targets.
        transforms: of each target, None for none; empty if no target has one.
        locations: the location of each of the n rows in the table, for the reasons.
    """
    # The transform "rank" is fitted to the training split, which does not exist yet.
    invertible = [f if f is not None and f.name != "rank" else None for f in transforms] or [None] * targets.shape[1]
    transformed = np.stack([y if f is None else f.forward(y) for f, y in zip(invertible, targets.T, strict=True)], 1)
    found = find_duplicates(keys)
    conflicts = find_conflicts(found, transformed, task)
    merged = targets.copy()
    remains = np.ones(len(targets), dtype=bool)
    groups, labels, dropped = [], [], {}
    for number in range(len(found)):
        rows = found.rows(number)
        groups.append(rows)
        remains[rows[1:]] = False
        reason = ""
        if method == DROP and conflicts[number].any():
            t = int(conflicts[number].argmax())
            reason = f"{_disagreement(targets[rows, t], rows, task, t, names, locations)}: --duplicates drop"
        label = [_label(transformed[rows, t], method, task) for t in range(targets.shape[1])]
        labelled = np.flatnonzero(np.isfinite(targets[rows]).any(0))  # no target if all labels are bounds
        if not reason and len(labelled) and not np.isfinite(label).any():
            t = int(labelled[0])
            tie = _disagreement(targets[rows, t], rows, task, t, names, locations)
            reason = f"{tie}: no class is the most frequent"
        if reason:
            remains[rows[0]] = False
            dropped[number] = reason
            labels.append(())
            continue
        label = [
            float(targets[rows[0], t]) if (targets[rows, t] == targets[rows[0], t]).all() else _inverse(value, f)
            for t, (value, f) in enumerate(zip(label, invertible, strict=True))
        ]
        merged[rows[0]] = label
        labels.append(tuple(label))
    return MergedDuplicates(np.flatnonzero(remains), merged[remains], groups, labels, dropped)


def _label(values: np.ndarray, method: str, task: Task) -> float:
    """The label of a molecule from those of its rows, NaN where missing."""
    labels = values[np.isfinite(values)]
    if not len(labels):
        return np.nan
    if isinstance(task, Regression):
        return float(np.median(labels) if method == MEDIAN else np.mean(labels))
    classes, counts = np.unique(labels, return_counts=True)
    most = classes[counts == counts.max()]
    return float(most[0]) if len(most) == 1 else np.nan


def _inverse(value: float, f: TargetTransform | None) -> float:
    return value if f is None else float(f.inverse(np.array([value]))[0])


def _disagreement(
    values: np.ndarray, rows: np.ndarray, task: Task, t: int, names: Sequence[str], locations: Sequence[str]
) -> str:
    """The smallest and the largest label of target t, in the order of their rows, with their locations."""
    labelled = np.flatnonzero(np.isfinite(values))
    low, high = labelled[values[labelled].argmin()], labelled[values[labelled].argmax()]
    texts = []
    for i in sorted((low, high)):
        value = task.table_value(float(values[i]), t)
        texts.append(f"{f'{value:g}' if isinstance(value, float) else short_repr(value)} in {locations[int(rows[i])]}")
    return f"column {short_repr(names[t])} of the molecule is {' and '.join(texts)}"
