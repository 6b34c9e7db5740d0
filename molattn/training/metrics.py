"""Metrics of predictions and of their uncertainties, in the units of the targets; None with a reason if undefined.

A metric is computed from the known labels, (n,), and scores: (n,) numbers, (n,) probabilities of the positive class,
or (n, classes) probabilities of every class. `METRICS` lists them by name.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.data.tables.bounds import has_bounds
from molattn.errors import UsageError
from molattn.models.calibration import Calibration, apply_calibration, prediction_intervals, prediction_sets
from molattn.models.predictions import Predictions, normal_quantile
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Regression, Task

VAL_LOSS = "val_loss"
"""The tracking metric that is not in `METRICS`: the loss of the validation molecules."""

THRESHOLD = 0.5
"""The positive class is predicted from this probability on."""


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


def metrics_by_target(
    task: Task,
    targets: Sequence[str],
    true: np.ndarray,
    answers: Predictions,
    names: Sequence[str],
    bounds: np.ndarray | None = None,
) -> dict[str, dict[str, Any]]:
    """The metrics `names` of every target, and how many labels it has; `true` is (n, T).

    The metrics leave out censored labels, of which only `bounds`, (n, T, 2), are known; "censored" is their number.
    """
    censored = None if bounds is None else has_bounds(bounds).sum(0).tolist()
    return {
        target: {
            **compute_metrics(true[:, t], task.scores(answers, t), names),
            "n": int(np.isfinite(true[:, t]).sum()),
            **({} if censored is None else {"censored": censored[t]}),
        }
        for t, target in enumerate(targets)
    }


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


def check_tracking_metric(kind: str, names: Sequence[str], requested: str) -> None:
    """Raise UsageError unless the tracking metric is `VAL_LOSS`, or one of the reported metrics `names`."""
    if requested not in (VAL_LOSS, *names):
        known = f"choose among {', '.join((VAL_LOSS, *names))}"
        if requested not in METRICS or kind not in METRICS[requested].tasks:
            raise UsageError(f"the tracking metric {requested!r} does not go with {kind} targets: {known}")
        raise UsageError(f"the tracking metric {requested!r} is not reported: add --metric {requested}, or {known}")


def why_undefined(name: str, kind: str, targets: np.ndarray) -> str:
    """Why a metric is undefined for every target, even for perfect predictions; empty if it is defined for one.

    Shapes: targets (n, T), NaN where the label is missing.
    """
    reasons = []
    for y in targets.T:
        perfect = np.eye(int(np.nanmax(y, initial=0)) + 1)[np.nan_to_num(y).astype(int)] if kind == "multiclass" else y
        measured = compute_metrics(y, perfect, (name,))
        if measured[name] is not None:
            return ""
        reasons.append(measured["why"][name])
    return ", ".join(dict.fromkeys(reasons))


def label_of(name: str) -> str:
    """The name of a tracking metric in a sentence: "loss", or the label of a metric."""
    return "loss" if name == VAL_LOSS else METRICS[name].label


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
    """Pearson's correlation of the ranks; equal values have the mean of their ranks.

    As `scipy.stats.spearmanr`, whose import takes longer than a small training.
    """
    _check_not_constant(y, "labels")
    _check_not_constant(p, "predictions")
    return float(np.corrcoef(_ranks(y), _ranks(p))[0, 1])


def _ranks(x: np.ndarray) -> np.ndarray:
    _, index, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[index]


def _sklearn() -> Any:
    """scikit-learn's metrics, imported here because that takes half a second and regression does not need them."""
    import sklearn.metrics

    return sklearn.metrics


def _auroc(y: np.ndarray, p: np.ndarray) -> float:
    """Area under the ROC curve; for several classes the macro average, one-vs-rest."""
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
    """2 TP / (2 TP + FP + FN); for several classes the macro average over those that occur."""
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


LEVEL = 0.9
LEVELS = tuple(np.linspace(0.01, 0.99, 99).round(2).tolist())


