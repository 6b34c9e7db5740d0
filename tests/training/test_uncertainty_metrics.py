"""Metrics of uncertainties against direct formulas, scipy and scikit-learn."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.metrics import log_loss

from molattn.models.predictions import Predictions
from molattn.models.tasks import Multiclass, Regression
from molattn.training.calibrate import calibrate
from molattn.training.uncertainty_metrics import (
    class_nll,
    ece,
    ence,
    miscalibration_area,
    normal_nll,
    uncertainty_metrics,
)

DRAW = np.random.default_rng(0)
STD = DRAW.uniform(0.5, 3.0, 4000)
MU = DRAW.normal(size=4000)
RIGHT = MU + STD * DRAW.normal(size=4000)


def test_the_likelihood_matches_scipy_and_scikit_learn() -> None:
    assert normal_nll(RIGHT, MU, STD) == pytest.approx(-stats.norm.logpdf(RIGHT, MU, STD).mean())
    p = DRAW.dirichlet([1, 2, 3], size=200)
    y = DRAW.integers(3, size=200)
    assert class_nll(y, p) == pytest.approx(log_loss(y, p))


def test_correct_standard_deviations_have_almost_no_calibration_error() -> None:
    assert ence(RIGHT, MU, STD) < 0.05
    assert miscalibration_area(RIGHT, MU, STD) < 0.01
    # Errors of twice the size: |1 - 2| / 1 in every bin.
    assert ence(MU + 2 * (RIGHT - MU), MU, STD) == pytest.approx(1.0, abs=0.05)
    assert ence(RIGHT, MU, 2 * STD) == pytest.approx(0.5, abs=0.03)


def test_miscalibration_area_matches_numerical_integration() -> None:
    # Of normal errors that are k times too large the observed share is 2 Phi(z / k) - 1.
    p = np.linspace(0, 1, 20001)[:-1]
    wanted = integrate.trapezoid(np.abs(2 * stats.norm.cdf(stats.norm.ppf((1 + p) / 2) / 2) - 1 - p), p)
    assert miscalibration_area(MU + 2 * (RIGHT - MU), MU, STD) == pytest.approx(wanted, abs=0.01)
    # Coverage of none or of all molecules: half of the square.
    assert miscalibration_area(MU + 1e9, MU, STD) == pytest.approx(0.495, abs=0.001)
    assert miscalibration_area(MU, MU, STD) == pytest.approx(0.495, abs=0.001)


def test_ence_by_hand() -> None:
    std = np.array([1.0] * 5 + [2.0] * 5)
    error = np.array([1.0] * 5 + [1.0] * 5)
    assert ence(error, np.zeros(10), std) == pytest.approx((0 + 0.5) / 2)
    assert ence(error[:3], np.zeros(3), std[:3]) == 0.0  # one bin, however few


def test_ece_by_hand() -> None:
    p = np.array([[0.95, 0.05], [0.92, 0.08], [0.35, 0.65], [0.31, 0.69]])
    y = np.array([0, 1, 1, 1])
    # The bin from 0.9: one of two right at 0.935; that from 0.6: two of two at 0.67.
    assert ece(y, p) == pytest.approx(0.5 * abs(0.5 - 0.935) + 0.5 * abs(1 - 0.67))


def test_coverage_and_width_of_intervals() -> None:
    predictions = Predictions(MU[:, None], np.empty((4000, 0)), STD[:, None])
    found = uncertainty_metrics(RIGHT[:, None], predictions, Regression("mve"), ("y",), None, "none")["y"]
    assert found["coverage"] == pytest.approx(0.9, abs=0.02)
    assert found["width"] == pytest.approx(2 * 1.6448536 * STD.mean())
    assert set(found) == {"nll", "ence", "miscalibration_area", "coverage", "width"}
    few = calibrate(predictions[:5], RIGHT[:5, None], Regression("mve"), "mve", "", ("y",), predictions)
    found = uncertainty_metrics(RIGHT[:, None], predictions, Regression("mve"), ("y",), few, few.method)["y"]
    assert "coverage" not in found and "too few" in found["why"]["coverage"]
    unlabelled = uncertainty_metrics(np.full((3, 1), np.nan), predictions[:3], Regression("mve"), ("y",), None, "none")[
        "y"
    ]
    assert set(unlabelled.values()) == {None}


def test_sets_have_a_size() -> None:
    task = Multiclass(classes=(("a", "b", "c"),))
    p = np.array([[0.6, 0.31, 0.09], [0.95, 0.04, 0.01]])
    found = uncertainty_metrics(np.array([[1.0], [1.0]]), task.with_probabilities([p]), task, ("y",), None, "none")["y"]
    assert found["size"] == 1.5 and found["coverage"] == 0.5
