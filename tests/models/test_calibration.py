"""Intervals and sets: their coverage for any model, and the formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from molattn.errors import InputError, UsageError
from molattn.models.calibration import (
    CALIBRATION_METHODS,
    apply_calibration,
    conformal_quantile,
    cumulative_probabilities,
    prediction_intervals,
    prediction_sets,
    resolve_calibration_method,
)
from molattn.models.predictions import Predictions
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training import calibrate as room
from molattn.training.calibrate import calibrate

NUMBERS, QUANTILES = Regression(), Regression("quantile")
GRADES = Multiclass(classes=(("a", "b", "c"),))


def _numbers(n: int, seed: int, with_std: bool = True, with_distance: bool = False) -> tuple[Predictions, np.ndarray]:
    """A biased model whose errors have heavy tails and are three times as large as its std, or its distances."""
    draw = np.random.default_rng(seed)
    std = draw.uniform(0.2, 2.0, (n, 1))
    y = draw.normal(size=(n, 1))
    values = y + 0.3 + 3 * std * draw.standard_t(4, size=(n, 1))
    own = np.concatenate([values - std, values + std], 1)
    return Predictions(values, own, std if with_std else None, distance=std[:, 0] if with_distance else None), y


def _classes(n: int, seed: int) -> tuple[Predictions, np.ndarray]:
    """An overconfident model."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(n, 3))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = np.array([[draw.choice(3, p=row)] for row in p], dtype=float)
    overconfident = p**3 / (p**3).sum(1, keepdims=True)
    return GRADES.with_probabilities([overconfident]), y


def _fit(predictions: Predictions, y: np.ndarray, task, method: str = ""):
    return calibrate(predictions, y, task, "none", method, ("y",), predictions)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
@pytest.mark.parametrize(
    ("task", "with_std", "with_distance"),
    [(NUMBERS, True, False), (NUMBERS, False, False), (NUMBERS, False, True), (QUANTILES, True, False)],
    ids=["std", "none", "distance", "quantile"],
)
def test_conformal_intervals_have_their_coverage(
    task: Regression, with_std: bool, with_distance: bool, level: float
) -> None:
    shares = []
    for seed in range(150):
        predictions, y = _numbers(260, seed, with_std, with_distance)
        calibration = _fit(predictions[:60], y[:60], task)
        lower, upper = prediction_intervals(predictions[60:], task, level, calibration, "conformal-regression")
        assert (lower <= upper).all()
        shares.append(((lower <= y[60:]) & (y[60:] <= upper)).mean())
    # At least the level, and at most 1 / (k + 1) more; three standard errors of the mean of 150.
    error = 3 * np.std(shares) / math.sqrt(150)
    assert level - error <= np.mean(shares) <= level + 1 / 61 + error


def test_intervals_by_distance_hold_where_molecules_are_far_and_others_do_not() -> None:
    """Errors grow with the distance, and the molecules that are asked about are farther than those of calibration."""
    shares = {True: [], False: []}
    for seed in range(100):
        near, y = _numbers(400, seed, with_std=False, with_distance=True)
        assert near.distance is not None
        cal, test = np.arange(400) < 200, np.arange(400) >= 200
        test &= near.distance > np.quantile(near.distance, 0.8)
        for with_distance, found in shares.items():
            predictions = near if with_distance else replace(near, distance=None)
            calibration = _fit(predictions[cal], y[cal], NUMBERS)
            assert calibration.has_distances == with_distance
            lower, upper = prediction_intervals(predictions[test], NUMBERS, 0.9, calibration, "conformal-regression")
            found.append(((lower <= y[test]) & (y[test] <= upper)).mean())
    assert np.mean(shares[False]) < 0.8 < 0.82 < np.mean(shares[True])


@pytest.mark.parametrize("method", ["conformal-multiclass", "conformal-adaptive"])
@pytest.mark.parametrize("level", [0.6, 0.9])
def test_conformal_sets_have_their_coverage(method: str, level: float) -> None:
    shares = []
    for seed in range(150):
        predictions, y = _classes(260, seed)
        calibration = _fit(predictions[:60], y[:60], GRADES, method)
        (within,) = prediction_sets(predictions[60:], GRADES, level, calibration, method)
        shares.append(within[np.arange(200), y[60:, 0].astype(int)].mean())
    error = 3 * np.std(shares) / math.sqrt(150)
    # The most probable class is always in an adaptive set: that can be more than was requested.
    most = 1.0 if method == "conformal-adaptive" else level + 1 / 61 + error
    assert level - error <= np.mean(shares) <= most


