"""Official splits of benchmarks: their test rows, and TDC's validation rows to the molecule."""

import hashlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from molattn.chem import murcko_scaffold
from molattn.data import OfficialSplit, column, load_card, official_split_labels, read_table, tdc_scaffold_split
from molattn.errors import InputError, UsageError

TDC_PACKAGE = {
    1: (317, "c400f80d9d9d6d16"),
    2: (141, "31444e5685ad730c"),
    3: (141, "d333c7b991b49f1d"),
    4: (254, "2884f499aae84555"),
    5: (317, "c400f80d9d9d6d16"),
}
"""Number of val rows and sha256 of the labels that `create_scaffold_split` of PyTDC 0.4.1 gives to ESOL, by seed."""


@pytest.fixture(scope="module")
def smiles() -> list[str]:
    card = load_card("esol")
    return column(read_table(card.path), card.smiles_column)


def test_the_validation_rows_are_those_of_the_package_of_tdc(smiles: list[str]) -> None:
    for seed, (num_val, sha256) in TDC_PACKAGE.items():
        labels = tdc_scaffold_split(smiles, seed)
        assert (labels == "val").sum() == num_val
        assert hashlib.sha256("\n".join(labels).encode()).hexdigest()[:16] == sha256


def test_scaffolds_stay_together_and_fill_the_training_rows(smiles: list[str]) -> None:
    scaffolds = np.array([murcko_scaffold(text) for text in smiles])
    for seed in (1, 2):
        labels = tdc_scaffold_split(smiles, seed, share=0.3)
        assert all(len(set(labels[scaffolds == scaffold])) == 1 for scaffold in set(scaffolds))
        room = int(0.7 * len(smiles)) - (labels == "train").sum()
        assert 0 <= room < min(Counter(scaffolds[labels == "val"]).values())


def test_molecules_that_cannot_be_read_are_left_out_and_do_not_count() -> None:
    smiles = ["C1CC1", "not a molecule", "c1ccccc1", "CCO", "C1CCC1"] * 2
    labels = tdc_scaffold_split(smiles, 3, share=0.25)
    assert [row for row, label in enumerate(labels) if not label] == [1, 6]
    readable = [text for text in smiles if text != "not a molecule"]
    assert tdc_scaffold_split(readable, 3, share=0.25).tolist() == [label for label in labels if label]
    assert Counter(labels.tolist()) == {"train": 6, "val": 2, "": 2}


@pytest.mark.parametrize("rule", ["tdc-scaffold", "random"])
def test_test_rows_are_fixed_and_validation_rows_follow_the_seed(rule: str, smiles: list[str]) -> None:
    smiles = smiles[:300]
    sides = ["test" if row % 4 == 0 else "train" for row in range(300)]
    table = read_table(pa.table({"smiles": smiles, "side": sides}))
    official = OfficialSplit("side", rule, 0.2)
    one, again, two = (official_split_labels(official, table, smiles, seed) for seed in (1, 1, 2))
    assert one.tolist() == again.tolist() != two.tolist()
    for labels in (one, two):
        assert [label == "test" for label in labels] == [side == "test" for side in sides]
        others = labels[np.array(sides) == "train"]
        assert set(others) == {"train", "val"}
    if rule == "tdc-scaffold":
        kept = [text for text, side in zip(smiles, sides, strict=True) if side == "train"]
        assert one[np.array(sides) == "train"].tolist() == tdc_scaffold_split(kept, 1, 0.2).tolist()
    else:
        assert (one == "val").sum() == pytest.approx(0.2 * 225, abs=2)


def test_a_table_with_another_word_or_an_unknown_rule_is_refused() -> None:
    table = read_table(pa.table({"smiles": ["CC", "CO", "CN"], "side": ["train", "valid", "test"]}))
    with pytest.raises(InputError, match="row 1.*column 'side' has 'valid'; it must be train or test"):
        official_split_labels(OfficialSplit("side", "random", 0.1), table, ["CC", "CO", "CN"], 0)
    table = read_table(pa.table({"smiles": ["CC", "CO", "CN"], "side": ["train", "train", "test"]}))
    with pytest.raises(InputError, match="validation method 'by year'"):
        official_split_labels(OfficialSplit("side", "by year", 0.1), table, ["CC", "CO", "CN"], 0)
    with pytest.raises(UsageError, match="no column 'part'"):
        official_split_labels(OfficialSplit("part", "random", 0.1), table, ["CC", "CO", "CN"], 0)
