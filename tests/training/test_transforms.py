"""Training with a target transform: predictions, metrics and intervals are in the unit of the target."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import molattn
from molattn.cli.metrics import print_metrics
from molattn.errors import UsageError
from molattn.models.baseline import baseline_labels, describe_baseline
from molattn.models.graph_model import GraphModel
from molattn.models.target_transform import TargetTransform
from molattn.models.tasks import Binary, Regression
from molattn.sklearn import MolAttentionRegressor
from molattn.training import train_arrays as arrays_module
from molattn.training.config import DataConfig
from molattn.training.prepare import prepare
from molattn.training.skewed_targets import recognize_transform
from molattn.training.transforms import describe_recognized, fit_transforms, resolve_transforms
from tests.molecules import esol
from tests.training.runs import SMALL

SMILES, LOG = esol(90)
NANOMOLAR = [float(f"{10 ** (3 - y):.6g}") for y in LOG]
PLAIN = [*SMALL, "data.molecule_featurizers=[]", "training.auxiliary=0"]
OPTIONS: dict[str, Any] = {"settings": PLAIN, "epochs": 2, "batch_size": 32, "accelerator": "cpu", "quiet": True}


def _table(path: Path, values: list[float] = NANOMOLAR, name: str = "ic50") -> Path:
    pd.DataFrame({"smiles": SMILES, name: values}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learns pIC50, with standard deviations and a calibration."""
    folder = tmp_path_factory.mktemp("transform")
    molattn.train(
        _table(folder / "t.csv"),
        output_dir=folder / "run",
        target_transform="neg-log10-molar:nM",
        loss="mve",
        calibration_size=0.3,
        **OPTIONS,
    )
    return folder / "run"


