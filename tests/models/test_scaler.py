"""Standard deviations, and what is computed from them, in any unit of the targets."""

from typing import Any

import numpy as np
import pytest

from molattn import MolAttentionRegressor
from molattn.models.magnitude import power_of_two, standard_deviation
from molattn.models.predictions import Predictions
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.tasks import Regression
from molattn.training.calibrate import calibrate
from molattn.training.metrics import compute_metrics
from molattn.training.uncertainty_metrics import ence
from tests.molecules import esol

FACTORS = (1e-307, 1e-200, 1e-20, 1e20, 1e200, 1e300)
SMILES, VALUES = esol(40)
SMALL: dict[str, Any] = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "epochs": 2}


@pytest.mark.parametrize("factor", FACTORS)
def test_the_scaler_is_in_the_unit_of_the_targets(factor: float) -> None:
    targets = np.array([[1.0, 5.0], [2.0, np.nan], [4.0, 5.0]])
    scaler, scaled = TargetScaler.fit(targets), TargetScaler.fit(targets * factor)
    np.testing.assert_allclose(scaled.mean, np.array(scaler.mean) * factor, rtol=1e-12)
    assert scaled.std[0] == pytest.approx(scaler.std[0] * factor, rel=1e-12)
    assert scaled.std[1] == 1.0, "the labels are equal"
    np.testing.assert_allclose(scaled.scale(targets * factor)[:, 0], scaler.scale(targets)[:, 0], rtol=1e-12)


def test_only_equal_numbers_have_no_standard_deviation() -> None:
    assert standard_deviation(np.full(7, 0.1)) == standard_deviation(np.array([])) == 0.0
    assert standard_deviation(np.array([1.0, np.nextafter(1.0, 2.0)])) > 0.0
    assert power_of_two(np.zeros(3)) == power_of_two(np.array([])) == 1.0


def test_rounding_of_computed_descriptors_is_no_spread() -> None:
    x = np.array([[1e-14, 0.1], [2e-14, 0.1 + 1e-17], [3e-14, 0.1 + 3e-17]])
    provided = DescriptorScaler.fit(("a", "b"), x)
    np.testing.assert_allclose(provided.scale(x)[:, 0], [-1.2247449, 0.0, 1.2247449], atol=1e-6)
    computed = DescriptorScaler.fit((), x, ("a", "b"))
    np.testing.assert_allclose(computed.scale(x), 0.0, atol=1e-12)


@pytest.mark.parametrize("factor", FACTORS)
def test_metrics_are_in_the_unit_of_the_targets(factor: float) -> None:
    y, p = np.array(VALUES), np.array(VALUES[::-1])
    one, other = (compute_metrics(y * f, p * f, ("rmse", "mae", "r2")) for f in (1.0, factor))
    assert other["r2"] == pytest.approx(one["r2"])
    for name in ("rmse", "mae"):
        assert other[name] / factor == pytest.approx(one[name])
    assert ence(y * factor, p * factor, np.abs(y) * factor) == pytest.approx(ence(y, p, np.abs(y)))


@pytest.mark.parametrize("factor", FACTORS)
def test_calibration_scores_have_no_unit(factor: float) -> None:
    y = np.array(VALUES)[:, None]
    spread = np.linspace(0.0, 1.0, len(y))[:, None]

    def scores(f: float) -> np.ndarray:
        predictions = Predictions(np.zeros_like(y), np.empty((len(y), 0)), spread * f)
        return calibrate(predictions, y * f, Regression("mve"), "mve", "", ("y",), predictions).scores[0]["z"]

    np.testing.assert_allclose(scores(factor), scores(1.0), rtol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"ensemble_size": 2}, {"loss": "mve"}])
def test_predictions_scale_with_the_labels(settings: dict[str, Any]) -> None:
    y = np.array(VALUES)
    predicted: dict[float, np.ndarray] = {}
    for factor in (1.0, 1e-20, 1e20, 1e-200):
        model = MolAttentionRegressor(**SMALL, calibration_size=0.3, **settings).fit(SMILES, y * factor)
        low, high = model.predict_interval(SMILES, 0.7)
        predicted[factor] = np.stack([model.predict(SMILES), low, high]) / factor
        assert model.score(SMILES, y * factor) > -10
    for values in predicted.values():
        np.testing.assert_allclose(values, predicted[1.0], rtol=1e-4, atol=1e-4)
