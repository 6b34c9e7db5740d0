"""The folds that settings are chosen by: no test molecule is in them, and no molecule or scaffold is in two subsets."""

from collections import Counter

import folds
import numpy as np
import pytest

from molattn.chem import murcko_scaffold
from molattn.data import column, datasets_dir, load_card, read_split_file, read_table


@pytest.mark.parametrize(("split", "group_of"), [("scaffold", murcko_scaffold), ("random0", folds.canonical)])
def test_every_group_is_held_out_once_but_the_large_and_test_molecules_never(split, group_of):
    card = load_card("esol")
    smiles = column(read_table(card.path), card.smiles_column)
    sides = read_split_file(datasets_dir() / "splits" / f"esol-{split}.csv", smiles)
    made = np.array(folds.make_folds(smiles, sides, group_of))
    assert made.shape == (folds.FOLDS, len(smiles))
    assert ((made == "") == (sides == "test")).all()

    groups = np.array([group_of(text) for text in smiles])
    own = sides != "test"
    sizes = Counter(groups[own])
    large = np.array([not g or sizes[g] > folds.MAX_GROUP for g in groups])
    assert (made[:, own & large] == "train").all()
    assert ((made == "test").sum(axis=0)[own & ~large] == 1).all()
    assert ((made == "val").sum(axis=0)[own & ~large] == 1).all()
    for labels in made:
        assert max(len(set(labels[own & (groups == g)])) for g in sizes) == 1
    counts = (made == "test").sum(axis=1)
    assert counts.min() > 0.8 * counts.max()
