"""Bootstrap intervals of metrics: every resample has the metric of the molecules drawn, and intervals are scipy's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap

from molattn.models.predictions import Predictions, empty_distribution
from molattn.models.tasks import Regression
from molattn.training.metrics import (
    METRICS,
    Metric,
    UndefinedMetric,
    compute_metrics,
    intervals_by_target,
    metric_intervals,
)


def _case(name: str, n: int, classes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores with ties, such that some resamples of few molecules are undefined."""
    if name in ("rmse", "mae", "r2", "spearman"):
        y = rng.integers(-3, 4, n).astype(float)
        return y, (y + rng.normal(size=n)).round(0)
    y = rng.integers(0, classes, n).astype(float)
    if classes == 2:
        return y, (0.3 * y + 0.7 * rng.random(n)).round(1)
    p = rng.random((n, classes)).round(1) + 0.01
    p[np.arange(n), y.astype(int)] += 0.5
    return y, p / p.sum(1, keepdims=True)


@pytest.mark.parametrize("n", [2, 5, 40])
@pytest.mark.parametrize(
    ("name", "classes"),
    [(name, 2) for name in METRICS] + [(name, 3) for name in ("auroc", "mcc", "accuracy", "f1")],
)
def test_every_resample_has_the_metric_of_the_rows_that_were_drawn(name: str, classes: int, n: int) -> None:
    rng = np.random.default_rng(n)
    y, p = _case(name, n, classes, rng)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=60).astype(float)
    with np.errstate(all="ignore"):
        together = METRICS[name].resampled(y, p, counts)
        apart = replace(METRICS[name], weighted=None).resampled(y, p, counts)
    assert np.isfinite(apart).any() or n == 2
    np.testing.assert_allclose(together, apart, rtol=1e-9, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("name", ["rmse", "mae", "r2", "spearman", "auroc", "accuracy"])
def test_the_interval_is_the_percentile_interval_of_scipy(name: str) -> None:
    rng = np.random.default_rng(3)
    y, p = _case(name, 80, 2, rng)

    def statistic(y: np.ndarray, p: np.ndarray) -> float:
        return METRICS[name].function(y, p)

    theirs = bootstrap(
        (y, p), statistic, paired=True, vectorized=False, n_resamples=1000, method="percentile", random_state=0
    ).confidence_interval
    lower, upper = metric_intervals(y, p, (name,))[name]
    width = theirs.high - theirs.low
    assert (lower, upper) == pytest.approx(tuple(theirs), abs=0.12 * width)
    assert lower < METRICS[name].function(y, p) < upper


def test_the_interval_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(0)
    covered = []
    for seed in range(200):
        error = rng.normal(size=80)
        lower, upper = metric_intervals(error, np.zeros(80), ("rmse",), seed=seed, resamples=300)["rmse"]
        covered.append(lower <= 1.0 <= upper)
    assert 0.87 <= np.mean(covered) <= 0.98


def test_rows_of_one_molecule_are_drawn_together() -> None:
    rng = np.random.default_rng(0)
    y, p = _case("rmse", 30, 2, rng)
    once = metric_intervals(y, p, ("rmse", "spearman"))
    ids = np.repeat(np.arange(30), 4)
    # Four copies of a molecule have no more information than one; taken as independent they would halve the interval.
    assert metric_intervals(y[ids], p[ids], ("rmse", "spearman"), ids.tolist()) == {
        name: pytest.approx(once[name]) for name in once
    }
    apart = metric_intervals(y[ids], p[ids], ("rmse",))["rmse"]
    assert np.ptp(apart) < 0.7 * np.ptp(once["rmse"])


def test_the_same_seed_gives_the_same_interval_however_much_memory_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    y, p = _case("rmse", 50, 2, np.random.default_rng(0))
    first = metric_intervals(y, p, ("rmse", "spearman"))
    assert first == metric_intervals(y, p, ("rmse", "spearman"))
    assert first != metric_intervals(y, p, ("rmse", "spearman"), seed=1)
    monkeypatch.setattr("molattn.training.metrics.MAX_NUMBERS", 1000)
    assert metric_intervals(y, p, ("rmse", "spearman")) == {name: pytest.approx(first[name]) for name in first}


@pytest.mark.parametrize(
    ("y", "p", "name", "why"),
    [
        ([np.nan, np.nan], [0.0, 1.0], "rmse", "no labels"),
        ([1.0, 1.0, 1.0], [0.1, 0.2, 0.3], "auroc", "one class only"),
        ([1.0], [0.5], "rmse", "labels of one molecule only"),
        ([0.0, 1.0, np.nan], [np.nan, 1.0, 1.0], "rmse", "predictions that are not finite"),
    ],
)
def test_an_undefined_interval_is_null_with_its_reason(y: Any, p: Any, name: str, why: str) -> None:
    found = metric_intervals(np.array(y), np.array(p), (name,))
    assert found[name] is None
    assert found["why"] == {name: why}
    if why != "labels of one molecule only":
        assert compute_metrics(np.array(y), np.array(p), (name,))["why"][name] == why


def test_a_metric_that_most_resamples_do_not_define_has_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    def rarely(y: np.ndarray, _: np.ndarray) -> float:
        if len(np.unique(y)) < len(y):
            raise UndefinedMetric("a label twice")
        return 1.0

    monkeypatch.setitem(METRICS, "rarely", Metric("rarely", ("regression",), True, rarely))
    found = metric_intervals(np.arange(9.0), np.arange(9.0), ("rarely", "rmse"))
    assert found == {"rarely": None, "rmse": [0.0, 0.0], "why": {"rarely": "undefined in most resamples"}}


def test_each_target_has_the_intervals_of_its_labels() -> None:
    rng = np.random.default_rng(0)
    true, values = rng.normal(size=(2, 40, 2))
    true[::2, 1] = np.nan
    molecules = [f"m{i // 2}" for i in range(40)]
    predictions = Predictions(values, empty_distribution(len(values)))
    found = intervals_by_target(Regression(), ("a", "b"), true, predictions, ("rmse", "r2"), molecules)
    for t, name in enumerate("ab"):
        assert found[name] == metric_intervals(true[:, t], values[:, t], ("rmse", "r2"), molecules)
    assert found["a"]["rmse"] != found["b"]["rmse"]
