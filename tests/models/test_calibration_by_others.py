"""Calibration against scipy, scikit-learn, numpy's quantiles and the papers' loops."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from molattn.errors import InputError, UsageError
from molattn.models.calibration import (
    Calibration,
    apply_calibration,
    check_level,
    conformal_quantile,
    prediction_intervals,
    prediction_sets,
    resolve_calibration_method,
    score_names,
)
from molattn.models.predictions import Predictions
from molattn.models.tasks import Multiclass, Regression
from molattn.training import calibrate as room
from molattn.training.calibrate import calibrate, check_calibration
from tests.models.test_calibration import GRADES, NUMBERS, QUANTILES, _classes, _fit, _numbers


def _learned(
    task, predictions: Predictions, y: np.ndarray, method: str = "", others: Predictions | None = None
) -> Calibration:
    names = tuple(f"t{t}" for t in range(y.shape[1]))
    return calibrate(predictions, y, task, "mve", method, names, predictions if others is None else others)


def _two_targets(n: int, seed: int) -> tuple[Predictions, np.ndarray]:
    (a, y), (b, z) = _numbers(n, seed), _numbers(n, seed + 1)
    own = np.concatenate(
        [a.distribution[:, [0]], b.distribution[:, [0]], a.distribution[:, [1]], b.distribution[:, [1]]], 1
    )
    values, std = np.concatenate([a.values, b.values], 1), np.concatenate([a.std, 3 * b.std], 1)  # pyright: ignore
    return Predictions(values, own, std), np.concatenate([y, z], 1)


def test_the_scores_of_each_task_have_their_names() -> None:
    assert score_names(Regression(), 0) == [("z", "normalized_residuals"), ("beta",)]
    assert score_names(Regression("quantile"), 0) == [("z", "normalized_residuals", "quantile_residuals"), ("beta",)]
    grades = Multiclass(classes=(("a",), ("b", "c")))
    assert score_names(grades, 1) == [("one_minus_p", "cumulative_p"), ("x0", "y0"), ("x1", "y1")]


@pytest.mark.parametrize("n", [4, 9, 10, 19, 33])
def test_a_conformal_quantile_is_numpys_of_the_corrected_level(n: int) -> None:
    """Of Romano et al.: the (1 + 1/n) level empirical quantile, in exact fractions and by numpy."""
    scores = np.sort(np.random.default_rng(n).normal(size=n))
    for level in (Fraction(k, 20) for k in range(1, 20)):
        corrected = math.ceil((n + 1) * level) / n
        if corrected > 1:
            with pytest.raises(UsageError, match=f"{n} calibration labels .* {float(level):g}, which need") as error:
                conformal_quantile(scores, float(level))
            needed = int(re.findall(r"need (\d+)", str(error.value))[0])
            # The stated minimum number of scores is enough, and one less is not.
            assert conformal_quantile(np.arange(needed), float(level)) == needed - 1
            with pytest.raises(UsageError):
                conformal_quantile(np.arange(needed - 1), float(level))
        else:
            expected = np.quantile(scores, corrected, method="inverted_cdf")
            assert conformal_quantile(scores, float(level)) == expected


@pytest.mark.parametrize("with_std", [True, False])
def test_conformal_intervals_are_split_conformal_prediction_by_hand(with_std: bool) -> None:
    predictions, y = _two_targets(40, 5)
    predictions = predictions if with_std else replace(predictions, std=None)
    others = _two_targets(31, 9)[0] if with_std else predictions
    lower, upper = prediction_intervals(
        predictions, NUMBERS, 0.8, _learned(NUMBERS, predictions, y, others=others), "conformal-regression"
    )
    for t in range(2):
        # Lei et al. 2018, section 5.2: residuals over a spread, here that of the model and what is usual.
        spread = np.ones(40)
        if predictions.std is not None and others.std is not None:
            spread = predictions.std[:, t] + np.median(others.std[:, t])
        q = sorted(abs(y[:, t] - predictions.values[:, t]) / spread)[math.ceil(41 * 0.8) - 1]
        np.testing.assert_allclose(lower[:, t], predictions.values[:, t] - q * spread)
        np.testing.assert_allclose(upper[:, t], predictions.values[:, t] + q * spread)


def test_intervals_by_distance_are_those_of_papadopoulos_by_hand() -> None:
    """J. Artif. Intell. Res. 2011, 40, 815: |y - mean| / (gamma + lambda), gamma 1.

    lambda is the distance to the nearest training examples, divided by its median.
    """
    predictions, y = _two_targets(40, 5)
    draw = np.random.default_rng(8)
    distance, others = draw.lognormal(size=40), draw.lognormal(size=31)
    predictions = replace(predictions, std=None, distance=distance)
    validation = replace(_two_targets(31, 9)[0], std=None, distance=others)
    calibration = _learned(NUMBERS, predictions, y, others=validation)
    assert calibration.has_distances
    lower, upper = prediction_intervals(predictions, NUMBERS, 0.8, calibration, "conformal-regression")
    for t in range(2):
        scale = 1 + distance / np.median(others)
        q = sorted(abs(y[:, t] - predictions.values[:, t]) / scale)[math.ceil(41 * 0.8) - 1]
        np.testing.assert_allclose(lower[:, t], predictions.values[:, t] - q * scale)
        np.testing.assert_allclose(upper[:, t], predictions.values[:, t] + q * scale)
    # The other methods, and quantiles, do not depend on it.
    for task, method in ((NUMBERS, "zscaling"), (NUMBERS, "isotonic"), (QUANTILES, "conformal-regression")):
        ends = []
        for part in (distance, None):
            p, v = replace(predictions, distance=part), replace(validation, distance=part)
            ends.append(prediction_intervals(p, task, 0.8, _learned(task, p, y, others=v), method))
        np.testing.assert_array_equal(*ends)


def test_distances_are_not_used_beside_a_std_nor_if_most_are_zero() -> None:
    predictions, y = _numbers(30, 3, with_distance=True)
    assert predictions.distance is not None
    plain = replace(predictions, std=None)
    mostly_zero = replace(plain, distance=np.where(np.arange(30) < 16, 0.0, predictions.distance))
    for one, other in (
        (predictions, predictions),
        (plain, predictions),
        (predictions, plain),
        (plain, replace(plain, distance=None)),
        (plain, mostly_zero),
    ):
        assert not _learned(NUMBERS, one, y, others=other).has_distances
    assert _learned(NUMBERS, mostly_zero, y, others=plain).has_distances


def test_conformal_quantiles_are_those_of_romano_by_hand_and_never_cross() -> None:
    predictions, y = _two_targets(40, 5)
    calibration = _learned(QUANTILES, predictions, y)
    lower, upper = prediction_intervals(predictions, QUANTILES, 0.8, calibration, "conformal-regression")
    for t in range(2):
        a, b = predictions.distribution[:, t], predictions.distribution[:, 2 + t]
        q = sorted(max(x, z) for x, z in zip(a - y[:, t], y[:, t] - b, strict=True))[math.ceil(41 * 0.8) - 1]
        np.testing.assert_allclose(lower[:, t], a - q)
        np.testing.assert_allclose(upper[:, t], b + q)
    # Bounds that are too wide by 1 are narrowed by 1 each; intervals narrower than 2 become their midpoint.
    wide = Predictions(np.zeros((20, 1)), np.tile([-1.0, 1.0], (20, 1)))
    calibration = _learned(QUANTILES, wide, np.zeros((20, 1)))
    narrow = Predictions(np.full((2, 1), 3.0), np.array([[2.9, 3.5], [0.0, 5.0]]))
    ends = prediction_intervals(narrow, QUANTILES, 0.8, calibration, "conformal-regression")
    np.testing.assert_allclose(np.concatenate(ends, 1), [[3.2, 3.2], [1.0, 4.0]])


def test_numbers_of_two_targets_are_calibrated_each_by_its_own_errors() -> None:
    predictions, y = _two_targets(60, 2)
    assert predictions.std is not None
    z = (y - predictions.values) / predictions.std
    for method, factor in (("zscaling", np.sqrt((z**2).mean(0))), ("isotonic", z.std(0))):
        calibration = _learned(NUMBERS, predictions, y, method)
        assert (calibration.method, calibration.uncertainty_method) == (method, "mve")
        found = apply_calibration(predictions, NUMBERS, calibration, method)
        np.testing.assert_allclose(found.std, predictions.std * factor)
        np.testing.assert_array_equal(found.values, predictions.values)
        # Without anything to calibrate, nothing changes.
        assert apply_calibration(replace(predictions, std=None), NUMBERS, calibration, method).std is None
    lower, upper = prediction_intervals(predictions, NUMBERS, 0.8, calibration, "isotonic")
    for t in range(2):
        low, high = stats.mstats.mquantiles(z[:, t], [0.1, 0.9], alphap=0, betap=0)
        np.testing.assert_allclose(lower[:, t], predictions.values[:, t] + low * predictions.std[:, t])
        np.testing.assert_allclose(upper[:, t], predictions.values[:, t] + high * predictions.std[:, t])
    for method in ("conformal-regression", "none"):
        assert apply_calibration(predictions, NUMBERS, calibration, method) is predictions


def test_isotonic_intervals_do_not_go_beyond_the_farthest_error() -> None:
    predictions, y = _numbers(9, 0)
    calibration = _fit(predictions, y, NUMBERS, "isotonic")
    lower, upper = prediction_intervals(predictions, NUMBERS, 0.8, calibration, "isotonic")
    assert predictions.std is not None
    for end, score in ((lower, calibration.scores[0]["z"][0]), (upper, calibration.scores[0]["z"][-1])):
        np.testing.assert_allclose(end, predictions.values + score * predictions.std)
    with pytest.raises(UsageError, match="9 calibration labels are too few for intervals or sets of 0.84, which need"):
        prediction_intervals(predictions, NUMBERS, 0.84, calibration, "isotonic")


def test_the_method_none_ignores_the_calibration() -> None:
    predictions, y = _numbers(40, 0)
    calibration = _fit(predictions, y, NUMBERS)
    assert predictions.std is not None
    own = stats.norm.interval(0.8, predictions.values, predictions.std)
    for found in (
        prediction_intervals(predictions, NUMBERS, 0.8, calibration, "none"),
        prediction_intervals(predictions, NUMBERS, 0.8, None, "zscaling"),
    ):
        np.testing.assert_allclose(found, own)
    # Of quantiles: as far from the median as those of a normal distribution would be.
    for level in (0.5, 0.99):
        stretch = stats.norm.ppf((1 + level) / 2) / stats.norm.ppf(1 - QUANTILES.alpha / 2)
        ends = prediction_intervals(predictions, QUANTILES, level, calibration, "none")
        for end, q in zip(ends, np.split(predictions.distribution, 2, 1), strict=True):
            np.testing.assert_allclose(end - predictions.values, stretch * (q - predictions.values))
    known, truth = _classes(60, 0)
    calibration = _fit(known, truth, GRADES)
    for found in (
        prediction_sets(known, GRADES, 0.8, calibration, "none"),
        prediction_sets(known, GRADES, 0.8, None, "conformal-multiclass"),
    ):
        np.testing.assert_array_equal(found[0], prediction_sets(known, GRADES, 0.8, calibration, "isotonic")[0])


# Sums of these are exact.
EXACT = np.array([[0.5, 0.25, 0.125], [0.125, 0.625, 0.25], [0.25, 0.125, 0.625], [0.375, 0.375, 0.25]])


def test_the_most_probable_classes_are_taken_until_they_sum_to_the_level() -> None:
    (within,) = prediction_sets(GRADES.with_probabilities([EXACT]), GRADES, 0.625, None, "none")
    assert within.tolist() == [[True, True, False], [False, True, False], [False, False, True], [True, True, False]]


@pytest.mark.parametrize("method", ["conformal-multiclass", "conformal-adaptive"])
def test_conformal_sets_are_those_of_a_loop_over_classes(method: str) -> None:
    """Sadinle et al. 2019 and Romano et al. 2020, class by class; a molecule just as far as the quantile is within."""
    task = Multiclass(classes=(("a", "b", "c"), ("x", "y")))
    first, second = EXACT[[0, 1, 2, 3, 1]], np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    predictions, y = task.with_probabilities([first, second]), np.array([[1, 0], [1, 0], [0, 1], [1, 0], [2, 1]])

    def far(p: np.ndarray, c: int) -> float:
        if method == "conformal-multiclass":
            return 1 - p[c]
        return sum(p[k] for k in range(len(p)) if p[k] > p[c] or (p[k] == p[c] and k <= c))

    for level in (0.3, 0.5, 0.8):
        found = prediction_sets(predictions, task, level, _learned(task, predictions, y.astype(float), method), method)
        for t, p in enumerate((first, second)):
            q = sorted(far(row, c) for row, c in zip(p, y[:, t], strict=True))[math.ceil(6 * level) - 1]
            expected = [[far(row, c) <= q for c in range(len(row))] for row in p]
            if method == "conformal-adaptive":
                expected = [
                    [w or row[c] == max(row) for c, w in enumerate(ws)] for row, ws in zip(p, expected, strict=True)
                ]
            assert found[t].tolist() == expected


def test_the_most_probable_class_is_in_an_adaptive_set_at_any_level() -> None:
    confident = GRADES.with_probabilities([np.tile([0.9, 0.06, 0.04], (9, 1))])
    calibration = _fit(confident, np.zeros((9, 1)), GRADES, "conformal-adaptive")
    less = GRADES.with_probabilities([np.array([[0.01, 0.02, 0.97]])])
    (within,) = prediction_sets(less, GRADES, 0.5, calibration, "conformal-adaptive")
    assert within.tolist() == [[False, False, True]]
    for level in (0.0, 1.0):
        with pytest.raises(UsageError, match="level of intervals and sets is above 0 and below 1"):
            prediction_sets(less, GRADES, level, calibration, "none")


def test_isotonic_probabilities_are_scikit_learns_class_by_class() -> None:
    """As CalibratedClassifierCV does it: an isotonic regression for each class, divided by their sum."""
    predictions, y = _classes(300, 4)
    calibration = _fit(predictions, y, GRADES, "isotonic")
    new, _ = _classes(50, 5)
    found = apply_calibration(replace(new, std=np.full((50, 1), 0.25)), GRADES, calibration, "isotonic")
    p, q = (GRADES.probabilities(a, 0) for a in (predictions, new))
    risen = [IsotonicRegression(out_of_bounds="clip").fit(p[:, c], y[:, 0] == c).predict(q[:, c]) for c in range(3)]
    np.testing.assert_allclose(GRADES.probabilities(found, 0), np.stack(risen, 1) / np.sum(risen, 0)[:, None])
    np.testing.assert_array_equal(found.std, np.full((50, 1), 0.25))


def test_probabilities_that_all_map_to_zero_are_not_changed() -> None:
    nothing = {f"{axis}{c}": np.array(ends) for c in range(3) for axis, ends in (("x", [0.0, 1.0]), ("y", [0.0, 0.0]))}
    calibration = Calibration(
        "isotonic", "none", (nothing | {"x0": np.array([0.4, 0.6]), "y0": np.array([0.0, 0.75])},)
    )
    with np.errstate(all="raise"):
        found = apply_calibration(GRADES.with_probabilities([EXACT]), GRADES, calibration, "isotonic")
    # Of the first row alone the first class rises, and is then the only one.
    np.testing.assert_array_equal(GRADES.probabilities(found, 0), [[1.0, 0.0, 0.0], *EXACT[1:].tolist()])


def test_the_scores_of_classes_are_those_of_the_true_class() -> None:
    truth = np.array([[2.0], [1.0], [0.0], [1.0]])
    scores = _fit(GRADES.with_probabilities([EXACT]), truth, GRADES).scores[0]
    np.testing.assert_array_equal(scores["one_minus_p"], np.sort([0.875, 0.375, 0.75, 0.625]))
    np.testing.assert_array_equal(scores["cumulative_p"], np.sort([0.875, 0.625, 0.875, 0.75]))


def test_two_labels_are_the_minimum_and_none_is_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    predictions, y = _numbers(50, 3)
    for labels, words in ((1, "1 calibration molecules have a label of 'y'"), (2, "")):
        few = np.where(np.arange(50)[:, None] < labels, y, np.nan)
        if words:
            with pytest.raises(InputError, match=words):
                _fit(predictions, few, NUMBERS)
        else:
            assert len(_fit(predictions, few, NUMBERS).scores[0]["z"]) == labels
    monkeypatch.setattr(room, "MAX_SCORES", 45)
    (scores,) = _fit(predictions, y, NUMBERS).scores
    whole = np.unique(np.round((y - predictions.values) / predictions.std, 12))
    assert len(np.unique(scores["z"])) == 45
    assert set(np.round(scores["z"], 12)) <= set(whole)
    np.testing.assert_array_equal(scores["z"], _fit(predictions, y, NUMBERS).scores[0]["z"])


def test_without_a_std_the_scores_are_the_errors() -> None:
    predictions, y = _numbers(30, 3)
    plain = replace(predictions, std=None)
    for one, other in ((plain, predictions), (predictions, plain), (plain, plain)):
        (scores,) = _learned(NUMBERS, one, y, others=other).scores
        np.testing.assert_allclose(scores["z"], np.sort((y - predictions.values).ravel()))
        np.testing.assert_allclose(scores["normalized_residuals"], np.sort(np.abs(y - predictions.values).ravel()))
        assert scores["beta"].tolist() == [0.0]
    (scores,) = _learned(NUMBERS, predictions, y, others=predictions[:7]).scores
    assert predictions.std is not None
    assert scores["beta"].tolist() == [np.median(predictions.std[:7])]
    assert "quantile_residuals" not in scores


def test_an_incompatible_method_is_an_error_before_calibration() -> None:
    for task in (NUMBERS, GRADES):
        check_calibration(task, "")
    with pytest.raises(UsageError, match="zscaling does not apply to multiclass"):
        check_calibration(GRADES, "zscaling")
    with pytest.raises(UsageError, match="the atoms of a molecule are not"):
        check_calibration(Multiclass(classes=GRADES.classes, atom_level=True), "")
    assert resolve_calibration_method("none", GRADES) == resolve_calibration_method("none", NUMBERS) == "none"
    for level in (0.001, 0.999):
        check_level(level)
