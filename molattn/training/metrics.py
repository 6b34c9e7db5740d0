"""Metrics of predictions, in the targets' own units, never standardised; None with a reason where undefined.

A metric is computed from the known labels, (n,), and scores: (n,) numbers, (n,) probabilities of the positive class,
or (n, classes) probabilities of every class. `METRICS` lists them by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.errors import UsageError

THRESHOLD = 0.5
"""The least probability at which the positive class is predicted."""


class UndefinedMetric(Exception):
    """Raised where a metric is undefined; the message is the reason."""


@dataclass(frozen=True)
class Metric:
    """A metric of predictions.

    Attributes:
        label: its name in a table.
        tasks: the kinds of tasks that it applies to.
        larger_is_better: whether larger values are better.
        function: computes its value from labels and scores; raises UndefinedMetric.
        has_unit: whether it is in the unit of the target.
    """

    label: str
    tasks: tuple[str, ...]
    larger_is_better: bool
    function: Callable[[np.ndarray, np.ndarray], float]
    has_unit: bool = False


def compute_metrics(true: np.ndarray, scores: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Metrics of one target over the molecules that have a label: {name: value}.

    An undefined metric is None, and "why" has the reason: {"auroc": None, "why": {"auroc": "one class only"}}.

    Shapes: true (n,), NaN where the label is missing; scores (n,) or (n, classes).
    """
    known = np.isfinite(true)
    y, p = np.asarray(true, dtype=np.float64)[known], np.asarray(scores, dtype=np.float64)[known]
    values: dict[str, Any] = {}
    why: dict[str, str] = {}
    for name in names:
        try:
            if not len(y):
                raise UndefinedMetric("no labels")
            with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are reported below
                value = float(METRICS[name].function(y, p))
            if not np.isfinite(value):
                raise UndefinedMetric("predictions that are not finite")
            values[name] = value
        except UndefinedMetric as reason:
            values[name], why[name] = None, str(reason)
    return {**values, "why": why} if why else values


def mean_over_targets(measured: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """The mean of each metric over the targets where it is defined, and the number of these targets."""
    values = {name: [m[name] for m in measured.values() if m[name] is not None] for name in names}
    means: dict[str, Any] = {name: float(np.mean(v)) if v else None for name, v in values.items()}
    undefined = {name: "undefined for every target" for name, v in values.items() if not v}
    result = {**means, "targets": {name: len(v) for name, v in values.items()}}
    return {**result, "why": undefined} if undefined else result


def resolve_metrics(kind: str, default: Sequence[str], requested: Sequence[str]) -> tuple[str, ...]:
    """The metrics of a run: the requested ones, or the task's defaults.

    Raises:
        UsageError: one that does not exist or does not apply to targets of this kind.
    """
    fitting = [name for name, metric in METRICS.items() if kind in metric.tasks]
    for name in requested:
        if name not in METRICS:
            raise UsageError(f"there is no metric {name!r}: choose among {', '.join(METRICS)}")
        if name not in fitting:
            raise UsageError(f"the metric {name!r} does not go with {kind} targets: choose among {', '.join(fitting)}")
    return tuple(dict.fromkeys(requested)) or tuple(default)


def _rmse(y: np.ndarray, p: np.ndarray) -> float:
    """sqrt(mean (y - p)^2)"""
    return float(np.sqrt(np.mean((y - p) ** 2)))


def _mae(y: np.ndarray, p: np.ndarray) -> float:
    """mean |y - p|"""
    return float(np.mean(np.abs(y - p)))


def _r2(y: np.ndarray, p: np.ndarray) -> float:
    """1 - sum (y - p)^2 / sum (y - mean y)^2"""
    _check_not_constant(y, "labels")
    return float(1 - np.sum((y - p) ** 2) / np.sum((y - y.mean()) ** 2))


def _spearman(y: np.ndarray, p: np.ndarray) -> float:
    """Pearson's correlation of the ranks."""
    _check_not_constant(y, "labels")
    _check_not_constant(p, "predictions")
    from scipy.stats import spearmanr  # here, because its import is slow

    found: Any = spearmanr(y, p)
    return float(found.statistic)


def _sklearn() -> Any:
    """scikit-learn's metrics, imported here because that takes half a second and regression does not need them."""
    import sklearn.metrics

    return sklearn.metrics


def _auroc(y: np.ndarray, p: np.ndarray) -> float:
    """Area under the ROC curve; for several classes the unweighted mean over one class against the rest."""
    _check_two_classes(y)
    if p.ndim == 1:
        return float(_sklearn().roc_auc_score(y, p))
    return float(np.mean([_sklearn().roc_auc_score(y == c, p[:, int(c)]) for c in np.unique(y)]))


def _auprc(y: np.ndarray, p: np.ndarray) -> float:
    """Average precision: the area under the precision-recall curve, without interpolation."""
    _check_two_classes(y)
    return float(_sklearn().average_precision_score(y, p))


def _mcc(y: np.ndarray, p: np.ndarray) -> float:
    """Matthews' correlation coefficient."""
    _check_two_classes(y)
    return float(_sklearn().matthews_corrcoef(y, _predicted_class(p)))


def _accuracy(y: np.ndarray, p: np.ndarray) -> float:
    """The fraction of predictions that are correct."""
    return float(_sklearn().accuracy_score(y, _predicted_class(p)))


def _f1(y: np.ndarray, p: np.ndarray) -> float:
    """2 TP / (2 TP + FP + FN); for several classes the mean over those that occur."""
    predicted = _predicted_class(p)
    if p.ndim == 1:
        if not y.any() and not predicted.any():
            raise UndefinedMetric("no positive label, and none predicted")
        return float(_sklearn().f1_score(y, predicted, zero_division=0.0))  # pyright: ignore[reportArgumentType]
    occurring = np.union1d(y, predicted)
    return float(_sklearn().f1_score(y, predicted, average="macro", labels=occurring, zero_division=0.0))  # pyright: ignore[reportArgumentType]


def _predicted_class(p: np.ndarray) -> np.ndarray:
    """The predicted class: by `THRESHOLD`, or the most probable of several."""
    return (p >= THRESHOLD).astype(float) if p.ndim == 1 else p.argmax(1).astype(float)


def _check_two_classes(y: np.ndarray) -> None:
    if not (y != y[0]).any():
        raise UndefinedMetric("one class only")


def _check_not_constant(values: np.ndarray, what: str) -> None:
    if len(values) < 2:
        raise UndefinedMetric("fewer than two labels")
    if not (values != values[0]).any():
        raise UndefinedMetric(f"all {what} are equal")


_REGRESSION, _BINARY, _CLASSIFICATION = ("regression",), ("binary",), ("binary", "multiclass")
METRICS: dict[str, Metric] = {
    "rmse": Metric("RMSE", _REGRESSION, False, _rmse, has_unit=True),
    "mae": Metric("MAE", _REGRESSION, False, _mae, has_unit=True),
    "r2": Metric("R2", _REGRESSION, True, _r2),
    "spearman": Metric("Spearman", _REGRESSION, True, _spearman),
    "auroc": Metric("AUROC", _CLASSIFICATION, True, _auroc),
    "auprc": Metric("AUPRC", _BINARY, True, _auprc),
    "mcc": Metric("MCC", _CLASSIFICATION, True, _mcc),
    "accuracy": Metric("accuracy", _CLASSIFICATION, True, _accuracy),
    "f1": Metric("F1", _CLASSIFICATION, True, _f1),
}
"""The metrics by name."""
