"""`molattn train --with-trees`: the weighted average, the files, and invalid arguments."""

import json
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from scipy.optimize import minimize_scalar

import molattn
from molattn import MolAttentionClassifier, MolAttentionRegressor
from molattn.chem import feature_vectors
from molattn.data import CALIBRATION
from molattn.errors import InputError, SmilesError, UsageError
from molattn.explain import AttentionMap
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.models.blended_trees import weighted_average
from molattn.models.graph_model import GraphModel
from molattn.models.predictions import Predictions, empty_distribution
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training import trees
from molattn.training.dataset import LabelledMolecules
from molattn.training.metrics import METRICS
from molattn.training.trees import PRIOR_MOLECULES, check_trees, fit_weights
from tests.cli.conftest import QUICK, Molattn
from tests.cli.conftest import molattn as molattn_command
from tests.molecules import esol

SMILES, VALUES = esol(120)
TINY: dict[str, Any] = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "epochs": 2, "accelerator": "cpu"}
command = molattn_command
feature_vectors_module = sys.modules["molattn.chem.feature_vectors"]


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trees.SMALL_TREES, "num_boost_round", 30)
    monkeypatch.setitem(trees.SETTINGS, "learning_rate", 0.1)


def _train(folder: Path, frame: pd.DataFrame, **options: Any) -> Any:
    frame.to_csv(folder / "t.csv", index=False)
    return molattn.train(folder / "t.csv", **{**TINY, "output_dir": folder / "run", **options})


def test_the_command_trains_predicts_and_evaluates(command: Molattn, tmp_path: Path) -> None:
    table, run = tmp_path / "t.csv", tmp_path / "run"
    pd.DataFrame({"smiles": SMILES, "y": VALUES}).to_csv(table, index=False)
    answer = command("train", table, *QUICK, "--with-trees", "-o", run)
    assert answer.code == 0, answer.err
    weights = json.loads((run / "model" / "config.json").read_text())["trees"]["weights"]
    assert f"weight of the trees in the prediction, fitted to the validation molecules: {100 * weights[0]:.0f}%" in (
        answer.out + answer.err
    ).replace("\n", " ")
    # Trees on two epochs of a tiny network: the average is far better than the network.
    plain = command("train", table, *QUICK, "-o", tmp_path / "plain")
    assert plain.code == 0
    rmse = [json.loads((r / "metrics.json").read_text())["test"]["y"]["rmse"] for r in (run, tmp_path / "plain")]
    assert rmse[0] < 0.9 * rmse[1]
    written = pd.read_csv(run / "predictions.csv")
    assert command("predict", run, table, "-o", tmp_path / "out.csv").code == 0
    predicted = pd.read_csv(tmp_path / "out.csv")
    others = written[written["split"] != "val"]
    np.testing.assert_allclose(predicted["y_pred"][others["row"]], others["y_pred"], rtol=1e-5, atol=1e-5)
    evaluated = command("evaluate", run, table)
    assert evaluated.code == 0, evaluated.err


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass", "quantile", "ensemble", "transform"])
def test_predictions_are_the_weighted_average_and_the_same_after_loading(tmp_path: Path, kind: str) -> None:
    y = np.array(VALUES)
    options: dict[str, Any] = {}
    column: Any = y
    if kind == "binary":
        column = (y > np.median(y)).astype(int)
    if kind == "multiclass":
        column = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.33, 0.66]))]
    if kind == "quantile":
        options["loss"] = "quantile"
    if kind == "ensemble":
        options["ensemble_size"] = 2
    if kind == "transform":
        column, options["target_transform"] = 10.0**y, "log10"
    result = _train(tmp_path, pd.DataFrame({"smiles": SMILES, "y": column}), with_trees=True, **options)
    artifact, molecules = result.artifact, result.dataset.molecules
    blended = artifact.trees
    assert blended is not None and 0 < blended.weights[0] <= 1
    attention = artifact.predict_attention(molecules, result.dataset.descriptors)
    alone = blended.predict(artifact.task, artifact.scaler, blended.features(molecules))
    both = artifact.predict(molecules, result.dataset.descriptors)
    w = blended.weights[0]
    if isinstance(artifact.task, Regression):
        np.testing.assert_allclose(both.values, (1 - w) * attention.values + w * alone.values, rtol=1e-9)
        moved = both.distribution - attention.distribution
        if kind == "quantile":
            np.testing.assert_allclose(moved, np.tile(both.values - attention.values, 2), rtol=1e-6, atol=1e-9)
    else:
        p = [artifact.task.probabilities(x, 0) for x in (both, attention, alone)]
        np.testing.assert_allclose(p[0], (1 - w) * p[1] + w * p[2], rtol=1e-9)
        np.testing.assert_allclose(p[0].sum(1), 1.0)
    if kind == "ensemble":
        np.testing.assert_array_equal(both.std, attention.std)
    save_artifact(tmp_path / "again", artifact)
    again = load_artifact(tmp_path / "again")
    values = again.predict(molecules, result.dataset.descriptors).values
    np.testing.assert_allclose(values, both.values, rtol=1e-6, atol=1e-6)
    assert again.trees is not None and again.trees.weights == blended.weights