@pytest.mark.parametrize("method", ["conformal-multiclass", "conformal-adaptive"])
def test_rounding_does_not_exclude_the_class_whose_score_is_the_quantile(method: str) -> None:
    """A calibration molecule predicted again, with another spelling: the probabilities differ in the eighth digit."""
    predictions, y = _classes(60, 0)
    calibration = _fit(predictions, y, GRADES, method)
    p = GRADES.probabilities(predictions, 0)
    again = [GRADES.with_probabilities([p + 5e-8 * np.roll([-1, 0, 1], k)]) for k in range(3)]
    sets = [prediction_sets(x, GRADES, 0.7, calibration, method)[0] for x in (predictions, *again)]
    for other in sets[1:]:
        np.testing.assert_array_equal(other, sets[0])
    assert sets[0][np.arange(60), y[:, 0].astype(int)].sum() >= math.ceil(61 * 0.7)


def test_the_rank_of_the_conformal_quantile() -> None:
    scores = np.arange(1.0, 10.0)  # nine of them
    assert [conformal_quantile(scores, level) for level in (0.1, 0.5, 0.85, 0.9)] == [1, 5, 9, 9]
    with pytest.raises(
        UsageError, match="9 calibration labels are too few for intervals or sets of 0.95, which need 19"
    ):
        conformal_quantile(scores, 0.95)
    with pytest.raises(UsageError, match="intervals or sets of 0.9, which need 19"):
        conformal_quantile(scores, 0.95, 0.9)
    assert conformal_quantile(np.arange(19.0), 0.95) == 18


def test_z_scaling_maximizes_the_likelihood() -> None:
    predictions, y = _numbers(80, 0)
    scaled = apply_calibration(predictions, NUMBERS, _fit(predictions, y, NUMBERS, "zscaling"), "zscaling")
    assert predictions.std is not None and scaled.std is not None

    def nll(factor: float) -> float:
        return -float(stats.norm.logpdf(y, predictions.values, factor * predictions.std).mean())

    factor = float(scaled.std[0, 0] / predictions.std[0, 0])
    assert scaled.std == pytest.approx(factor * predictions.std)
    assert nll(factor) < min(nll(0.99 * factor), nll(1.01 * factor))
    lower, upper = prediction_intervals(predictions, NUMBERS, 0.9, _fit(predictions, y, NUMBERS), "zscaling")
    wanted = stats.norm.interval(0.9, predictions.values, scaled.std)
    np.testing.assert_allclose(lower, wanted[0])
    np.testing.assert_allclose(upper, wanted[1])


def test_isotonic_intervals_are_the_quantiles_of_the_isotonic_regression() -> None:
    predictions, y = _numbers(99, 1)
    # With a larger std, so that the largest errors differ in probability.
    predictions = replace(predictions, std=6 * predictions.std)  # pyright: ignore[reportOptionalOperand]
    calibration = _fit(predictions, y, NUMBERS, "isotonic")
    lower, upper = prediction_intervals(predictions, NUMBERS, 0.8, calibration, "isotonic")
    assert predictions.std is not None
    # As in Kuleshov et al.: the isotonic regression maps expected to observed shares.
    expected = np.sort(stats.norm.cdf((y - predictions.values) / predictions.std).ravel())
    observed = np.arange(1, 100) / 100
    assert IsotonicRegression().fit_transform(expected, observed) == pytest.approx(observed)
    for end, share in ((lower, 0.1), (upper, 0.9)):
        found = stats.norm.cdf((end - predictions.values) / predictions.std)
        assert found == pytest.approx(np.full((99, 1), expected[round(100 * share) - 1]))


