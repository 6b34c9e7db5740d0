"""Metrics of predicted standard deviations, intervals and probabilities."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from molattn.errors import UsageError
from molattn.models.artifact import Artifact
from molattn.models.calibration import Calibration, apply_calibration, prediction_intervals, prediction_sets
from molattn.models.magnitude import power_of_two
from molattn.models.predictions import NONE, Predictions, normal_quantile
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Regression

LEVEL = 0.9
LEVELS = tuple(np.linspace(0.01, 0.99, 99).round(2).tolist())


def evaluate_uncertainty(artifact: Artifact, splits: Mapping[str, tuple[np.ndarray, Predictions]]) -> dict[str, Any]:
    """The "uncertainty" entry of `metrics.json`: `uncertainty_metrics` by split; empty for a model without them.

    Args:
        artifact: the model.
        splits: for each split its targets, (n, T), NaN where missing, and their predictions before calibration.
    """
    if artifact.uncertainty_method == NONE and artifact.calibration is None:
        return {}
    method = artifact.calibration_method
    result: dict[str, Any] = {"method": artifact.uncertainty_method, "calibration": method, "level": LEVEL}
    for split, (targets, uncalibrated) in splits.items():
        true, scaler = artifact.scaler.transform(targets), artifact.scaler
        names, calibration = artifact.targets, artifact.calibration
        result[split] = uncertainty_metrics(
            true, uncalibrated, artifact.task, names, calibration, method, scaler=scaler
        )
    return result


def uncertainty_metrics(
    true: np.ndarray,
    predictions: Predictions,
    task: Task,
    targets: Sequence[str],
    calibration: Calibration | None,
    method: str,
    level: float = LEVEL,
    scaler: TargetScaler | None = None,
) -> dict[str, dict[str, Any]]:
    """Metrics of the uncertainties of every target: {target: {name: value}}; a value is None without labels.

    For targets with a transform, `true` and `predictions` are transformed: there, errors are assumed to be normal. Only
    the width is in the unit of the target, converted by `scaler`.

    nll, ence, miscalibration_area: of standard deviations, see below; for classes nll and ece of probabilities.
    coverage, width: the fraction of intervals of level `level` that contain the true value, and their mean width in the
    unit of the target; for sets of classes coverage and size, the mean number of classes.

    Shapes: true (n, T), NaN where missing.
    """
    scaled = predictions if calibration is None else apply_calibration(predictions, task, calibration, method)
    found: dict[str, dict[str, Any]] = {}
    ends = None
    chosen, why = [], ""
    try:
        if not isinstance(task, Regression):
            chosen = prediction_sets(scaled, task, level, calibration, method)
        elif calibration is not None or predictions.std is not None:
            ends = prediction_intervals(predictions, task, level, calibration, method)
    except UsageError as error:
        why = str(error)
    for t, name in enumerate(targets):
        labelled = np.isfinite(true[:, t])
        y = true[labelled, t]
        values: dict[str, Any] = {}
        if isinstance(task, Regression):
            if scaled.std is not None:
                mu, std = scaled.values[labelled, t], scaled.std[labelled, t]
                values = {
                    "nll": normal_nll(y, mu, std),
                    "ence": ence(y, mu, std),
                    "miscalibration_area": miscalibration_area(y, mu, std),
                }
            if ends is not None:
                lower, upper = (end[labelled, t] for end in ends)
                low, high = (
                    end[labelled, t] for end in (ends if scaler is None else scaler.inverse_transform_bounds(*ends))
                )
                values |= {
                    "coverage": _mean((lower <= y) & (y <= upper)),
                    "width": _mean(high - low),
                }
        else:
            p, classes = task.probabilities(scaled, t)[labelled], y.astype(int)
            values = {"nll": class_nll(classes, p), "ece": ece(classes, p)}
            if chosen:
                within = chosen[t][labelled]
                values |= {"coverage": _mean(within[np.arange(len(classes)), classes]), "size": _mean(within.sum(1))}
        found[name] = {k: v if math.isfinite(v) else None for k, v in values.items()}
        if why:
            found[name]["why"] = {"coverage": why}
    return found


def normal_nll(y: np.ndarray, mu: np.ndarray, std: np.ndarray) -> float:
    """mean of log(2 pi std^2) / 2 + (y - mu)^2 / (2 std^2)"""
    std = np.maximum(std, np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return float(_mean(0.5 * (np.log(2 * np.pi) + 2 * np.log(std) + ((y - mu) / std) ** 2)))


def ence(y: np.ndarray, mu: np.ndarray, std: np.ndarray, bins: int = 10) -> float:
    """Expected normalized calibration error: mean over bins b of |rmv_b - rmse_b| / rmv_b.

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
    return [(_root_mean_square(std[b]), _root_mean_square((y - mu)[b])) for b in parts]


def _root_mean_square(x: np.ndarray) -> float:
    scale = power_of_two(x)
    return scale * float(np.sqrt(np.mean((x / scale) ** 2)))


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