def test_metrics_are_in_the_unit_of_the_target_and_of_the_transform(run: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    rows = pd.read_csv(run / "predictions.csv")
    sides = {side: rows[rows["split"] == side] for side in ("train", "test")}
    y, p = sides["test"]["ic50"], sides["test"]["ic50_pred"]
    assert metrics["test"]["ic50"]["rmse"] == pytest.approx(np.sqrt(np.mean((y - p) ** 2)))
    transformed = metrics["transformed"]["test"]["ic50"]
    assert transformed["unit"] == "-log10(mol/L)"
    assert transformed["rmse"] == pytest.approx(np.sqrt(np.mean((np.log10(y) - np.log10(p)) ** 2)))
    # The order of the molecules is the same, or reversed for both.
    assert transformed["spearman"] == pytest.approx(metrics["test"]["ic50"]["spearman"])
    # Always the training mean: the inverse of the mean of the transformed, which is the geometric mean.
    geometric = np.exp(np.log(sides["train"]["ic50"]).mean())
    assert metrics["baseline"]["what"] == "the geometric mean of the training targets"
    baseline = metrics["baseline"]["test"]["ic50"]["rmse"]
    assert baseline == pytest.approx(np.sqrt(np.mean((y - geometric) ** 2)))
    lower, upper = metrics["test_intervals"]["ic50"]["rmse"]
    assert lower <= metrics["test"]["ic50"]["rmse"] <= upper
    assert sorted(rows["ic50"]) == pytest.approx(sorted(NANOMOLAR))


def test_a_loaded_model_predicts_in_the_unit_of_the_target(run: Path) -> None:
    rows = pd.read_csv(run / "predictions.csv")
    predictor = molattn.load(run)
    values, std = predictor.predict(list(rows["smiles"]), return_std=True)
    np.testing.assert_allclose(values, rows["ic50_pred"], rtol=1e-4)
    np.testing.assert_allclose(std, rows["ic50_std"], rtol=1e-3)
    assert (values > 0).all() and (std > 0).all()
    attention = predictor.attention(SMILES[3])
    assert attention.prediction["ic50"] == pytest.approx(predictor.predict([SMILES[3]])[0], rel=1e-5)
    # An attribution explains the transformed prediction, and its label says so.
    attribution = predictor.attributions(SMILES[3])
    assert attribution.unit == "-log10(mol/L)"
    assert 10 ** (9 - attribution.prediction) == pytest.approx(attention.prediction["ic50"], rel=1e-5)


def test_intervals_are_those_of_the_transform_with_the_same_coverage(run: Path) -> None:
    predictor = molattn.load(run)
    artifact = predictor._artifact
    wide, narrow = (predictor.predict_interval(SMILES, level) for level in (0.9, 0.5))
    values = predictor.predict(SMILES)
    for lower, upper in (wide, narrow):
        assert (lower > 0).all() and (lower <= upper).all()
        assert ((lower <= values) & (values <= upper)).all()
    assert (wide[0] <= narrow[0]).all() and (narrow[1] <= wide[1]).all()
    # The width is a ratio, not a difference: conformal scores are those of the logarithm.
    raw = artifact.predict(artifact.model.read(SMILES))
    assert raw.std is not None
    scores = artifact.calibration.scores[0]  # pyright: ignore[reportOptionalMemberAccess]
    ratio = np.log10(wide[1] / wide[0]) / (raw.std[:, 0] + scores["beta"][0])
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
    uncertainty = json.loads((run / "metrics.json").read_text())["uncertainty"]["test"]["ic50"]
    test = pd.read_csv(run / "predictions.csv").query("split == 'test'")
    lower, upper = predictor.predict_interval(list(test["smiles"]), 0.9)
    assert uncertainty["coverage"] == pytest.approx(((lower <= test["ic50"]) & (test["ic50"] <= upper)).mean())
    assert uncertainty["width"] == pytest.approx(float(np.mean(upper - lower)), rel=1e-3)


def test_evaluate_gives_the_metrics_of_training(run: Path, tmp_path: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    rows = pd.read_csv(run / "predictions.csv").query("split == 'test'")[["smiles", "ic50"]]
    bad = pd.DataFrame({"smiles": ["CCCCCCO"], "ic50": [-1.0]})
    pd.concat([rows, bad]).to_csv(tmp_path / "test.csv", index=False)
    found = molattn.load(run).evaluate(tmp_path / "test.csv")
    assert found.metrics["ic50"]["rmse"] == pytest.approx(metrics["test"]["ic50"]["rmse"], rel=1e-4)
    assert found.transformed["ic50"]["rmse"] == pytest.approx(metrics["transformed"]["test"]["ic50"]["rmse"], rel=1e-4)
    assert found.baseline["ic50"]["rmse"] == pytest.approx(metrics["baseline"]["test"]["ic50"]["rmse"], rel=1e-6)
    assert found.uncertainty["test"]["ic50"]["nll"] == pytest.approx(
        metrics["uncertainty"]["test"]["ic50"]["nll"], rel=1e-3
    )
    assert found.baseline_labels == {"ic50": "the geometric training mean"}
    (rejected,) = found.rejected
    assert "column 'ic50': -1 has no logarithm" in rejected.reason


def test_quantiles_of_a_decreasing_transform_are_in_order(tmp_path: Path) -> None:
    result = molattn.train(
        _table(tmp_path / "t.csv"),
        output_dir=tmp_path / "run",
        target_transform="neg-log10-molar:uM",
        loss="quantile",
        **OPTIONS,
    )
    rows = pd.read_csv(result.folder / "predictions.csv")
    assert (rows["ic50_q5"] < rows["ic50_pred"]).all() and (rows["ic50_pred"] < rows["ic50_q95"]).all()


def test_one_target_of_several_has_a_transform(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": SMILES, "ic50": NANOMOLAR, "log_s": LOG})
    frame.loc[::3, "ic50"] = np.nan
    result = molattn.train(
        frame, target_columns=["ic50", "log_s"], target_transform=["ic50=rank"], output_dir=tmp_path / "r", **OPTIONS
    )
    assert set(result.metrics["transformed"]["test"]) == {"ic50"}
    assert result.metrics["transformed"]["test"]["ic50"]["unit"] == "normal score"
    assert result.metrics["baseline"]["what"] == (
        "of 'ic50' the mean of the normal scores of the training targets, transformed back; of 'log_s' the mean of the "
        "training targets"
    )
    rows = pd.read_csv(result.folder / "predictions.csv")
    train = rows[rows["split"] == "train"]
    assert rows["ic50_pred"].between(train["ic50"].min(), train["ic50"].max()).all()
    loaded = molattn.load(result.folder).predict(list(rows["smiles"]))
    np.testing.assert_allclose(loaded, rows[["ic50_pred", "log_s_pred"]], rtol=1e-4, atol=1e-5)


def test_the_estimator_of_scikit_learn_takes_a_transform() -> None:
    options: dict[str, Any] = {"settings": PLAIN, "epochs": 1, "accelerator": "cpu"}
    model = MolAttentionRegressor(target_transform="log10", calibration_size=0.3, **options).fit(SMILES, NANOMOLAR)
    predicted = model.predict(SMILES)
    assert (predicted > 0).all()
    lower, upper = model.predictor_.predict_interval(SMILES, 0.8)
    assert (lower <= predicted).all() and (predicted <= upper).all()
    with pytest.raises(ValueError, match="row 1 .*has no logarithm.*leave it out"):
        MolAttentionRegressor(target_transform="log10", **options).fit(SMILES[:3], [1.0, 0.0, 2.0])
    with pytest.raises(ValueError, match="write neg-log10-molar:nM"):
        MolAttentionRegressor(target_transform="neg-log10-molar", **options).fit(SMILES, NANOMOLAR)


def test_rows_without_a_logarithm_are_left_out_with_the_reason(tmp_path: Path) -> None:
    values = [*NANOMOLAR]
    values[4], values[7] = 0.0, -2.5
    config = DataConfig(dataset=str(_table(tmp_path / "t.csv", values)), target_transform=("log10",))
    dataset = prepare(config, GraphModel, seed=0)
    assert [(r.line, r.reason) for r in dataset.rejected] == [
        (6, "column 'ic50': 0 has no logarithm, which --target-transform log10 takes"),
        (9, "column 'ic50': -2.5 has no logarithm, which --target-transform log10 takes"),
    ]
    assert len(dataset.rows) + 2 == len(values)
    np.testing.assert_allclose(dataset.subset("train").targets, np.log10(dataset.targets[dataset.indices("train")]))


def test_the_unit_of_a_concentration_comes_from_the_table_or_the_setting() -> None:
    task, nano = Regression(), TargetTransform("neg-log10-molar", "nM")
    assert resolve_transforms(("neg-log10-molar",), ("a",), ("nM",), task) == (nano,)
    assert resolve_transforms(("a=neg-log10-molar:nM",), ("a", "b"), ("mg", ""), task) == (nano, None)
    assert resolve_transforms(("x=y=log10",), ("x=y",), ("",), task) == (TargetTransform("log10"),)
    assert resolve_transforms(("a=log10",), ("a [nM]", "b"), ("nM", ""), task) == (TargetTransform("log10"), None)
    with pytest.raises(UsageError, match="unknown target 'a'"):
        resolve_transforms(("a=log10",), ("a [nM]", "a [uM]"), ("nM", "uM"), task)
    assert resolve_transforms((), ("a",), ("",), Binary()) == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("neg-log10-molar",), "column 'a' has no known unit.*write neg-log10-molar:nM"),
        (("neg-log10-molar:mg/L",), "column 'a' is in 'mg/L'"),
        (("sqrt",), "unknown target transform 'sqrt'"),
        (("log10:nM",), "unknown target transform 'log10:nM': choose one of"),
        (("z=log10",), "unknown target 'z'"),
        (("log10", "a=rank"), "gives 'a' two transforms"),
    ],
)
def test_an_invalid_transform_is_an_error_of_one_sentence(settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_transforms(settings, ("a", "b"), ("", ""), Regression())


def test_classes_and_atoms_have_no_transform() -> None:
    for task in (Binary(), Regression(atom_level=True)):
        with pytest.raises(UsageError, match="applies only to molecule-level regression"):
            resolve_transforms(("log10",), ("a",), ("",), task)


def test_bounds_are_transformed_and_swapped_by_a_decreasing_transform(tmp_path: Path) -> None:
    """An IC50 above 10 uM is a pIC50 below 5; the bound in the unit of the table stays as it is."""
    values: list[Any] = [*NANOMOLAR]
    values[::9] = [">10000"] * len(values[::9])
    pd.DataFrame({"smiles": SMILES, "ic50 [nM]": values}).to_csv(tmp_path / "t.csv", index=False)
    data = DataConfig(dataset=str(tmp_path / "t.csv"), target_transform=("neg-log10-molar",))
    dataset = prepare(data, GraphModel, seed=0)
    train = dataset.subset("train")
    assert dataset.bounds is not None and train.bounds is not None
    bounded = np.isfinite(train.bounds).any((1, 2))
    assert bounded.sum() > 2 and np.isnan(train.targets[bounded]).all() and np.isfinite(train.targets[~bounded]).all()
    assert np.isnan(train.bounds[bounded, 0, 0]).all()
    assert train.bounds[bounded, 0, 1] == pytest.approx(5.0)
    assert np.unique(dataset.bounds[np.isfinite(dataset.bounds)]).tolist() == [10000.0]


def test_a_bound_without_a_logarithm_is_left_out_with_the_reason(tmp_path: Path) -> None:
    values: list[Any] = [*NANOMOLAR]
    values[4], values[6] = "<0", "<50"
    pd.DataFrame({"smiles": SMILES, "y": values}).to_csv(tmp_path / "t.csv", index=False)
    dataset = prepare(DataConfig(dataset=str(tmp_path / "t.csv"), target_transform=("log10",)), GraphModel, seed=0)
    ((row, reason),) = [(r.row, r.reason) for r in dataset.rejected]
    assert row == 4 and "0 has no logarithm" in reason
    assert dataset.bounds is not None and len(dataset.bounds) == len(dataset.targets) == len(SMILES) - 1


def test_a_target_without_a_label_to_train_on_is_named_before_its_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays_module, "split_labels", lambda *_: np.array(["train"] * 6 + ["val"] * 2))
    targets = np.array(NANOMOLAR[:16]).reshape(8, 2)
    targets[:6, 1] = np.nan
    regressor = MolAttentionRegressor(target_transform=("rank",), epochs=1, accelerator="cpu")
    with pytest.raises(ValueError, match=r"the training molecules have no label of '.*1': there is nothing to learn"):
        regressor.fit(SMILES[:8], targets)