def test_two_targets_have_their_own_trees_of_the_molecules_with_a_label(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": SMILES, "a": VALUES, "b": VALUES})
    frame.loc[::2, "b"] = np.nan
    result = _train(tmp_path, frame, with_trees=True, target_columns=("a", "b"))
    blended = result.artifact.trees
    assert blended is not None and len(blended.trees) == len(blended.weights) == 2
    rows = [int(t.leaf_rows[: t.leaves[0]].sum()) for t in blended.trees]
    train, val = (result.dataset.targets[result.dataset.indices(split)] for split in ("train", "val"))
    # Each tree is grown on about 70% of the labelled molecules for training and validation.
    labels = np.isfinite(train).sum(0) + np.isfinite(val).sum(0)
    assert labels[1] < 0.7 * labels[0]
    assert all(0.5 * n < found < 0.9 * n for found, n in zip(rows, labels, strict=True))


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_trees_learn_the_validation_molecules_but_are_not_judged_by_them(tmp_path: Path, kind: str) -> None:
    """Labels that are noise can only be memorized: what is reported of the validation molecules does not know them."""
    noise = np.random.default_rng(0).normal(size=len(SMILES))
    y = noise if kind == "regression" else (noise > 0).astype(int)
    result = _train(tmp_path, pd.DataFrame({"smiles": SMILES, "y": y}), with_trees=True)
    dataset, artifact = result.dataset, result.artifact
    rows = dataset.indices("val")
    true, alone = dataset.targets[rows, 0], artifact.predict(dataset.molecules, dataset.descriptors).values[rows, 0]
    reported = result.predictions.values[rows, 0]
    assert np.corrcoef(alone, true)[0, 1] > 0.5 > abs(np.corrcoef(reported, true)[0, 1])
    written = pd.read_csv(tmp_path / "run" / "predictions.csv")
    np.testing.assert_allclose(written["y_pred"][written["split"] == "val"], reported, rtol=1e-5, atol=1e-5)
    name = "rmse" if kind == "regression" else "auroc"
    assert result.metrics["val"]["y"][name] == pytest.approx(METRICS[name].function(true, reported), rel=1e-5)


def test_the_weight_is_that_of_trees_without_the_validation_molecules(tmp_path: Path) -> None:
    result = _train(tmp_path, pd.DataFrame({"smiles": SMILES, "y": VALUES}), with_trees=True)
    dataset, artifact = result.dataset, result.artifact
    assert artifact.trees is not None
    train, val = dataset.subset("train"), dataset.subset("val")
    features = feature_vectors([m.encoded_smiles for m in (*train.molecules, *val.molecules)], trees.FEATURIZERS)
    settings = {**trees.SETTINGS, "seed": 0, "num_threads": 1, "num_leaves": 8, "objective": "regression"}
    z = artifact.scaler.scale(train.targets)[:, 0]
    booster = lightgbm.train(
        settings, lightgbm.Dataset(features[: len(train)], z), trees.SMALL_TREES["num_boost_round"]
    )
    of_trees = artifact.scaler.unscale(np.asarray(booster.predict(features[len(train) :]))[:, None])
    attention = artifact.predict_attention(val.molecules, val.descriptors)
    weights = trees.fit_weights(
        artifact.task, attention, Predictions(of_trees, empty_distribution(len(val))), val.targets
    )
    assert artifact.trees.weights == pytest.approx(weights, rel=1e-4)


def test_trees_are_large_for_a_target_with_enough_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trees.LARGE_TREES, "num_boost_round", 40)
    monkeypatch.setattr(trees, "MIN_MOLECULES_FOR_LARGE_TREES", 60)
    many = {"smiles": SMILES * 2, "a": VALUES * 2, "b": [*VALUES[:60], *[np.nan] * 180]}
    result = _train(tmp_path, pd.DataFrame(many), with_trees=True, target_columns=("a", "b"))
    assert result.artifact.trees is not None
    large, small = result.artifact.trees.trees
    assert len(large.leaves) == 40 and 8 < large.leaves.max() <= 16
    assert len(small.leaves) == 30 and small.leaves.max() <= 8


