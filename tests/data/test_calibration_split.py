"""Molecules held out for calibration."""

import numpy as np
import pytest

from molattn.data import SPLITS, SPLITS_BY_TARGET, hold_out_calibration, split_labels
from molattn.errors import InputError, UsageError
from tests.molecules import esol

SMILES, VALUES = esol(300)
KEYS = [*SMILES[:290], *SMILES[:10]]  # ten molecules twice
TARGETS = np.array([*VALUES[:290], *VALUES[:10]])[:, None]


@pytest.mark.parametrize("name", [*SPLITS, *SPLITS_BY_TARGET])
def test_calibration_rows_are_whole_molecules_of_the_training_split(name: str) -> None:
    before = split_labels(name, KEYS, TARGETS, (0.8, 0.1, 0.1), 0)
    labels = hold_out_calibration(before, name, KEYS, TARGETS, 0.1, 0)
    assert (labels[before != "train"] == before[before != "train"]).all()
    assert set(labels[before == "train"]) == {"train", "cal"}
    assert (labels == "cal").sum() == pytest.approx(30, abs=4)
    assert all(labels[i] == labels[290 + i] for i in range(10))
    # The order of the rows does not matter, and neither does rng.
    order = np.random.default_rng(0).permutation(300)
    again = hold_out_calibration(before[order], name, [KEYS[i] for i in order], TARGETS[order], 0.1, 0)
    assert (again == labels[order]).all()


def test_groups_stay_together_and_rows_left_out_stay_out() -> None:
    groups = [f"g{i % 40}" for i in range(300)]
    before = split_labels("random", KEYS, TARGETS, (0.8, 0.1, 0.1), 0, groups)
    before[:3] = ""
    labels = hold_out_calibration(before, "random", KEYS, TARGETS, 0.2, 0, groups)
    assert (labels[:3] == "").all()
    for group in set(groups):
        sides = {labels[i] for i in range(300) if groups[i] == group} - {""}
        assert len(sides) == 1


def test_a_share_that_is_too_large_raises() -> None:
    labels = split_labels("random", KEYS, TARGETS, (0.8, 0.1, 0.1), 0)
    with pytest.raises(UsageError, match="--calibration-size 0.8 takes its molecules from training, which has 2"):
        hold_out_calibration(labels, "random", KEYS, TARGETS, 0.8, 0)
    with pytest.raises(InputError, match="takes its molecules from training: 1 molecule cannot fill the 2 subsets"):
        hold_out_calibration(np.array(["train", "val", "test"]), "random", ["C", "CC", "CCC"], TARGETS[:3], 0.1, 0)