AUTO = ("auto",)
NONE = {"target_transform": "none"}
SKEWED = np.random.default_rng(0).lognormal(sigma=1.5, size=200)


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e200])
def test_a_log_normal_target_is_recognized_in_any_unit(scale: float) -> None:
    found, reason = recognize_transform(scale * SKEWED, scale * SKEWED)
    assert found == TargetTransform("log10")
    assert f"their skewness is {stats.skew(SKEWED):.1f} and that of their logarithms" in reason
    gain = stats.boxcox_llf(0, SKEWED) - stats.boxcox_llf(1, SKEWED)
    assert f"(log-likelihood {gain:+.0f})" in reason
    missing = np.append(SKEWED, np.nan)
    assert recognize_transform(missing, missing) == recognize_transform(SKEWED, SKEWED)


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        (np.random.default_rng(0).normal(100, 10, 200), r"the skewness of the training labels is -?0.\d, not above 1"),
        (np.log(SKEWED), "not all labels are above 0"),
        (np.append(SKEWED, 0.0), "not all labels are above 0"),
        (100 - np.minimum(SKEWED, 90), r"the skewness of the training labels is -\d.\d, not above 1"),
        (np.full(50, 3.0), "the skewness of the training labels is 0.0, not above 1"),
        (np.array([1.0]), "the skewness of the training labels is 0.0, not above 1"),
        (np.array([]), "the skewness of the training labels is 0.0, not above 1"),
        # Far above 0 the logarithm is linear: it fits no better.
        (1e6 + np.random.default_rng(0).exponential(size=200), "which fit a normal distribution no better"),
    ],
)
def test_other_targets_are_learned_as_they_are(y: np.ndarray, reason: str) -> None:
    found, why = recognize_transform(y, y)
    assert found is None
    assert re.search(reason, why)


