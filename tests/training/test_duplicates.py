"""Rows of one molecule merged into one label: the merged labels, and that no row is lost."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import molattn
from molattn.errors import InputError, MolattnWarning, UsageError
from molattn.models.graph_model import GraphModel
from molattn.models.target_transform import TargetTransform
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.config import DataConfig
from molattn.training.dataset import PreparedDataset
from molattn.training.merge_duplicates import merge_duplicates
from molattn.training.prepare import prepare
from tests.molecules import esol
from tests.training.runs import SMALL

SMILES, _ = esol(30)


def _spelled(count: int) -> tuple[list[str], list[str]]:
    """Random spellings of some of `SMILES`, and the canonical one of each."""
    rng = np.random.default_rng(1)
    keys = [Chem.CanonSmiles(SMILES[i]) for i in rng.integers(0, len(SMILES), count)]
    spelled = [Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(k), 1, randomSeed=i)[0] for i, k in enumerate(keys)]
    return spelled, keys


def _prepare(path: Path, frame: pd.DataFrame, **settings: Any) -> PreparedDataset:
    frame.to_csv(path, index=False)
    return prepare(DataConfig(dataset=str(path), **settings), GraphModel, seed=0)


@pytest.mark.parametrize("method", ["mean", "median"])
def test_the_labels_are_those_of_pandas_over_canonical_smiles(tmp_path: Path, method: str) -> None:
    spelled, keys = _spelled(90)
    y = np.random.default_rng(0).normal(size=(90, 2)).round(3)
    y[::7, 1] = np.nan
    frame = pd.DataFrame({"smiles": spelled, "a": y[:, 0], "b": y[:, 1]})
    dataset = _prepare(tmp_path / "t.csv", frame, target_columns=("a", "b"), duplicates=method)
    wanted = frame.assign(key=keys).groupby("key")[["a", "b"]].agg(method)
    assert len(dataset.rows) == len(wanted)
    np.testing.assert_allclose(dataset.targets, wanted.loc[dataset.molecules.canonical_smiles], rtol=1e-12)
    # The first row represents each molecule, the others are reported as merged.
    first = pd.Series(range(90)).groupby(pd.Series(keys)).min()
    assert dataset.rows.tolist() == sorted(first)
    assert dataset.merged_rows == {row: first[key] for row, key in enumerate(keys) if row != first[key]}
    assert len(dataset.rows) + len(dataset.merged_rows) + len(dataset.rejected) == 90
    assert (dataset.split_labels != "").all()
    sides = pd.Series(dataset.split_labels).groupby(pd.Series(keys)).nunique()
    assert (sides == 1).all()
    assert any("see duplicates.csv" in warning for warning in dataset.warnings)


def test_drop_leaves_out_molecules_whose_labels_are_in_conflict(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": [*SMILES, "CCO", "OCC", "CCN", "NCC"], "y": [*np.linspace(0, 9, 30), 1, 9, 5, 5.1]})
    dataset = _prepare(tmp_path / "t.csv", frame, duplicates="drop")
    assert [r.line for r in dataset.rejected] == [32, 33]
    assert "column 'y' of the molecule is 1 in line 32 and 9 in line 33" in dataset.rejected[0].reason
    assert dict(zip(dataset.rows.tolist(), dataset.targets[:, 0].tolist(), strict=True))[32] == pytest.approx(5.05)
    assert dataset.merged_rows == {33: 32}
    kept = _prepare(tmp_path / "t.csv", frame)
    assert len(kept.rows) == 34 and not kept.duplicates and not kept.rejected


def test_a_logarithm_is_averaged_as_a_logarithm() -> None:
    y = np.array([[1.0], [100.0], [7.0]])
    for f, wanted in ((None, 50.5), (TargetTransform("log10"), 10.0), (TargetTransform("neg-log10-molar", "nM"), 10.0)):
        found = merge_duplicates("mean", ["a", "a", "b"], y, Regression(), (f,), ("y",), ("line 2", "line 3", "line 4"))
        assert found.targets[:, 0] == pytest.approx([wanted, 7.0])
        assert found.indices.tolist() == [0, 2]


def test_classes_take_the_most_frequent_and_ties_have_no_label() -> None:
    labels = np.array([[1, 0], [1, 1], [0, np.nan], [0, 2], [1, 0], [1, np.nan], [0, np.nan]], dtype=float)
    keys = ["a", "a", "a", "b", "b", "c", "c"]
    places = [f"line {i}" for i in range(7)]
    task = Multiclass("cross-entropy", (("no", "yes"), ("x", "y", "z")))
    found = merge_duplicates("mean", keys, labels, task, (), ("p", "q"), places)
    np.testing.assert_array_equal(found.targets, [[1.0, np.nan]])
    assert found.indices.tolist() == [0]
    assert set(found.dropped) == {1, 2}
    assert "'yes' in line 5" in found.dropped[2] and "no class is the most frequent" in found.dropped[2]
    agree = merge_duplicates("drop", ["a", "a", "b", "b"], labels[[0, 1, 2, 3], :1], Binary(), (), ("p",), places[:4])
    assert agree.targets[:, 0].tolist() == [1.0, 0.0] and not agree.dropped
    wanted = "4 rows of 2 molecules are merged, by {}; see duplicates.csv"
    assert agree.message("drop", Binary()) == wanted.format("their most frequent class")
    assert agree.message("drop", Regression()) == wanted.format("their mean")
    assert agree.message("median", Regression()) == wanted.format("their median")


def test_a_tie_is_named_by_a_target_with_labels() -> None:
    labels = np.array([[np.nan, 0.0], [np.nan, 1.0], [0.0, 1.0]])
    places = ["line 2", "line 3", "line 4"]
    found = merge_duplicates("mean", ["a", "a", "b"], labels, Binary(), (), ("p", "q"), places)
    assert found.indices.tolist() == [2]
    assert found.dropped == {
        0: "column 'q' of the molecule is 0 in line 2 and 1 in line 3: no class is the most frequent"
    }


def test_rows_with_other_descriptors_or_in_other_subsets_are_not_merged(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": [*SMILES, *["CCO"] * 4], "y": [*range(30), 1.0, 2.0, 3.0, 4.0]})
    frame["ph"] = [7.0] * 30 + [1.0, 1.0, 2.0, 2.0]
    dataset = _prepare(tmp_path / "t.csv", frame, target_columns=("y",), descriptor_columns=("ph",), duplicates="mean")
    assert dataset.merged_rows == {31: 30, 33: 32}
    assert dataset.targets[-2:, 0].tolist() == [1.5, 3.5]
    frame["side"] = ["train", "val", "test"] * 10 + ["train", "test", "train", "test"]
    split = _prepare(
        tmp_path / "t.csv", frame.drop(columns="ph"), target_columns=("y",), split_column="side", duplicates="mean"
    )
    assert split.merged_rows == {32: 30, 33: 31}
    assert split.targets[-2:, 0].tolist() == [2.0, 3.0]
    assert any("in more than one subset" in warning for warning in split.warnings)


def test_weights_are_averaged_and_groups_joined(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": [*SMILES, "CCO", "OCC"], "y": [*range(30), 1.0, 2.0]})
    frame["w"] = [1.0] * 30 + [0.5, 2.5]
    frame["series"] = [f"s{i % 10}" for i in range(30)] + ["s1", "s2"]
    dataset = _prepare(
        tmp_path / "t.csv", frame, target_columns=("y",), weight_column="w", group_column="series", duplicates="mean"
    )
    assert dataset.weights is not None and dataset.weights[-1] == 1.5
    # This molecule connects both series: they are in one subset.
    sides = {dataset.split_labels[i] for i in range(32) if i % 10 in (1, 2) and i < 30}
    assert sides == {dataset.split_labels[30]} == {dataset.split_labels[31]}


def test_no_row_left_is_a_sentence_and_atoms_have_no_duplicates(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": ["CCO", "OCC"] * 5, "y": range(10)})
    with pytest.raises(InputError, match="no row can be used; the first, line 2: column 'y' of the molecule is 0 in"):
        _prepare(tmp_path / "t.csv", frame, duplicates="drop")
    with pytest.raises(UsageError, match="choose one of keep, mean"):
        _prepare(tmp_path / "t.csv", frame, duplicates="average")
    with pytest.raises(UsageError, match="these are atom-level"):
        _prepare(tmp_path / "a.csv", pd.DataFrame({"smiles": ["CC"] * 9, "q": ["[1 2]"] * 9}), duplicates="mean")


def test_a_run_accounts_for_every_row(tmp_path: Path) -> None:
    spelled, keys = _spelled(80)
    y = np.random.default_rng(0).normal(size=80).round(3)
    pd.DataFrame({"smiles": spelled, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    run = tmp_path / "run"
    options: dict[str, Any] = {"duplicates": "mean", "epochs": 1, "accelerator": "cpu", "quiet": True}
    options["settings"] = [*SMALL, "data.molecule_featurizers=[]", "training.auxiliary=0"]
    with pytest.warns(MolattnWarning, match="are merged, by their mean; see duplicates.csv"):
        result = molattn.train(tmp_path / "t.csv", output_dir=run, **options)
    predictions = pd.read_csv(run / "predictions.csv")
    assert predictions["row"].tolist() == list(range(80)) and predictions["smiles"].tolist() == spelled
    predictions["key"] = keys
    # All rows of a molecule have one prediction, and its label is used once.
    assert (predictions.groupby("key")["y_pred"].nunique() == 1).all()
    assert (predictions.groupby("key")["y"].count() == 1).all()
    np.testing.assert_allclose(
        predictions.groupby("key")["y"].first(), pd.Series(y).groupby(pd.Series(keys)).mean(), rtol=1e-9
    )
    test = predictions[predictions["split"] == "test"].dropna()
    rmse = np.sqrt(np.mean((test["y"] - test["y_pred"]) ** 2))
    assert result.metrics["test"]["y"]["rmse"] == pytest.approx(rmse)
    assert result.metrics["test"]["y"]["n"] == len(test)
    with open(run / "duplicates.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    repeated = [i for i, key in enumerate(keys) if keys.count(key) > 1]
    assert [int(r["row"]) for r in rows] == repeated
    assert [float(r["y"]) for r in rows] == [y[i] for i in repeated]
    assert all(r["molecule"] == keys[int(r["row"])] == keys[int(r["merged_into"])] for r in rows)
    content = json.loads((run / "data_report.json").read_text())
    assert content["used"] + content["merged"] == 80
    splits = pd.read_csv(run / "splits.csv")
    assert splits["split"].notna().all()
    # The split can be used again.
    with pytest.warns(MolattnWarning, match="are merged"):
        again = molattn.train(
            tmp_path / "t.csv", output_dir=tmp_path / "again", splits_file=str(run / "splits.csv"), **options
        )
    assert again.metrics["test"] == result.metrics["test"]


def test_a_bound_of_a_molecule_in_several_rows_is_one_sentence_and_others_stay(tmp_path: Path) -> None:
    values: list[Any] = [float(i) for i in range(len(SMILES))]
    values[3] = ">7"
    frame = pd.DataFrame({"smiles": [*SMILES, SMILES[0]], "y": [*values, 2.0]})
    dataset = _prepare(tmp_path / "t.csv", frame, duplicates="mean")
    assert dataset.bounds is not None and len(dataset.bounds) == len(dataset.targets) == len(SMILES)
    assert dataset.bounds[3, 0].tolist() == pytest.approx([7.0, np.nan], nan_ok=True)
    assert dataset.targets[0].tolist() == [1.0]
    again = pd.DataFrame({"smiles": [*SMILES, SMILES[3]], "y": [*values, 2.0]})
    with pytest.raises(InputError, match=r"^line 5, column 'y': >7\.0 is a bound, of a molecule in several rows"):
        _prepare(tmp_path / "u.csv", again, duplicates="mean")
    both = pd.DataFrame({"smiles": [*SMILES, SMILES[3]], "y": [*values, ">8"]})
    with pytest.raises(InputError, match=r"^line 5, column 'y': >7\.0 is a bound, of a molecule in several rows"):
        _prepare(tmp_path / "v.csv", both, duplicates="mean")
