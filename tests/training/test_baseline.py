"""The random forest baseline: its features, and its metrics on the split of the run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from sklearn.metrics import roc_auc_score

from molattn.chem import morgan_bits, morgan_counts
from molattn.errors import UsageError
from molattn.models.graph_model import GraphModel
from molattn.models.tasks import Regression
from molattn.training import baseline
from molattn.training.baseline import check_baseline, forest_metrics
from molattn.training.config import DataConfig
from molattn.training.dataset import PreparedDataset
from molattn.training.prepare import prepare
from tests.cli.conftest import QUICK, Molattn
from tests.cli.conftest import molattn as molattn_command
from tests.molecules import esol

SMILES, VALUES = esol(120)
command = molattn_command


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty trees, and twelve descriptors."""
    monkeypatch.setattr(baseline, "NUM_TREES", 20)
    monkeypatch.setattr(baseline, "FOREST_FEATURIZERS", ("rdkit_few",))


def _dataset(path: Path, frame: pd.DataFrame, **settings: Any) -> PreparedDataset:
    frame.to_csv(path, index=False)
    return prepare(DataConfig(dataset=str(path), **settings), GraphModel, seed=0)


def test_counts_are_those_of_rdkit_and_set_where_the_bits_are() -> None:
    counts = morgan_counts(SMILES[:20])
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    wanted = [generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(s)) for s in SMILES[:20]]
    np.testing.assert_array_equal(counts, wanted)
    np.testing.assert_array_equal(np.packbits(counts > 0, axis=1), morgan_bits(SMILES[:20]))
    assert morgan_counts([]).shape == (0, 2048)


def test_a_forest_is_better_than_the_mean_and_reproducible(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path / "t.csv", pd.DataFrame({"smiles": SMILES, "y": VALUES}))
    found = forest_metrics(dataset, ("rmse", "r2"), seed=0)
    assert found == forest_metrics(dataset, ("rmse", "r2"), seed=0)
    assert found["test"]["y"]["r2"] > 0.3
    assert found["test"]["y"]["n"] == len(dataset.indices("test"))
    assert "mean" not in found and set(found) == {"what", "val", "test"}


def test_each_target_has_a_forest_of_the_molecules_with_a_label(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": SMILES, "a": VALUES, "b": VALUES})
    frame.loc[::2, "b"] = np.nan
    both = forest_metrics(_dataset(tmp_path / "t.csv", frame, target_columns=("a", "b")), ("rmse",), seed=0)
    alone = forest_metrics(_dataset(tmp_path / "s.csv", frame, target_columns=("a",)), ("rmse",), seed=0)
    assert both["test"]["a"] == alone["test"]["a"]
    assert both["test"]["b"]["n"] < both["test"]["a"]["n"]
    means = [both["test"][t]["rmse"] for t in "ab"]
    assert both["mean"]["test"]["rmse"] == pytest.approx(np.mean(means))


def test_with_a_transform_the_forest_is_fitted_to_it_and_predicts_in_the_unit(tmp_path: Path) -> None:
    # Of whole numbers the logarithms of the powers are exact, so that both forests are the same to the bit.
    whole = np.round(VALUES)
    np.testing.assert_array_equal(np.log10(10.0**whole), whole)
    plain = _dataset(tmp_path / "t.csv", pd.DataFrame({"smiles": SMILES, "y": whole}), task_type="regression")
    frame = pd.DataFrame({"smiles": SMILES, "y": 10.0**whole})
    dataset = _dataset(tmp_path / "u.csv", frame, target_transform=("log10",))
    names = "rmse", "spearman"
    of_logarithms, found = (forest_metrics(d, names, seed=0)["test"]["y"] for d in (plain, dataset))
    assert found["spearman"] == pytest.approx(of_logarithms["spearman"], rel=1e-9)
    assert found["rmse"] < np.ptp(dataset.targets[dataset.indices("test")])
    assert found["rmse"] != pytest.approx(of_logarithms["rmse"], rel=1e-3)


def test_classes_are_measured_by_probabilities_and_a_sample_is_taken_of_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = (np.array(VALUES) > np.median(VALUES)).astype(int)
    dataset = _dataset(tmp_path / "t.csv", pd.DataFrame({"smiles": SMILES, "y": y}))
    found = forest_metrics(dataset, ("auroc",), seed=0)
    assert found["test"]["y"]["auroc"] > 0.7
    monkeypatch.setattr(baseline, "MAX_MOLECULES", 30)
    assert forest_metrics(dataset, ("auroc",), seed=0)["test"]["y"] != found["test"]["y"]
    words = np.array(["low", "middle", "high"])[np.digitize(VALUES, np.quantile(VALUES, [0.33, 0.66]))]
    several = _dataset(tmp_path / "w.csv", pd.DataFrame({"smiles": SMILES, "y": words}))
    monkeypatch.undo()
    monkeypatch.setattr(baseline, "FOREST_FEATURIZERS", ("rdkit_few",))
    train, test = (several.indices(side) for side in ("train", "test"))
    x = [baseline._features(several, rows, 0) for rows in (train, test)]
    predicted = baseline._forest(several.task, 0, 1).fit(x[0], several.targets[train, 0]).predict(x[1])
    wanted = np.mean(predicted == several.targets[test, 0])
    assert forest_metrics(several, ("accuracy",), seed=0)["test"]["y"]["accuracy"] == pytest.approx(wanted)


def test_the_predictions_do_not_depend_on_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = _dataset(tmp_path / "t.csv", pd.DataFrame({"smiles": SMILES, "y": VALUES}))
    whole = forest_metrics(dataset, ("rmse",), seed=0)
    monkeypatch.setattr(baseline, "CHUNK", 5)
    assert forest_metrics(dataset, ("rmse",), seed=0) == whole


def test_the_auroc_is_that_of_the_forest_of_scikit_learn(tmp_path: Path) -> None:
    y = (np.array(VALUES) > np.median(VALUES)).astype(int)
    dataset = _dataset(tmp_path / "t.csv", pd.DataFrame({"smiles": SMILES, "y": y}))
    train, test = (dataset.indices(side) for side in ("train", "test"))
    x = [baseline._features(dataset, rows, 0) for rows in (train, test)]
    forest = baseline._forest(dataset.task, 0, 1).fit(x[0], dataset.targets[train, 0])
    wanted = roc_auc_score(dataset.targets[test, 0], forest.predict_proba(x[1])[:, 1])
    assert forest_metrics(dataset, ("auroc",), seed=0)["test"]["y"]["auroc"] == pytest.approx(wanted)


def test_atoms_have_no_forest() -> None:
    with pytest.raises(UsageError, match="these are atom-level"):
        check_baseline(Regression(atom_level=True))


def test_the_command_prints_and_writes_it(command: Molattn, tmp_path: Path) -> None:
    pd.DataFrame({"smiles": SMILES, "y": VALUES}).to_csv(tmp_path / "t.csv", index=False)
    result = command("train", tmp_path / "t.csv", *QUICK, "--baseline", "-o", tmp_path / "run")
    assert result.code == 0, result.err
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert "random forest" in result.out.replace("\n", " ")
    assert f"{metrics['baseline_forest']['test']['y']['rmse']:.3f}" in result.out
    plain = command("train", tmp_path / "t.csv", *QUICK, "-o", tmp_path / "plain")
    assert "random forest" not in plain.out
    assert "baseline_forest" not in json.loads((tmp_path / "plain" / "metrics.json").read_text())