def test_auto_is_log10_of_the_targets_that_are_skewed_and_nothing_else() -> None:
    targets = np.stack([SKEWED, np.log(SKEWED), SKEWED, SKEWED], 1)
    names, settings, task = ("a", "b", "c", "d"), ("a=auto", "b=auto", "d=log1p"), Regression()
    resolved = resolve_transforms(settings, names, ("",) * 4, task)
    assert resolved == (None, None, None, TargetTransform("log1p"))
    fitted = fit_transforms(resolved, settings, names, task, targets, np.arange(100))
    assert fitted.transforms == (TargetTransform("log10"), None, None, TargetTransform("log1p"))
    assert [reason.partition(":")[0] for reason in fitted.reasons] == ["a"]
    assert fitted.reasons[0].endswith("so the model learns log10 of a")
    for task in (Binary(), Regression(atom_level=True)):
        assert resolve_transforms(AUTO, ("a",), ("",), task) == ()
        assert fit_transforms((), AUTO, ("a",), task, targets[:, :1], np.arange(100)).transforms == ()
    with pytest.raises(UsageError, match="gives 'a' two transforms"):
        resolve_transforms(("auto", "a=log10"), names, ("",) * 4, Regression())
    assert describe_recognized("abcd") == ["a", "b", "c", "and log10 of 1 more target"]


