"""Molecules set aside for calibration: they neither train nor choose the epoch, and are not tested."""

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
    """The labels with a `share` of all n rows moved from train to `cal`, by the split `name` over the training rows.

    Whole molecules, scaffolds or groups move, as that split parts them. Val and test stay what they are, so that a
    model with calibration is tested on the molecules of one without.

    Args:
        labels: (n,), each of them train, val, test or empty; those left out do not count.
        name, keys, targets, seed, groups: as for `split_labels`.
        share: above 0.

    Raises:
        UsageError: a share that leaves no training molecule.
        InputError: too few training molecules.
    """
    rows = np.flatnonzero(labels == "train")
    places = rows.tolist()
    wanted = share * np.count_nonzero(labels) / max(1, len(rows))
    if not 0 < wanted < 1:
        raise UsageError(
            f"--calibration-size {share:g} takes its molecules from training, which has {len(rows)} of "
            f"{np.count_nonzero(labels)}: ask for less"
        )
    try:
        # What would be the test side of the training molecules is the part that is set aside.
        parts = split_labels(
            name,
            [keys[i] for i in places],
            np.asarray(targets)[rows],
            (1 - wanted, 0.0, wanted),
            seed,
            None if groups is None else [groups[i] for i in places],
        )
    except InputError as error:
        raise InputError(f"--calibration-size {share:g} takes its molecules from training: {error}") from error
    labels = labels.copy()
    labels[rows[parts == "test"]] = CALIBRATION
    return labels
