"""The rules that choose an epoch: they match training, and the files of results are consistent."""

from pathlib import Path

import epoch_choice
import epoch_rules
import folds
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molattn.data import column, load_card, read_table
from molattn.training.metrics import VAL_LOSS
from tests.training.test_early_stopping import watched


@given(st.lists(st.sampled_from([0.1, 0.25, 0.5, 0.75]), min_size=1, max_size=12), st.integers(1, 5))
def test_a_rule_chooses_and_stops_like_training(losses: list[float], patience: int) -> None:
    stopping = watched(losses, VAL_LOSS, patience)
    assert epoch_rules.early_stopping(-np.array(losses), patience) == (stopping.best_epoch, len(stopping.history))


@pytest.mark.parametrize("split", ["random", "scaffold"])
def test_no_group_is_in_two_subsets_and_validation_is_half_a_fold(split: str) -> None:
    card = load_card("esol")
    smiles = column(read_table(card.path), card.smiles_column)[:300]
    labels = folds.fold_labels(smiles, split, 0)
    groups = np.array([folds.GROUPS[split](text) for text in smiles])
    assert all(len(set(labels[groups == group])) == 1 for group in set(groups) if group)
    held, val = ((labels == side).sum() for side in ("test", "val"))
    assert 0.35 * held < val < 0.65 * held


def test_the_results_of_the_rules_are_those_of_the_curves(tmp_path: Path) -> None:
    epoch_rules.write_rules(
        epoch_rules.read_trainings(epoch_choice.RESULTS / "epoch_choice_curves.csv"), tmp_path / "rules.csv"
    )
    assert (tmp_path / "rules.csv").read_bytes() == (epoch_choice.RESULTS / "epoch_choice.csv").read_bytes()