def uncertainty_metrics(
    true: np.ndarray,
    answers: Predictions,
    task: Task,
    targets: Sequence[str],
    calibration: Calibration | None,
    method: str,
    level: float = LEVEL,
    scaler: TargetScaler | None = None,
) -> dict[str, dict[str, Any]]:
    """Metrics of the uncertainties of every target: {target: {name: value}}; a value is None without labels.

    For targets with a transform, `true` and `answers` are transformed: there, errors are assumed to be normal. Only the
    width is in the unit of the target, converted by `scaler`.

    nll, ence, miscalibration_area: of standard deviations, see below; for classes nll and ece of probabilities.
    coverage, width: the fraction of intervals of level `level` that contain the true value, and their mean width in the
    unit of the target; for sets of classes coverage and size, the mean number of classes.

    Shapes: true (n, T), NaN where missing.
    """
    scaled = answers if calibration is None else apply_calibration(answers, task, calibration, method)
    found: dict[str, dict[str, Any]] = {}
    ends = None
    chosen, why = [], ""
    try:
        if not isinstance(task, Regression):
            chosen = prediction_sets(scaled, task, level, calibration, method)
        elif calibration is not None or answers.std is not None:
            ends = prediction_intervals(answers, task, level, calibration, method)
    except UsageError as error:
        why = str(error)
    for t, name in enumerate(targets):
        known = np.isfinite(true[:, t])
        y = true[known, t]
        values: dict[str, Any] = {}
        if isinstance(task, Regression):
            if scaled.std is not None:
                mu, std = scaled.values[known, t], scaled.std[known, t]
                values = {
                    "nll": normal_nll(y, mu, std),
                    "ence": ence(y, mu, std),
                    "miscalibration_area": miscalibration_area(y, mu, std),
                }
            if ends is not None:
                lower, upper = (end[known, t] for end in ends)
                low, high = (end[known, t] for end in (ends if scaler is None else scaler.bounds_in_units(*ends)))
                values |= {
                    "coverage": _mean((lower <= y) & (y <= upper)),
                    "width": _mean(high - low),
                }
        else:
            p, classes = task.probabilities(scaled, t)[known], y.astype(int)
            values = {"nll": class_nll(classes, p), "ece": ece(classes, p)}
            if chosen:
                within = chosen[t][known]
                values |= {"coverage": _mean(within[np.arange(len(classes)), classes]), "size": _mean(within.sum(1))}
        found[name] = {k: v if math.isfinite(v) else None for k, v in values.items()}
        if why:
            found[name]["why"] = {"coverage": why}
    return found


def normal_nll(y: np.ndarray, mu: np.ndarray, std: np.ndarray) -> float:
    """mean of log(2 pi std^2) / 2 + (y - mu)^2 / (2 std^2)"""
    variance = np.maximum(std, np.finfo(float).tiny ** 0.5) ** 2
    with np.errstate(over="ignore"):
        return float(_mean(0.5 * (np.log(2 * np.pi * variance) + (y - mu) ** 2 / variance)))


def ence(y: np.ndarray, mu: np.ndarray, std: np.ndarray, bins: int = 10) -> float:
    """Expected normalised calibration error: mean over bins b of |rmv_b - rmse_b| / rmv_b.

    Bins hold equal numbers of molecules, ordered by std: rmv_b = sqrt(mean std^2), rmse_b = sqrt(mean (y - mu)^2).
    There are at most `bins` of them, fewer if a bin would hold less than five molecules.

    Source: Levi et al., Sensors 2022, 22, 5540 (https://doi.org/10.3390/s22155540).
    """
    pairs = binned_errors(y, mu, std, bins)
    errors = [abs(rmv - rmse) / rmv if rmv > 0 else math.nan for rmv, rmse in pairs]
    return float(np.mean(errors)) if errors else math.nan


def binned_errors(y: np.ndarray, mu: np.ndarray, std: np.ndarray, bins: int = 10) -> list[tuple[float, float]]:
    """rmv_b and rmse_b of every bin of `ence`."""
    if not len(y):
        return []
    order = np.argsort(std, kind="stable")
    parts = np.array_split(order, max(1, min(bins, len(y) // 5)))
    return [(float(np.sqrt(np.mean(std[b] ** 2))), float(np.sqrt(np.mean((y - mu)[b] ** 2)))) for b in parts]


def miscalibration_area(y: np.ndarray, mu: np.ndarray, std: np.ndarray) -> float:
    """The area between the diagonal and the curve of observed over expected coverage, from 0 to 1/2.

    observed(p) = the fraction of molecules with |y - mu| <= std Phi^-1((1 + p) / 2); by the trapezoidal rule over
    p = 0, 0.01, ... 1

    Source: Tran et al., Mach. Learn.: Sci. Technol. 2020, 1, 025006 (https://doi.org/10.1088/2632-2153/ab7e1a).
    """
    if not len(y):
        return math.nan
    expected, observed = np.array([0.0, *LEVELS, 1.0]), np.array([0.0, *observed_coverage(y, mu, std), 1.0])
    difference = np.abs(observed - expected)
    # The trapezoidal rule is written out, because numpy's function has another name before 2.0.
    return float((np.diff(expected) * (difference[1:] + difference[:-1]) / 2).sum())


def observed_coverage(y: np.ndarray, mu: np.ndarray, std: np.ndarray) -> list[float]:
    """The fraction of molecules within the normal interval of each of `LEVELS`."""
    error = np.abs(y - mu)
    return [float(np.mean(error <= std * normal_quantile((1 + p) / 2))) for p in LEVELS]


def class_nll(y: np.ndarray, p: np.ndarray) -> float:
    """mean of -log p_y, with p at least 1e-15; y are class indices, (n,), p (n, classes)."""
    return float(_mean(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-15))))


def ece(y: np.ndarray, p: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error: sum over bins b of n_b / n |accuracy_b - mean confidence_b|.

    Confidence is the probability of the most probable class; bins have equal width.

    Source: Guo et al. (2017), ICML, 1321.
    """
    if not len(y):
        return math.nan
    confidence, correct = p.max(1), p.argmax(1) == y
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(correct[bin_of == b].sum() - confidence[bin_of == b].sum()) for b in range(bins)]
    return float(sum(gaps) / len(y))


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else math.nan