def test_the_same_seed_gives_the_same_trees_and_workers_change_nothing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": SMILES, "y": VALUES})
    found = []
    for name, options in (("a", {}), ("b", {"num_workers": 2}), ("c", {"seed": 1})):
        (tmp_path / name).mkdir()
        found.append(_train(tmp_path / name, frame, with_trees=True, **options).artifact.trees.trees[0])
    same, other = (
        all(np.array_equal(x, y) for x, y in zip(found[0].arrays().values(), f.arrays().values(), strict=True))
        for f in found[1:]
    )
    assert same and not other


def test_intervals_are_calibrated_with_the_trees(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": SMILES, "y": VALUES})
    result = _train(tmp_path, frame, with_trees=True, calibration_size=0.3)
    artifact, dataset = result.artifact, result.dataset
    rows = dataset.indices(CALIBRATION)
    predictions = artifact.predict_for_intervals(dataset.molecules, dataset.descriptors)[rows]
    lower, upper = artifact.prediction_intervals(predictions, 0.9, artifact.calibration_method)
    inside = (lower <= dataset.targets[rows]) & (dataset.targets[rows] <= upper)
    assert 0.9 <= inside.mean() <= 0.97


def test_estimators_have_it() -> None:
    regressor = MolAttentionRegressor(**TINY, with_trees=True).fit(SMILES, VALUES)
    plain = MolAttentionRegressor(**TINY).fit(SMILES, VALUES)
    assert regressor.score(SMILES, VALUES) > plain.score(SMILES, VALUES) + 0.1
    kinds = np.where(np.array(VALUES) > np.median(VALUES), "soluble", "insoluble")
    classifier = MolAttentionClassifier(**TINY, with_trees=True).fit(SMILES, kinds)
    assert classifier.score(SMILES, kinds) > 0.8


@pytest.mark.parametrize("seed", range(5))
def test_the_weight_minimises_the_squared_error_with_its_prior(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 400))
    y = rng.normal(size=n)
    a, b = y + rng.normal(size=n), y + rng.uniform(0.2, 2) * rng.normal(size=n)

    def loss(w: float) -> float:
        return ((y - (1 - w) * a - w * b) ** 2).sum() + PRIOR_MOLECULES * ((b - a) ** 2).mean() * (w - 0.5) ** 2

    wanted = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
    predictions = [Predictions(x[:, None], empty_distribution(len(x))) for x in (a, b)]
    (found,) = fit_weights(Regression(), *predictions, y[:, None])
    assert found == pytest.approx(wanted, abs=1e-6)


def test_few_molecules_leave_the_weight_near_a_half_and_many_find_the_better_model() -> None:
    rng = np.random.default_rng(0)
    for n, near in ((4, 0.5), (100_000, 1.0)):
        y = rng.normal(size=(n, 1))
        bad, good = (Predictions(y + s * rng.normal(size=(n, 1)), empty_distribution(len(y))) for s in (1.0, 0.01))
        assert fit_weights(Regression(), bad, good, y)[0] == pytest.approx(near, abs=0.05)
    nothing = np.full((3, 1), np.nan)
    three = Predictions(np.zeros((3, 1)), np.empty((3, 0)))
    assert fit_weights(Regression(), three, three, nothing) == (0.5,)


