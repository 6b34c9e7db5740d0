"""k-fold splits, and molecules held out for calibration."""

from collections.abc import Sequence

import numpy as np

from molattn.data.splits.groups import (
    group_by_cluster,
    group_by_scaffold,
    group_rows,
    merge_groups,
    shuffle_names,
    shuffle_strata,
)
from molattn.data.splits.labels import CALIBRATION, Labels, pluralize, random_generator, validate_sizes
from molattn.data.splits.splitters import SPLITS, SPLITS_BY_TARGET, split_labels
from molattn.errors import InputError, UsageError, unknown_choice


def assign_folds(
    name: str,
    smiles: Sequence[str],
    targets: np.ndarray,
    num_folds: int,
    seed: int,
    groups: Sequence[str] | None = None,
) -> np.ndarray:
    """The fold, from 0, in which each row is a test row; all rows of a molecule, scaffold or cluster are in one fold.

    The molecules, scaffolds or clusters of the split `name` are shuffled with `seed` and sorted by size, the largest
    first, or by stratum in the stratified split. Each is assigned to the fold with the fewest rows so far. The order of
    the rows does not matter.

    Args:
        name: "random", "scaffold", "scaffold-balanced" (the same folds as "scaffold"), "cluster" or "stratified".
        smiles: n canonical SMILES.
        targets: (n,) or (n, T), NaN if missing; only the stratified split reads them.
        num_folds: number of folds, 2 or more.
        seed: seed of the random order, 0 or more.
        groups: as for `split_labels`.

    Returns:
        (n,) integers.

    Raises:
        UsageError: an unknown split or one without folds, fewer than 2 folds, or a negative seed.
        InputError: fewer molecules, scaffolds, clusters or groups than folds; or a SMILES that cannot be read, in a
            split by scaffold or cluster.

    >>> import numpy as np
    >>> from molattn.data import assign_folds
    >>> smiles = ["CCO", "CCO", "CCN", "CCC", "CCS", "CCF"]
    >>> folds = assign_folds("random", smiles, np.zeros(6), num_folds=3, seed=0)
    >>> np.bincount(folds).tolist(), bool(folds[0] == folds[1])  # the rows of a molecule are in one fold
    ([2, 2, 2], True)
    """
    if num_folds < 2:
        raise UsageError(f"num_folds must be 2 or more, not {num_folds}")
    rng = random_generator(seed)
    if name == "stratified":
        order = shuffle_strata(smiles, targets, groups, rng)
    elif name in _GROUP_BY:
        rows_by_group = merge_groups(_GROUP_BY[name](smiles), groups)
        order = sorted((rows_by_group[group] for group in shuffle_names(rows_by_group, rng)), key=len, reverse=True)
    elif name in SPLITS:
        raise UsageError(f"the split {name!r} has no folds: choose one of {', '.join((*_GROUP_BY, *SPLITS_BY_TARGET))}")
    else:
        raise UsageError(unknown_choice("split", name, (*SPLITS, *SPLITS_BY_TARGET)))
    if len(order) < num_folds:
        raise InputError(
            f"the {name} split has {pluralize(len(order), 'group')} of molecules, too few for {num_folds} folds: "
            f"use fewer folds{'' if name == 'random' else ' or the random split'}"
        )
    folds, num_rows = np.zeros(len(smiles), dtype=int), np.zeros(num_folds)
    for rows in order:
        smallest = int(num_rows.argmin())
        folds[rows] = smallest
        num_rows[smallest] += len(rows)
    return folds


