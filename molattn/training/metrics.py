"""How good predictions are, in the targets' own units, never standardised; null with a reason where undefined.

A metric reads the labels that are there, (n,), and scores: (n,) numbers, (n,) probabilities of the positive class, or
(n, classes) probabilities of every class. The table at the foot names them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.errors import UsageError

THRESHOLD = 0.5
"""The probability from which on an answer is a yes."""


class Undefined(Exception):
    """A metric has no value here; the text says why."""


@dataclass(frozen=True)
class Metric:
    """One way to say how good predictions are.

    Attributes:
        label: its name in a table.
        tasks: the tasks that it goes with.
        larger_is_better: whether it is.
        of: from labels and scores to its value; raises Undefined.
        has_unit: whether it is in the unit of the target.
    """

    label: str
    tasks: tuple[str, ...]
    larger_is_better: bool
    of: Callable[[np.ndarray, np.ndarray], float]
    has_unit: bool = False


def measure(true: np.ndarray, scores: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Metrics of one target over the molecules that have a label: {name: value}.

    One that is undefined is None, and "why" holds the reason: {"auroc": None, "why": {"auroc": "one class only"}}.

    Shapes: true (n,), NaN where the label is missing; scores (n,) or (n, classes).
    """
    known = np.isfinite(true)
    y, p = np.asarray(true, dtype=np.float64)[known], np.asarray(scores, dtype=np.float64)[known]
    values: dict[str, Any] = {}
    why: dict[str, str] = {}
    for name in names:
        try:
            if not len(y):
                raise Undefined("no labels")
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is said below
                value = float(METRICS[name].of(y, p))
            if not np.isfinite(value):
                raise Undefined("predictions that are not finite")
            values[name] = value
        except Undefined as reason:
            values[name], why[name] = None, str(reason)
    return {**values, "why": why} if why else values


def mean_over_targets(measured: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """The mean of each metric over the targets where it is defined, and over how many targets that is."""
    values = {name: [m[name] for m in measured.values() if m[name] is not None] for name in names}
    means: dict[str, Any] = {name: float(np.mean(v)) if v else None for name, v in values.items()}
    undefined = {name: "undefined for every target" for name, v in values.items() if not v}
    result = {**means, "targets": {name: len(v) for name, v in values.items()}}
    return {**result, "why": undefined} if undefined else result


def metrics_for(kind: str, own: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The metrics of a run: those asked for, or the task's `own`.

    Raises:
        UsageError: one that does not exist or does not go with targets of this kind.
    """
    fitting = [name for name, metric in METRICS.items() if kind in metric.tasks]
    for name in asked:
        if name not in METRICS:
            raise UsageError(f"there is no metric {name!r}: choose among {', '.join(METRICS)}")
        if name not in fitting:
            raise UsageError(f"the metric {name!r} does not go with {kind} targets: choose among {', '.join(fitting)}")
    return tuple(dict.fromkeys(asked)) or tuple(own)


def _rmse(y: np.ndarray, p: np.ndarray) -> float:
    """sqrt(mean (y - p)^2)"""
    return float(np.sqrt(np.mean((y - p) ** 2)))


def _mae(y: np.ndarray, p: np.ndarray) -> float:
    """mean |y - p|"""
    return float(np.mean(np.abs(y - p)))


def _r2(y: np.ndarray, p: np.ndarray) -> float:
    """1 - sum (y - p)^2 / sum (y - mean y)^2"""
    _vary(y, "labels")
    return float(1 - np.sum((y - p) ** 2) / np.sum((y - y.mean()) ** 2))


def _spearman(y: np.ndarray, p: np.ndarray) -> float:
    """Pearson's correlation of the ranks."""
    _vary(y, "labels")
    _vary(p, "predictions")
    from scipy.stats import spearmanr  # late, for what starts without it

    found: Any = spearmanr(y, p)
    return float(found.statistic)


def _sklearn() -> Any:
    """scikit-learn's metrics; a run over numbers does without them, and starts half a second sooner."""
    import sklearn.metrics

    return sklearn.metrics


def _auroc(y: np.ndarray, p: np.ndarray) -> float:
    """Area under the ROC curve; of several classes, the mean over those of one against the rest."""
    _two_classes(y)
    if p.ndim == 1:
        return float(_sklearn().roc_auc_score(y, p))
    return float(np.mean([_sklearn().roc_auc_score(y == c, p[:, int(c)]) for c in np.unique(y)]))


def _auprc(y: np.ndarray, p: np.ndarray) -> float:
    """Average precision, the area under the precision-recall curve without interpolation."""
    _two_classes(y)
    return float(_sklearn().average_precision_score(y, p))


def _mcc(y: np.ndarray, p: np.ndarray) -> float:
    """Matthews' correlation coefficient."""
    _two_classes(y)
    return float(_sklearn().matthews_corrcoef(y, _chosen(p)))


def _accuracy(y: np.ndarray, p: np.ndarray) -> float:
    """The share of answers that are right."""
    return float(_sklearn().accuracy_score(y, _chosen(p)))


def _f1(y: np.ndarray, p: np.ndarray) -> float:
    """2 TP / (2 TP + FP + FN); of several classes, the mean over those that occur."""
    chosen = _chosen(p)
    if p.ndim == 1:
        if not y.any() and not chosen.any():
            raise Undefined("no positive label, and none predicted")
        return float(_sklearn().f1_score(y, chosen, zero_division=0.0))  # pyright: ignore[reportArgumentType]
    occurring = np.union1d(y, chosen)
    return float(_sklearn().f1_score(y, chosen, average="macro", labels=occurring, zero_division=0.0))  # pyright: ignore[reportArgumentType]


def _chosen(p: np.ndarray) -> np.ndarray:
    """The class that probabilities speak for."""
    return (p >= THRESHOLD).astype(float) if p.ndim == 1 else p.argmax(1).astype(float)


def _two_classes(y: np.ndarray) -> None:
    if not (y != y[0]).any():
        raise Undefined("one class only")


def _vary(values: np.ndarray, what: str) -> None:
    if len(values) < 2:
        raise Undefined("fewer than two labels")
    if not (values != values[0]).any():
        raise Undefined(f"all {what} are equal")


_NUMBERS, _YES_NO, _CLASSES = ("regression",), ("binary",), ("binary", "multiclass")
METRICS: dict[str, Metric] = {
    "rmse": Metric("RMSE", _NUMBERS, False, _rmse, has_unit=True),
    "mae": Metric("MAE", _NUMBERS, False, _mae, has_unit=True),
    "r2": Metric("R2", _NUMBERS, True, _r2),
    "spearman": Metric("Spearman", _NUMBERS, True, _spearman),
    "auroc": Metric("AUROC", _CLASSES, True, _auroc),
    "auprc": Metric("AUPRC", _YES_NO, True, _auprc),
    "mcc": Metric("MCC", _CLASSES, True, _mcc),
    "accuracy": Metric("accuracy", _CLASSES, True, _accuracy),
    "f1": Metric("F1", _CLASSES, True, _f1),
}
"""The metrics by name."""