def test_only_training_labels_decide_but_no_row_is_left_out_for_it() -> None:
    """Labels that validate or test do not make a target skewed; one without a logarithm prevents the logarithm."""
    train, normal = np.arange(150), np.random.default_rng(1).normal(100, 10, 200)
    outlier = normal.copy()
    outlier[150:] = SKEWED[150:] * 1e4
    assert fit_transforms((None,), AUTO, ("y",), Regression(), outlier[:, None], train).transforms == ()
    held_out = SKEWED.copy()
    held_out[150:] = normal[150:]
    fitted = fit_transforms((None,), AUTO, ("y",), Regression(), held_out[:, None], train)
    assert fitted.reasons[0].startswith(f"y: {recognize_transform(SKEWED[:150], SKEWED)[1]}")
    held_out[199] = -1.0
    assert fit_transforms((None,), AUTO, ("y",), Regression(), held_out[:, None], train).transforms == ()
    bounds = np.full((200, 1, 2), np.nan)
    bounds[3, 0] = np.nan, 0.0
    arguments = (None,), AUTO, ("y",), Regression(), SKEWED[:, None], train
    assert fit_transforms(*arguments, bounds).transforms == ()
    bounds[3, 0] = np.nan, 5.0
    assert fit_transforms(*arguments, bounds).transforms == (TargetTransform("log10"),)