def test_isotonic_probabilities_are_right_on_average() -> None:
    predictions, y = _classes(3000, 2)
    calibration = _fit(predictions[:2000], y[:2000], GRADES, "isotonic")
    found = apply_calibration(predictions[2000:], GRADES, calibration, "isotonic")
    assert found.distribution.sum(1) == pytest.approx(np.ones(1000))

    def loss(of: Predictions) -> float:
        return -np.log(np.maximum(of.distribution[np.arange(1000), y[2000:, 0].astype(int)], 1e-6)).mean()

    assert loss(found) < 0.9 * loss(predictions[2000:])
    # Of two classes, too, and the predicted class follows the new probabilities.
    assert (found.values[:, 0] == found.distribution.argmax(1)).all()
    draw = np.random.default_rng(0)
    p = draw.uniform(size=(500, 1))
    truth = (draw.uniform(size=(500, 1)) < p**2).astype(float)
    uncalibrated = Predictions(p, np.empty((500, 0)))
    again = apply_calibration(uncalibrated, Binary(), _fit(uncalibrated, truth, Binary(), "isotonic"), "isotonic")
    assert np.abs(again.values - p**2).mean() < 0.5 * np.abs(p - p**2).mean()


def test_uncalibrated_intervals_and_sets() -> None:
    predictions, _ = _numbers(5, 0)
    assert predictions.std is not None
    lower, upper = prediction_intervals(predictions, NUMBERS, 0.95, None, "none")
    np.testing.assert_allclose(upper - lower, 2 * 1.959964 * predictions.std, rtol=1e-6)
    ends = prediction_intervals(predictions, QUANTILES, 1 - QUANTILES.alpha, None, "none")
    np.testing.assert_allclose(np.concatenate(ends, 1), predictions.distribution)
    with pytest.raises(UsageError, match="has no standard deviations: train with --calibration-size"):
        prediction_intervals(replace(predictions, std=None), NUMBERS, 0.9, None, "none")
    p = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])
    (within,) = prediction_sets(GRADES.with_probabilities([p]), GRADES, 0.7, None, "none")
    assert within.tolist() == [[True, True, False], [False, True, True]]
    np.testing.assert_allclose(cumulative_probabilities(p), [[0.6, 0.9, 1.0], [1.0, 0.5, 0.8]])


def test_missing_labels_are_skipped_and_the_number_of_scores_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    predictions, y = _numbers(50, 3)
    y[::2] = np.nan
    calibration = _fit(predictions, y, NUMBERS)
    assert len(calibration.scores[0]["z"]) == 25
    assert np.isfinite(calibration.scores[0]["z"]).all()
    monkeypatch.setattr(room, "MAX_SCORES", 10)
    assert len(_fit(predictions, y, NUMBERS).scores[0]["normalized_residuals"]) == 10
    with pytest.raises(InputError, match="0 calibration molecules have a label of 'y'"):
        _fit(predictions, np.full_like(y, np.nan), NUMBERS)


def test_members_with_equal_predictions_cause_no_division_by_zero() -> None:
    predictions, y = _numbers(50, 3)
    calibration = _fit(replace(predictions, std=np.zeros((50, 1))), y, NUMBERS)
    assert all(np.isfinite(scores).all() for scores in calibration.scores[0].values())


def test_invalid_combinations_are_errors() -> None:
    for level in (0.0, 1.0, 90.0, -0.1):
        with pytest.raises(UsageError, match="level of intervals and sets is above 0 and below 1"):
            prediction_intervals(_numbers(3, 0)[0], NUMBERS, level, None, "none")
    assert resolve_calibration_method("", NUMBERS) == "conformal-regression"
    assert resolve_calibration_method("", GRADES) == resolve_calibration_method("", Binary()) == "conformal-multiclass"
    assert {resolve_calibration_method(m, NUMBERS) for m in ("zscaling", "isotonic", "none")} < set(CALIBRATION_METHODS)
    with pytest.raises(UsageError, match="zscaling does not apply to multiclass targets: choose among conformal-multi"):
        resolve_calibration_method("zscaling", GRADES)
    with pytest.raises(UsageError, match="unknown calibration method 'magic'"):
        resolve_calibration_method("magic", NUMBERS)
    with pytest.raises(UsageError, match="the atoms of a molecule are not"):
        _fit(*_numbers(20, 0), Regression(atom_level=True))
