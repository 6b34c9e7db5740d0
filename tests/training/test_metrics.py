"""Metrics against plain numpy, and None with a reason where they are undefined."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    matthews_corrcoef,
    roc_auc_score,
)

from molattn.errors import UsageError
from molattn.models.tasks import TASKS
from molattn.training.metrics import METRICS, compute_metrics, mean_over_targets, resolve_metrics

NUMBERS = ("rmse", "mae", "r2")
CLASSES = ("auroc", "auprc", "mcc", "accuracy", "f1")


def test_regression_metrics_match_their_definitions() -> None:
    rng = np.random.default_rng(0)
    y, p = rng.normal(-3, 2, 50), rng.normal(-3, 2, 50)
    m = compute_metrics(y, p, (*NUMBERS, "spearman"))
    assert m["rmse"] == pytest.approx(np.sqrt(np.mean((y - p) ** 2)), rel=1e-12)
    assert m["mae"] == pytest.approx(np.mean(np.abs(y - p)), rel=1e-12)
    assert m["r2"] == pytest.approx(1 - np.sum((y - p) ** 2) / np.sum((y - y.mean()) ** 2), rel=1e-9)
    assert m["spearman"] == pytest.approx(spearmanr(y, p)[0], abs=1e-6)
    assert "why" not in m


def test_classification_metrics_match_their_definitions() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(60) < 0.3).astype(float)
    p = np.clip(0.3 * y + rng.random(60), 0, 1).round(1)  # ties among them
    m = compute_metrics(y, p, CLASSES)
    ones, zeros = p[y == 1, None], p[None, y == 0]
    assert m["auroc"] == pytest.approx(np.mean((ones > zeros) + 0.5 * (ones == zeros)))
    yes = p >= 0.5
    tp, fp, fn, tn = (np.sum(yes & (y == 1)), np.sum(yes & (y == 0)), np.sum(~yes & (y == 1)), np.sum(~yes & (y == 0)))
    assert m["accuracy"] == pytest.approx((tp + tn) / 60)
    assert m["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
    whole = np.sqrt(float(tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert m["mcc"] == pytest.approx((tp * tn - fp * fn) / whole)
    thresholds = np.unique(p)[::-1]
    recall = np.array([0.0, *(np.mean(p[y == 1] >= t) for t in thresholds)])
    precision = np.array([np.mean(y[p >= t]) for t in thresholds])
    assert m["auprc"] == pytest.approx(np.sum(np.diff(recall) * precision))


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("n", [3, 8, 60])
def test_classification_metrics_are_those_of_scikit_learn(n: int, classes: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, classes, n)
        p = rng.random((n, classes)).round(1) + 0.01  # ties among them
        p /= p.sum(1, keepdims=True)
        scores = p[:, 1].round(2) if classes == 2 else p
        predicted = (scores >= 0.5).astype(int) if classes == 2 else p.argmax(1)
        theirs = {"accuracy": accuracy_score(y, predicted)}
        if classes > 2:
            theirs["f1"] = f1_score(y, predicted, average="macro", labels=np.union1d(y, predicted), zero_division=0.0)
        elif y.any() or predicted.any():
            theirs["f1"] = f1_score(y, predicted, zero_division=0.0)
        if len(np.unique(y)) > 1:
            theirs["mcc"] = matthews_corrcoef(y, predicted)
            theirs["auroc"] = np.mean([roc_auc_score(y == c, p[:, c]) for c in np.unique(y)])
            if classes == 2:
                theirs["auroc"] = roc_auc_score(y, scores)
                theirs["auprc"] = average_precision_score(y, scores)
        found = compute_metrics(y.astype(float), scores, [name for name in CLASSES if classes == 2 or name != "auprc"])
        found.pop("why", None)
        assert found == pytest.approx({**dict.fromkeys(found), **theirs})


def test_the_most_probable_of_several_classes_is_predicted() -> None:
    p = np.array([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.0, 0.1, 0.9]])
    m = compute_metrics(np.array([0.0, 1.0, 2.0, 2.0]), p, ("accuracy", "mcc", "f1", "auroc"))
    assert m["accuracy"] == 0.75
    assert m["f1"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    assert 0 < m["mcc"] < 1
    # Two classes out of three are enough for one against the rest.
    two = compute_metrics(np.array([0.0, 1.0, 1.0, 1.0]), p, ("auroc",))
    assert two["auroc"] == pytest.approx((1.0 + 1.0) / 2, abs=0.4)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=30))
def test_spearman_is_that_of_scipy_with_ties_too(pairs: list[tuple[int, int]]) -> None:
    y, p = np.array(pairs, dtype=float).T
    found = compute_metrics(y, p, ("spearman",))["spearman"]
    if len(set(y)) == 1 or len(set(p)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(spearmanr(y, p)[0], abs=1e-9)


def test_missing_labels_do_not_count() -> None:
    y, p = np.array([1.0, np.nan, 3.0]), np.array([1.5, 100.0, 3.0])
    assert compute_metrics(y, p, NUMBERS) == compute_metrics(y[[0, 2]], p[[0, 2]], NUMBERS)


def test_undefined_metrics_are_none_with_a_reason() -> None:
    nothing = compute_metrics(np.array([np.nan]), np.array([1.0]), NUMBERS)
    assert nothing == {"rmse": None, "mae": None, "r2": None, "why": dict.fromkeys(NUMBERS, "no labels")}
    one = compute_metrics(np.array([2.0]), np.array([1.0]), NUMBERS)
    assert one == {"rmse": 1.0, "mae": 1.0, "r2": None, "why": {"r2": "fewer than two labels"}}
    equal = compute_metrics(np.array([2.0, 2.0]), np.array([1.0, 3.0]), ("r2", "spearman"))
    assert equal["why"] == {"r2": "all labels are equal", "spearman": "all labels are equal"}
    flat = compute_metrics(np.array([1.0, 2.0]), np.array([3.0, 3.0]), ("spearman",))
    assert flat["why"] == {"spearman": "all predictions are equal"}
    classes = compute_metrics(np.zeros(5), np.full(5, 0.2), CLASSES)
    assert classes["accuracy"] == 1.0
    assert classes["auroc"] is classes["auprc"] is classes["mcc"] is classes["f1"] is None
    assert classes["why"]["auroc"] == "one class only"
    assert classes["why"]["f1"] == "no positive label, and none predicted"


def test_the_mean_is_over_the_targets_where_a_metric_is_defined() -> None:
    measured = {"a": {"auroc": 0.5, "f1": None}, "b": {"auroc": None, "f1": None}, "c": {"auroc": 1.0, "f1": None}}
    mean = mean_over_targets(measured, ("auroc", "f1"))
    assert mean["auroc"] == 0.75
    assert mean["f1"] is None
    assert mean["targets"] == {"auroc": 2, "f1": 0}
    assert mean["why"] == {"f1": "undefined for every target"}


def test_metrics_of_many_classes_take_less_memory_than_the_predictions() -> None:
    rng, n, classes = np.random.default_rng(0), 2000, 100
    y, p = rng.integers(0, classes, n).astype(float), rng.random((n, classes))
    counts = np.ones((1, n))
    functions = [METRICS[name].weighted for name in ("accuracy", "mcc", "f1")]
    tracemalloc.start()
    for function in functions:
        assert function is not None
        function(y, p, counts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < p.nbytes


@pytest.mark.parametrize("kind", TASKS)
def test_the_default_metrics_of_a_task_apply_to_it(kind: str) -> None:
    own = TASKS[kind].metrics
    assert resolve_metrics(kind, own, ()) == own == resolve_metrics(kind, own, own)


def test_metrics_that_do_not_exist_or_do_not_apply_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown metric 'kappa': choose one of rmse"):
        resolve_metrics("regression", (), ("kappa",))
    with pytest.raises(UsageError, match="'auroc' does not apply to regression targets: choose among rmse, mae, r2"):
        resolve_metrics("regression", (), ("auroc",))
    assert all(set(m.task_kinds) <= set(TASKS) for m in METRICS.values())


def test_predictions_that_are_not_finite_give_no_value() -> None:
    found = compute_metrics(np.array([1.0, 2.0]), np.array([1.0, np.inf]), ("rmse", "mae"))
    assert found == {
        "rmse": None,
        "mae": None,
        "why": dict.fromkeys(("rmse", "mae"), "predictions that are not finite"),
    }


def test_one_label_has_an_error_and_no_correlation() -> None:
    found = compute_metrics(np.array([1.0]), np.array([3.0]), ("rmse", "r2", "spearman"))
    assert found["rmse"] == 2.0
    assert found["why"] == dict.fromkeys(("r2", "spearman"), "fewer than two labels")
    alone = compute_metrics(np.array([1.0]), np.array([0.9]), ("auroc", "accuracy"))
    assert (alone["auroc"], alone["why"], alone["accuracy"]) == (None, {"auroc": "one class only"}, 1.0)


@pytest.mark.parametrize(
    ("true", "p", "f1"),
    [([1, 0], [0.1, 0.2], 0.0), ([0, 0], [0.9, 0.2], 0.0), ([0, 0], [0.1, 0.2], None), ([1, 0], [0.5, 0.4], 1.0)],
)
def test_f1_is_undefined_only_where_nothing_is_positive(true: list[float], p: list[float], f1: float | None) -> None:
    found = compute_metrics(np.array(true, float), np.array(p), ("f1",))
    assert found["f1"] == f1
    assert found.get("why", {}) == ({"f1": "no positive label, and none predicted"} if f1 is None else {})


def test_f1_of_a_class_that_is_never_predicted_is_zero() -> None:
    p = np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.2, 0.7, 0.1]])
    # Class 0: 2 / 3; class 1 is predicted and does not occur; class 2 occurs and is never predicted.
    assert compute_metrics(np.array([0.0, 2.0, 0.0]), p, ("f1",))["f1"] == pytest.approx(0.5 / 3)