def test_auto_trains_the_model_that_log10_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Predictions, intervals, attributions and metrics of a recognized target are those of the explicit transform."""
    table = _table(tmp_path / "t.csv")
    options: dict[str, Any] = {**OPTIONS, "calibration_size": 0.3, "quiet": False, "loss": "mve"}
    auto, log10 = (
        molattn.train(table, output_dir=tmp_path / name, target_transform=name, **options) for name in ("auto", "log10")
    )
    text = " ".join(capsys.readouterr().err.split())
    assert text.count("ic50: the training labels are above 0, their skewness is") == 1
    assert "so the model learns log10 of ic50" in text and "learned with a transform: ic50 as log10(y)" in text
    metrics = [json.loads((run.folder / "metrics.json").read_text()) for run in (auto, log10)]
    assert metrics[0]["test"] == metrics[1]["test"] and metrics[0]["transformed"] == metrics[1]["transformed"]
    one, other = (molattn.load(run.folder) for run in (auto, log10))
    np.testing.assert_allclose(one.predict(SMILES), other.predict(SMILES), rtol=1e-6)
    np.testing.assert_allclose(one.predict_interval(SMILES, 0.8), other.predict_interval(SMILES, 0.8), rtol=1e-6)
    assert one.attributions(SMILES[3]).unit == other.attributions(SMILES[3]).unit == "log10(y)"


def test_the_baseline_is_described_by_the_transforms() -> None:
    log10, log1p, task = TargetTransform("log10"), TargetTransform("log1p"), Regression()
    assert describe_baseline(task, ["a"], ()) == describe_baseline(task, ["a"], (None,)) == task.baseline
    assert describe_baseline(task, ["a", "b"], (log10, log10)) == "the geometric mean of the training targets"
    assert describe_baseline(task, ["a"], (log1p,)).startswith("the mean of log(1 + y) of")
    assert baseline_labels(task, ["a", "b"], (log10, None)) == {
        "a": "the geometric training mean",
        "b": "the training mean",
    }
    assert {*baseline_labels(Binary(), ["a", "b"], ()).values()} == {"the training share"}


def test_the_columns_of_metrics_name_the_baseline_of_their_target(capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"a": "the geometric training mean", "b": "the training mean", "c": "the training mean"}
    metrics: dict[str, Any] = {name: {"rmse": 1.0, "mae": 1.0, "n": 9} for name in labels}
    print_metrics(metrics, "molecules", dict.fromkeys(labels, ""), metrics, labels)
    lines = capsys.readouterr().out.splitlines()
    headers = [line for line in lines if "always" in line]
    assert ["always the geometric training mean" in line for line in headers] == [True, False, False]
    many = {f"{name}{i}": metrics[name] for name in labels for i in range(2)}
    print_metrics(many, "molecules", dict.fromkeys(many, ""), many, {name: labels[name[0]] for name in many})
    assert "always the training mean of what is learned" in capsys.readouterr().out


def test_auto_changes_nothing_where_it_recognizes_nothing(tmp_path: Path) -> None:
    table = _table(tmp_path / "t.csv", LOG, "log_s")
    runs = [
        molattn.train(table, output_dir=tmp_path / name, target_transform=name, **OPTIONS) for name in ("auto", "none")
    ]
    assert runs[0].metrics["test"] == runs[1].metrics["test"] and not runs[0].metrics.get("transformed")
    texts = [(run.folder / "predictions.csv").read_text() for run in runs]
    assert texts[0] == texts[1]


def test_the_estimators_recognize_a_skewed_target() -> None:
    options: dict[str, Any] = {"settings": PLAIN, "epochs": 1, "accelerator": "cpu"}
    for labels, setting, expected in ((NANOMOLAR, {}, "log10"), (LOG, {}, None), (NANOMOLAR, NONE, None)):
        model = MolAttentionRegressor(**setting, **options).fit(SMILES, labels)
        transforms = model.predictor_._artifact.scaler.transforms
        assert [f and f.name for f in transforms] == ([expected] if expected else [])
    assert (MolAttentionRegressor(**options).fit(SMILES, NANOMOLAR).predict(SMILES) > 0).all()
