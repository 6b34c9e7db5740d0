"""Metrics against plain numpy, and null where they are undefined."""

import numpy as np
import pytest

from molattn.training.metrics import regression_metrics


def test_metrics_are_those_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    y, p = rng.normal(-3, 2, 50), rng.normal(-3, 2, 50)
    m = regression_metrics(y, p)
    assert m["rmse"] == pytest.approx(np.sqrt(np.mean((y - p) ** 2)), rel=1e-12)
    assert m["mae"] == pytest.approx(np.mean(np.abs(y - p)), rel=1e-12)
    assert m["r2"] == pytest.approx(1 - np.sum((y - p) ** 2) / np.sum((y - y.mean()) ** 2), rel=1e-9)


def test_missing_labels_do_not_count() -> None:
    y, p = np.array([1.0, np.nan, 3.0]), np.array([1.5, 100.0, 3.0])
    assert regression_metrics(y, p) == regression_metrics(y[[0, 2]], p[[0, 2]])


def test_undefined_metrics_are_null() -> None:
    nothing = {"rmse": None, "mae": None, "r2": None}
    assert regression_metrics(np.array([np.nan]), np.array([1.0])) == nothing
    assert regression_metrics(np.array([2.0]), np.array([1.0])) == {"rmse": 1.0, "mae": 1.0, "r2": None}
    assert regression_metrics(np.array([2.0, 2.0]), np.array([1.0, 3.0]))["r2"] is None