def fold_labels(
    name: str,
    smiles: Sequence[str],
    targets: np.ndarray,
    sizes: Sequence[float],
    seed: int,
    num_folds: int,
    fold: int,
    groups: Sequence[str] | None = None,
) -> Labels:
    """The labels of one fold: its rows are the test subset, and the other rows are split into train and val.

    The other rows are split by the split `name`, in the ratio of the `sizes` of train and val.

    Args:
        name, smiles, targets, seed, num_folds, groups: as for `assign_folds`.
        sizes: the shares of train, val and test, which sum to 1; that of test has no effect.
        fold: the index of the fold, from 0.

    Returns:
        (n,) labels.

    Raises:
        UsageError: a fold that is not from 0 to num_folds - 1, invalid sizes, sizes of train and val that are both 0;
            and as `assign_folds`.
        InputError: as `assign_folds` and the split of the other rows.

    >>> import numpy as np
    >>> from molattn.data import fold_labels
    >>> smiles = ["CCO", "CCN", "CCC", "CCS", "CCF", "CCCl"]
    >>> labels = [fold_labels("random", smiles, np.zeros(6), (0.5, 0.5, 0.0), 0, 3, fold) for fold in range(3)]
    >>> sorted(labels[0].tolist())
    ['test', 'test', 'train', 'train', 'val', 'val']
    >>> (np.array(labels) == "test").sum(0).tolist()  # every molecule is in the test subset of one fold
    [1, 1, 1, 1, 1, 1]
    """
    if not 0 <= fold < num_folds:
        raise UsageError(f"the fold is a number from 0 to {num_folds - 1}, not {fold}")
    train, val, _ = validate_sizes(sizes)
    if train + val == 0:
        raise UsageError("the sizes of train and val are both 0: folds need one of them above 0")
    is_test = assign_folds(name, smiles, targets, num_folds, seed, groups) == fold
    labels = np.full(len(smiles), "test", dtype="<U5")
    rest = np.flatnonzero(~is_test).tolist()
    sizes_of_rest = (train / (train + val), val / (train + val), 0.0)
    labels[rest] = split_labels(
        name,
        [smiles[row] for row in rest],
        np.asarray(targets)[rest],
        sizes_of_rest,
        seed,
        None if groups is None else [groups[row] for row in rest],
    )
    return labels


_GROUP_BY = {
    "random": group_rows,
    "scaffold": group_by_scaffold,
    "scaffold-balanced": group_by_scaffold,
    "cluster": group_by_cluster,
}


def hold_out_calibration(
    labels: Labels,
    name: str,
    smiles: Sequence[str],
    targets: np.ndarray,
    size: float,
    seed: int,
    groups: Sequence[str] | None = None,
) -> Labels:
    """Hold out training rows for calibration: the labels with some rows changed from "train" to "cal".

    The split `name` selects the rows among the training rows, as whole molecules, scaffolds or groups. Val and test are
    unchanged, so that models with and without calibration are tested on the same molecules.

    Args:
        labels: (n,) labels, each "train", "val", "test" or ""; rows with "" are ignored.
        name, smiles, targets, seed, groups: as for `split_labels`.
        size: the share of the calibration rows among all rows with a label, above 0.

    Returns:
        (n,) labels, a new array.

    Raises:
        UsageError: a size of 0 or less, or one that leaves no training molecule; an unknown split; a negative seed.
        InputError: the training rows cannot be split, such as for too few molecules.

    >>> from collections import Counter
    >>> import numpy as np
    >>> from molattn.data import hold_out_calibration, random_split
    >>> smiles = ["C" * n + "O" for n in range(1, 21)]
    >>> labels = random_split(smiles)
    >>> held_out = hold_out_calibration(labels, "random", smiles, np.zeros(20), size=0.1, seed=0)
    >>> [sorted(Counter(of.tolist()).items()) for of in (labels, held_out)]
    [[('test', 2), ('train', 16), ('val', 2)], [('cal', 2), ('test', 2), ('train', 14), ('val', 2)]]
    """
    rows = np.flatnonzero(labels == "train")
    indices = rows.tolist()
    test_size = size * np.count_nonzero(labels) / max(1, len(rows))
    if not 0 < test_size < 1:
        raise UsageError(
            f"--calibration-size {size:g} takes its molecules from training, which has {len(rows)} of "
            f"{np.count_nonzero(labels)}: choose a smaller one"
        )
    try:
        # The test subset of a split of the training molecules is held out.
        train_split = split_labels(
            name,
            [smiles[i] for i in indices],
            np.asarray(targets)[rows],
            (1 - test_size, 0.0, test_size),
            seed,
            None if groups is None else [groups[i] for i in indices],
        )
    except InputError as error:
        raise InputError(f"--calibration-size {size:g} takes its molecules from training: {error}") from error
    labels = labels.copy()
    labels[rows[train_split == "test"]] = CALIBRATION
    return labels