def test_the_weight_of_classes_minimises_the_brier_score() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 5000)
    task = Multiclass(classes=(("a", "b", "c"),))
    good = 0.7 * np.eye(3)[y] + 0.1
    bad = rng.dirichlet(np.ones(3), len(y))
    found = fit_weights(task, *(task.with_probabilities([p]) for p in (bad, good)), y[:, None].astype(float))
    scores = [((np.eye(3)[y] - (1 - w) * bad - w * good) ** 2).sum() for w in np.linspace(0, 1, 101)]
    assert found[0] == pytest.approx(np.linspace(0, 1, 101)[int(np.argmin(scores))], abs=0.03)


def test_weights_of_zero_and_one_are_one_of_the_models() -> None:
    p, q = (Predictions(np.full((4, 1), x), np.empty((4, 0))) for x in (0.2, 0.8))
    for task in (Regression(), Binary()):
        for w, wanted in ((0.0, 0.2), (1.0, 0.8), (0.5, 0.5)):
            np.testing.assert_allclose(weighted_average(task, p, q, (w,)).values, wanted)


def test_settings_that_trees_do_not_support_raise_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="applies only to molecule-level targets"):
        check_trees(Regression(atom_level=True))
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(UsageError, match=r"lightgbm is needed.*pip install 'molattn\[trees\]'"):
        _train(tmp_path, pd.DataFrame({"smiles": SMILES, "y": VALUES}), with_trees=True)
    assert not (tmp_path / "run").exists()


def test_a_model_with_trees_predicts_without_lightgbm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _train(tmp_path, pd.DataFrame({"smiles": SMILES, "y": VALUES}), with_trees=True)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert np.isfinite(molattn.load(tmp_path / "run").predict(SMILES[:3])).all()


def test_a_tampered_tree_is_an_error(tmp_path: Path) -> None:
    result = _train(tmp_path, pd.DataFrame({"smiles": SMILES, "y": VALUES}), with_trees=True)
    blended = result.artifact.trees
    blended.trees[0].feature[0] = 10**6
    save_artifact(tmp_path / "bad", result.artifact)
    with pytest.raises(InputError, match="reads a feature outside"):
        load_artifact(tmp_path / "bad")


def test_a_molecule_without_a_fingerprint_is_an_error_row_and_the_others_are_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _train(tmp_path, pd.DataFrame({"smiles": SMILES, "y": VALUES}), with_trees=True)
    predictor = molattn.load(tmp_path / "run")
    whole = predictor.predict(SMILES[:6])

    def failing(mol: Any) -> np.ndarray:
        if mol.GetNumAtoms() == 7 and mol.HasSubstructMatch(seven):
            raise RuntimeError("RDKit fails")
        return counts(mol)

    counts, seven = feature_vectors_module._FUNCTIONS["avalon_count"], Chem.MolFromSmiles("CCCCCCF")
    monkeypatch.setitem(feature_vectors_module._FUNCTIONS, "avalon_count", failing)
    rows = list(predictor.predict_rows([*SMILES[:3], "CCCCCCF", *SMILES[3:6]]))
    assert "RDKit fails to compute its features" in rows[3].error and rows[3].values is None
    found = [row.values[0] for i, row in enumerate(rows) if i != 3]  # pyright: ignore[reportOptionalSubscript]
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)
    maps = list(predictor.attentions(["CCO", "CCCCCCF"]))
    assert isinstance(maps[0], AttentionMap) and isinstance(maps[1], SmilesError)


@pytest.mark.parametrize("kind", ["one class", "few"])
def test_constant_or_few_labels_give_constant_trees(kind: str) -> None:
    """Of one class, or of a handful of molecules, trees are a constant, and every prediction is finite."""
    n = 6 if kind == "few" else 60
    y = np.zeros((n, 1)) if kind == "one class" else np.arange(n, dtype=float)[:, None]
    task = Binary() if kind == "one class" else Regression()
    molecules = GraphModel.read(SMILES[:n])
    part = LabelledMolecules(molecules, y)  # pyright: ignore[reportArgumentType]
    scaler = task.fit_scaler(y)
    attention = task.baseline_predictions(y, n)
    blended = trees.fit_trees(part, part, attention, task, scaler, 0).trees
    assert np.isfinite(blended.combine(task, scaler, attention, blended.features(molecules)).values).all()  # pyright: ignore[reportArgumentType]
