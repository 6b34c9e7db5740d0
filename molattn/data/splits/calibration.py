"""Molecules held out for calibration: they are not used for training, validation or testing."""

from collections.abc import Sequence

import numpy as np

from molattn.data.splits.labels import CALIBRATION, Labels
from molattn.data.splits.splitters import split_labels
from molattn.errors import InputError, UsageError


def hold_out_calibration(
    labels: Labels,
    name: str,
    keys: Sequence[str],
    targets: np.ndarray,
    share: float,
    seed: int,
    groups: Sequence[str] | None = None,
) -> Labels:
    """The labels with a `share` of all n rows moved from train to `cal`, by the split `name` of the training rows.

    Whole molecules, scaffolds or groups are moved, as in that split. Val and test are unchanged, so that models with
    and without calibration are tested on the same molecules.

    Args:
        labels: (n,) of train, val, test or empty; empty ones are ignored.
        name, keys, targets, seed, groups: as for `split_labels`.
        share: above 0.

    Raises:
        UsageError: a share that leaves no training molecule.
        InputError: too few training molecules.
    """
    rows = np.flatnonzero(labels == "train")
    indices = rows.tolist()
    test_share = share * np.count_nonzero(labels) / max(1, len(rows))
    if not 0 < test_share < 1:
        raise UsageError(
            f"--calibration-size {share:g} takes its molecules from training, which has {len(rows)} of "
            f"{np.count_nonzero(labels)}: choose a smaller one"
        )
    try:
        # The test subset of a split of the training molecules is held out.
        train_split = split_labels(
            name,
            [keys[i] for i in indices],
            np.asarray(targets)[rows],
            (1 - test_share, 0.0, test_share),
            seed,
            None if groups is None else [groups[i] for i in indices],
        )
    except InputError as error:
        raise InputError(f"--calibration-size {share:g} takes its molecules from training: {error}") from error
    labels = labels.copy()
    labels[rows[train_split == "test"]] = CALIBRATION
    return labels
