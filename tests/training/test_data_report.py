"""Checks of the data before a training: duplicates, salts, ranges, classes, and splits that are too small."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from sklearn.metrics import roc_auc_score

from molattn.models.graph_model import GraphModel
from molattn.models.smiles_model import SmilesModel
from molattn.models.tasks import Binary, Regression
from molattn.training.config import DataConfig
from molattn.training.data_checks import NORMAL_QUANTILE, _auroc_width, _rmse_width
from molattn.training.data_report import DataReport, check_data
from molattn.training.duplicates import CONFLICT, find_conflicts, find_duplicates
from molattn.training.prepare import prepare
from tests.molecules import esol

SMILES, VALUES = esol(60)


def _check(path: Path, rows: Sequence[Sequence[object]], model: Any = GraphModel, **settings: Any) -> DataReport:
    """The checks of a table whose first row is its header."""
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    config = DataConfig(dataset=str(path), **settings)
    return check_data(prepare(config, model, seed=0), before_training=False)


def _messages(found: DataReport, check: str, attention: bool = True) -> list[str]:
    return [f.message for f in found.findings if f.check == check and f.needs_attention == attention]


def test_duplicates_are_those_of_pandas_over_canonical_smiles(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    spelled = [
        Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(SMILES[i]), 1, randomSeed=int(j))[0]
        for j, i in enumerate(rng.integers(0, 40, 120))
    ]
    y = rng.normal(size=len(spelled)).round(3)
    found = _check(tmp_path / "t.csv", [("smiles", "y"), *zip(spelled, y, strict=True)])
    frame = pd.DataFrame({"key": [Chem.CanonSmiles(s) for s in spelled], "y": y, "line": np.arange(120) + 2})
    groups = frame.groupby("key").filter(lambda rows: len(rows) > 1).groupby("key")
    difference = groups["y"].max() - groups["y"].min()
    (finding,) = [f for f in found.findings if f.check == "duplicates"]
    assert finding.details["molecules"] == len(groups)
    assert finding.details["rows"] == int(groups.size().sum())
    assert finding.details["conflicting"] == int((difference > CONFLICT * frame["y"].std(ddof=0)).sum()) > 0
    worst = finding.details["examples"][0]
    rows = groups.get_group(difference.idxmax())
    assert worst["line"] == rows["line"].tolist()
    assert worst["values"] == pytest.approx(rows["y"].tolist())
    assert f"lines {worst['line'][0]}" in finding.message
    assert found.to_dict()["findings"][0]["examples"]


@pytest.mark.parametrize("shift", [0.49, 0.51])
def test_labels_are_in_conflict_if_they_differ_by_over_half_a_standard_deviation(shift: float) -> None:
    base = np.array([0.0, 2.0] * 50)
    rows = np.concatenate([base, [1.0, 1.0 + shift * base.std()]])[:, None]
    keys = [str(i) for i in range(100)] + ["same", "same"]
    groups = find_duplicates(keys)
    assert find_conflicts(groups, rows, Regression()).tolist() == [[shift > 0.5 * rows.std() / base.std()]]


def test_classes_are_in_conflict_if_they_differ_and_missing_labels_are_not() -> None:
    labels = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 0.0], [0.0, np.nan], [np.nan, 1.0]])
    groups = find_duplicates(["a", "a", "b", "b", "c"])
    assert [groups.rows(g).tolist() for g in range(len(groups))] == [[0, 1], [2, 3]]
    assert find_conflicts(groups, labels, Binary()).tolist() == [[True, False], [False, False]]
    assert len(find_duplicates([])) == len(find_duplicates(["a"])) == 0


def test_salts_are_reported_with_their_parent(tmp_path: Path) -> None:
    rows = [("smiles", "y"), ("[Na+].CC(=O)[O-]", 1.0), *zip(SMILES, VALUES, strict=True)]
    found = _check(tmp_path / "t.csv", rows)
    (message,) = _messages(found, "fragments")
    assert "1 row is of several fragments" in message and "line 2:" in message and "'CC(=O)O'" in message
    (message,) = _messages(found, "standardize", attention=False)
    assert "'CC(=O)[O-].[Na+]' to 'CC(=O)O'" in message
    standard = _check(tmp_path / "t.csv", rows, standardize="parent")
    assert not [f for f in standard.findings if f.check in ("fragments", "standardize")]


@pytest.mark.parametrize(
    ("values", "reported"),
    [(lambda z: 10.0 ** (2 * z), True), (lambda z: 10.0 ** (0.3 * z), False), (lambda z: z, False)],
    ids=["over orders of magnitude", "positive", "with both signs"],
)
def test_targets_over_orders_of_magnitude_are_reported(tmp_path: Path, values: Any, reported: bool) -> None:
    y = values(np.random.default_rng(1).normal(size=60))
    table = [("smiles", "ic50"), *zip(SMILES, y.tolist(), strict=True)]
    found = _check(tmp_path / "t.csv", table, target_transform=("none",))
    assert len(_messages(found, "range")) == reported
    for message in _messages(found, "range"):
        assert "orders of magnitude" in message and "'ic50'" in message


def test_rare_classes_and_targets_with_few_labels_are_reported(tmp_path: Path) -> None:
    a = [int(i in (3, 30)) for i in range(60)]
    b = ["" if i % 3 else i % 2 for i in range(60)]
    found = _check(
        tmp_path / "t.csv", [("smiles", "a", "b"), *zip(SMILES, a, b, strict=True)], target_columns=("a", "b")
    )
    (message,) = _messages(found, "classes")
    assert "1 class has under 5%" in message and "'1' of 'a', has 2 of 60" in message
    (message,) = _messages(found, "labels")
    assert "1 target has under 50 labels: 'b' has 20" in message
    assert any("AUROC" in message for message in _messages(found, "splits"))


def test_small_splits_are_reported_with_the_width_of_an_interval(tmp_path: Path) -> None:
    rows = [("smiles", "y"), *zip(SMILES, VALUES, strict=True)]
    test, val = _messages(_check(tmp_path / "t.csv", rows), "splits")
    assert "6 test labels: the 95% interval of the RMSE would be about +-57% of it" in test
    assert "6 validation labels" in val and "--num-folds" in test and "--num-folds" not in val
    folds = _messages(_check(tmp_path / "t.csv", rows, num_folds=6, fold=0), "splits")
    assert folds and not any("--num-folds" in message for message in folds)
    large = _check(tmp_path / "t.csv", [("smiles", "y"), *zip(*esol(500), strict=True)])
    assert not _messages(large, "splits")


def test_rows_without_a_split_label_are_counted_and_not_used(tmp_path: Path) -> None:
    labels = ["train"] * 30 + ["val"] * 10 + ["test"] * 10 + [""] * 10
    rows = [("smiles", "y", "split"), *zip(SMILES, VALUES, labels, strict=True)]
    found = _check(tmp_path / "t.csv", rows, split_column="split")
    assert "10 rows have no split label and are not used" in _messages(found, "splits")
    content = found.to_dict()
    assert (content["rows"], content["used"], sum(content["split"].values())) == (60, 50, 50)
    # No folds are advised where the table has one split.
    assert not any("--num-folds" in m for m in _messages(found, "splits"))


def test_subsets_that_whole_scaffolds_make_too_large_are_reported(tmp_path: Path) -> None:
    chains = ["C" * n + end for n in range(1, 16) for end in ("O", "N")]  # no ring: one scaffold
    settings = {"split": "scaffold-balanced", "calibration_size": 0.1}
    for count, is_reported in ((12, True), (30, False)):
        rings = [f"C1{'C' * n}C1" for n in range(1, count + 1)]
        rows = [("smiles", "y"), *((s, i) for i, s in enumerate([*chains, *rings]))]
        found = _check(tmp_path / "t.csv", rows, **settings)
        messages, split = [m for m in _messages(found, "splits") if "stay together" in m], found.to_dict()["split"]
        assert bool(messages) == is_reported == (split["cal"] > split["train"])
        if is_reported:
            wanted = f"{split['cal']} of 42 molecules are in the cal split (10% were requested), and {split['train']}"
            assert any(m.startswith(wanted) for m in messages)
    asked = _check(tmp_path / "t.csv", rows, split_sizes=(0.2, 0.4, 0.4))
    assert not any("stay together" in m for m in _messages(asked, "splits"))


def test_the_widths_are_those_of_simulated_metrics() -> None:
    rng = np.random.default_rng(0)
    rmse = np.sqrt(np.mean(rng.normal(size=(4000, 30)) ** 2, 1))
    assert _rmse_width(np.zeros(30))[1] == pytest.approx(NORMAL_QUANTILE * rmse.std() / rmse.mean(), rel=0.1)
    y = np.array([1.0] * 20 + [0.0] * 40)
    # Two normal distributions at this distance have an AUROC of 0.8.
    auroc = [roc_auc_score(y, rng.normal(size=60) + 1.19 * y) for _ in range(1000)]
    assert np.mean(auroc) == pytest.approx(0.8, abs=0.01)
    assert _auroc_width(y)[1] == pytest.approx(NORMAL_QUANTILE * np.std(auroc), rel=0.15)


def test_sizes_are_of_atoms_and_the_model_of_tokens_has_none(tmp_path: Path) -> None:
    rows = [("smiles", "y"), *zip(SMILES, VALUES, strict=True), ("C" * 160, 1.0), ("[Xe]", 2.0)]
    found = _check(tmp_path / "t.csv", rows)
    assert "1 molecule has over 150 atoms, the largest, line 62, 160" in _messages(found, "size")[0]
    assert "1 molecule is a single atom; the first, line 63: '[Xe]'" in _messages(found, "size", attention=False)[0]
    assert not [f for f in _check(tmp_path / "t.csv", rows, SmilesModel).findings if f.check == "size"]


def test_targets_of_atoms_are_checked_without_labels_of_molecules(tmp_path: Path) -> None:
    lists = ["[" + " ".join(["0.5"] * Chem.MolFromSmiles(s).GetNumAtoms()) + "]" for s in (*SMILES, SMILES[0])]
    found = _check(tmp_path / "t.csv", [("smiles", "q"), *zip((*SMILES, SMILES[0]), lists, strict=True)])
    (message,) = _messages(found, "duplicates", attention=False)
    assert "1 molecule is in several rows, 2 in all" in message
