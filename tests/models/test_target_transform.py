"""Transforms of targets: monotonic, undone by their inverse, and undone by scalers in what a model predictions."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from sklearn.preprocessing import QuantileTransformer

from molattn.chem import molecule_graph
from molattn.errors import InputError
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.models.predictions import Predictions
from molattn.models.scaler import TargetScaler
from molattn.models.target_transform import MAX_KNOTS, MOLAR, TargetTransform, parse_molar, transform_targets
from tests.models.forms import FORMS
from tests.predictions import predict_molecules

LABELS = np.exp(np.random.default_rng(0).normal(size=300) * 2).round(2) + 0.01
EVERY = [
    TargetTransform("log10"),
    TargetTransform("log1p"),
    *(TargetTransform("neg-log10-molar", unit) for unit in MOLAR),
    TargetTransform("rank").fit(LABELS),
]
IDS = [f"{f.name}:{f.unit}".rstrip(":") for f in EVERY]


@pytest.mark.parametrize("f", EVERY, ids=IDS)
def test_the_inverse_undoes_the_transform_and_the_order_is_kept_or_reversed(f: TargetTransform) -> None:
    y = np.unique(LABELS)
    between = np.sort(np.concatenate([y, (y[1:] + y[:-1]) / 2]))
    t = f.forward(between)
    np.testing.assert_allclose(f.inverse(t), between, rtol=1e-10)
    assert (np.diff(t) > 0).all() if f.increasing else (np.diff(t) < 0).all()
    np.testing.assert_allclose(f.forward(f.inverse(t)), t, rtol=1e-9, atol=1e-9)
    assert np.isnan(f.forward(np.array([np.nan]))).all() and np.isnan(f.inverse(np.array([np.nan]))).all()


@pytest.mark.parametrize("f", EVERY, ids=IDS)
def test_the_slope_is_that_of_the_inverse(f: TargetTransform) -> None:
    labels = np.unique(LABELS)
    # Not at a label, where the slope of rank changes.
    i = np.array([0.1, 0.35, 0.64, 0.9]) * (len(labels) - 1)
    t = f.forward((labels[i.astype(int)] + labels[i.astype(int) + 1]) / 2)
    step = 1e-7
    numeric = np.abs(f.inverse(t + step) - f.inverse(t - step)) / (2 * step)
    np.testing.assert_allclose(f.slope(t), numeric, rtol=1e-4)


def test_a_concentration_becomes_the_negative_logarithm_of_mol_per_litre() -> None:
    for unit, nine in (("nM", 100.0), ("uM", 0.1), ("mM", 1e-4), ("M", 1e-7), ("pM", 1e5)):
        assert TargetTransform("neg-log10-molar", unit).forward(np.array([nine]))[0] == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("text", "unit"),
    [("nM", "nM"), ("\u00b5M", "uM"), ("\u03bcM", "uM"), ("uM", "uM"), (" mM ", "mM"), ("mol/L", "M"), ("nmol/L", "nM"),
     ("\u00b5mol/L", "uM"), ("mmol/L", "mM"), ("mg/L", ""), ("", ""), ("nm", ""), ("log10(mol/L)", "")],
)  # fmt: skip
def test_units_of_concentration_are_read_as_people_write_them(text: str, unit: str) -> None:
    assert parse_molar(text) == unit


def test_rank_gives_normal_scores_of_the_mean_ranks() -> None:
    y = np.array([3.0, 1.0, 2.0, 2.0, 5.0, np.nan])
    f = TargetTransform("rank").fit(y)
    expected = norm.ppf((rankdata(y[:5]) - 0.5) / 5)
    np.testing.assert_allclose(f.forward(y[:5]), expected, atol=1e-12)
    # Beyond the training labels it stays at the ends.
    assert f.forward(np.array([-9.0, 99.0])).tolist() == [f.scores[0], f.scores[-1]]
    assert f.inverse(np.array([-9.0, 9.0])).tolist() == [1.0, 5.0]


def test_rank_is_close_to_the_quantile_transformer_of_scikit_learn() -> None:
    theirs = QuantileTransformer(n_quantiles=300, output_distribution="normal").fit_transform(LABELS[:, None])[:, 0]
    inner = np.abs(theirs) < 2
    np.testing.assert_allclose(TargetTransform("rank").fit(LABELS).forward(LABELS)[inner], theirs[inner], atol=0.03)


def test_rank_keeps_a_bounded_number_of_knots_with_the_extremes() -> None:
    y = np.random.default_rng(0).normal(size=5000)
    f = TargetTransform("rank").fit(y)
    assert len(f.values) == MAX_KNOTS and (f.values[0], f.values[-1]) == (y.min(), y.max())
    np.testing.assert_allclose(f.inverse(f.forward(y)), y, atol=1e-9)
    constant = TargetTransform("rank").fit(np.array([4.0, 4.0]))
    assert constant.inverse(constant.forward(np.array([4.0, 7.0]))).tolist() == [4.0, 4.0]
    assert constant.slope(np.zeros(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("name", "bad", "good"), [("log10", 0.0, 1e-9), ("log10", -1.0, 1.0), ("log1p", -1.0, -0.9)])
def test_numbers_without_a_transform_have_a_reason(name: str, bad: float, good: float) -> None:
    f = TargetTransform(name)
    assert f"{bad:g}" in f.undefined(bad) and not np.isfinite(f.forward(np.array([bad])))[0]
    assert not f.undefined(good) and np.isfinite(f.forward(np.array([good])))[0]


@pytest.mark.parametrize(
    "parts",
    [("sqrt",), ("log10", "nM"), ("neg-log10-molar", ""), ("rank", "", (1.0, 1.0), (0.0, 1.0)),
     ("rank", "", (1.0, 2.0), (1.0, 0.0)), ("rank", "", (1.0,), ()), ("log10", "", (1.0,), (1.0,))],
)  # fmt: skip
def test_inconsistent_parts_are_an_error(parts: tuple) -> None:
    with pytest.raises(ValueError, match="transform"):
        TargetTransform(*parts)


def test_predictions_of_a_scaler_are_in_the_units_of_the_targets() -> None:
    falling, rising = TargetTransform("neg-log10-molar", "nM"), TargetTransform("log10")
    scaler = TargetScaler((6.0, 0.0, 5.0), (1.0, 1.0, 2.0), (falling, rising, None))
    t = np.array([[6.0, 1.0, 5.0], [9.0, -1.0, 7.0]])
    quantiles = np.concatenate([t - 1, t + 1], 1)
    found = scaler.inverse_transform(Predictions(t, quantiles, np.full((2, 3), 0.1), np.full((2, 3), 0.5)))
    np.testing.assert_allclose(found.values, [[1000.0, 10.0, 5.0], [1.0, 0.1, 7.0]])
    # The lower quantile of nM is from the upper one of the negative logarithm.
    np.testing.assert_allclose(found.distribution[0], [100.0, 1.0, 4.0, 10000.0, 100.0, 6.0])
    low, high = np.split(found.distribution, 2, 1)
    assert (low < found.values).all() and (found.values < high).all()
    assert found.std is not None and found.epistemic_share is not None
    np.testing.assert_allclose(found.std[0], [1000 * math.log(10) * 0.1, 10 * math.log(10) * 0.1, 0.1])
    lower, upper = scaler.inverse_transform_bounds(t - 1, t + 1)
    np.testing.assert_allclose([lower[0], upper[0]], np.split(found.distribution[0], 2))
    np.testing.assert_allclose(scaler.transform(found.values), t)


def test_a_small_standard_deviation_is_that_of_the_transformed_sample() -> None:
    t = np.random.default_rng(0).normal(2.0, 0.02, 100_000)
    for f in (TargetTransform("log10"), TargetTransform("log1p"), TargetTransform("neg-log10-molar", "M")):
        scaler = TargetScaler((0.0,), (1.0,), (f,))
        found = scaler.inverse_transform(Predictions(np.array([[2.0]]), np.empty((1, 0)), np.array([[0.02]]))).std
        assert found is not None and found[0, 0] == pytest.approx(f.inverse(t).std(), rel=0.02)


def test_without_transforms_nothing_changes() -> None:
    scaler = TargetScaler((1.0,), (2.0,))
    predictions = Predictions(np.ones((3, 1)), np.empty((3, 0)))
    assert scaler.inverse_transform(predictions) is predictions
    assert transform_targets((), predictions.values) is predictions.values
    lower, upper = scaler.inverse_transform_bounds(np.zeros((3, 1)), np.ones((3, 1)))
    assert lower.tolist() == [[0.0]] * 3 and upper.tolist() == [[1.0]] * 3


def test_a_saved_model_has_its_transforms(tmp_path: Path) -> None:
    artifact = FORMS["regression"]()
    graphs = [molecule_graph(s) for s in ("CCO", "c1ccccc1")]
    plain = predict_molecules(artifact.model, artifact.scaler, graphs)
    for f in EVERY:
        transformed = replace(artifact, scaler=replace(artifact.scaler, transforms=(f,)))
        save_artifact(tmp_path / "model", transformed)
        loaded = load_artifact(tmp_path / "model")
        assert loaded.scaler == transformed.scaler
        predictions = loaded.apply_calibration(loaded.predict(graphs)).values
        np.testing.assert_allclose(predictions, f.inverse(plain), rtol=1e-12)
        np.testing.assert_allclose(predict_molecules(loaded.model, loaded.scaler, graphs), predictions)


def test_a_model_with_an_inconsistent_transform_is_an_error(tmp_path: Path) -> None:
    for name, f in (("atoms", TargetTransform("log10")), ("regression", TargetTransform("rank"))):
        artifact = FORMS[name]()
        save_artifact(tmp_path / name, replace(artifact, scaler=replace(artifact.scaler, transforms=(f,))))
        with pytest.raises(InputError, match="transform"):
            load_artifact(tmp_path / name)
