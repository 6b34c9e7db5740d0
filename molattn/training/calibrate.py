"""Calibration: the scores of molecules that were held out from the training."""

import numpy as np

from molattn.errors import InputError, UsageError, short_repr
from molattn.models.calibration import Calibration, Scores, cumulative_probabilities, resolve_calibration_method
from molattn.models.predictions import Predictions
from molattn.models.task import Task
from molattn.models.tasks import Regression

MIN_STD = 1e-12
"""The smallest standard deviation that errors are divided by, as a share of the largest error."""
MAX_SCORES = 10_000
"""The maximum number of calibration molecules of a target whose scores are stored: more do not improve intervals."""


def calibrate(
    predictions: Predictions,
    true: np.ndarray,
    task: Task,
    uncertainty_method: str,
    method: str,
    targets: tuple[str, ...],
    val_predictions: Predictions,
) -> Calibration:
    """Fit the calibration of a model to molecules that were held out from its training.

    For each target the molecules with a label are used; if there are more than 10,000, a random sample of that size.

    Args:
        predictions: the predictions for the n calibration molecules.
        true: (n, T) their targets, NaN where missing.
        task: of the targets.
        uncertainty_method: the method of the standard deviations in `predictions`.
        method: one of `molattn.models.calibration.CALIBRATION_METHODS`, or empty.
        targets: T names.
        val_predictions: the predictions for the validation molecules, for the median of their standard deviations or
            distances.

    Raises:
        UsageError: a method that does not apply to the task, or atom-level targets.
        InputError: a target without a label.
    """
    check_calibration(task, method)
    has_distances = isinstance(task, Regression) and _has_distances(predictions, val_predictions)
    scores = []
    for t, name in enumerate(targets):
        labelled = np.flatnonzero(np.isfinite(true[:, t]))
        if len(labelled) < 2:
            raise InputError(
                f"{len(labelled)} calibration molecules have a label of {short_repr(name)}: give more rows or a larger "
                "--calibration-size"
            )
        if len(labelled) > MAX_SCORES:
            labelled = np.sort(np.random.default_rng(0).choice(labelled, MAX_SCORES, replace=False))
        part = predictions[labelled]
        if isinstance(task, Regression):
            scores.append(_regression_scores(part, true[labelled, t], task, t, val_predictions, has_distances))
        else:
            scores.append(_class_scores(task.probabilities(part, t), true[labelled, t].astype(int)))
    return Calibration(resolve_calibration_method(method, task), uncertainty_method, tuple(scores), has_distances)


def check_calibration(task: Task, method: str) -> None:
    """Raise UsageError if a task cannot be calibrated, or not with this method."""
    if task.atom_level:
        raise UsageError(
            "calibration requires molecules that are independent of each other, and the atoms of a molecule are not: "
            "leave --calibration-size out"
        )
    resolve_calibration_method(method, task)


def _regression_scores(
    predictions: Predictions,
    y: np.ndarray,
    task: Regression,
    t: int,
    val_predictions: Predictions,
    has_distances: bool,
) -> Scores:
    error = y - predictions.values[:, t]
    std, beta = np.ones(len(y)), 0.0
    if predictions.std is not None and val_predictions.std is not None:
        # The standard deviation of identical predictions is zero.
        smallest = MIN_STD * np.abs(error).max() or 1.0
        std, beta = np.maximum(predictions.std[:, t], smallest), float(np.median(val_predictions.std[:, t]))
    difficulty = std
    if has_distances:
        assert predictions.distance is not None and val_predictions.distance is not None
        difficulty, beta = predictions.distance, float(np.median(val_predictions.distance))
    normalized = np.sort(np.abs(error) / (difficulty + beta))
    scores = {"z": np.sort(error / std), "normalized_residuals": normalized, "beta": np.array([beta])}
    if task.loss_function.has_quantiles:
        lower, upper = (q[:, t] for q in np.split(predictions.distribution, 2, 1))
        scores["quantile_residuals"] = np.sort(np.maximum(lower - y, y - upper))
    return scores


def _has_distances(*predictions: Predictions) -> bool:
    """Whether distances to the training molecules stand for standard deviations, which the model does not have.

    They do not if most validation molecules have embeddings of training molecules: a half width could then be zero.
    """
    distances = [p.distance for p in predictions if p.std is None and p.distance is not None]
    return len(distances) == len(predictions) and float(np.median(distances[-1])) > 0


def _class_scores(p: np.ndarray, y: np.ndarray) -> Scores:
    rows = np.arange(len(y))
    cumulative = np.sort(cumulative_probabilities(p)[rows, y])
    scores = {"one_minus_p": np.sort(1 - p[rows, y]), "cumulative_p": cumulative}
    from sklearn.isotonic import IsotonicRegression  # here, because its import takes 1.5 s and regression needs none

    for c in range(p.shape[1]):
        rising = IsotonicRegression().fit(p[:, c], y == c)
        scores[f"x{c}"], scores[f"y{c}"] = (np.asarray(v, float) for v in (rising.X_thresholds_, rising.y_thresholds_))
    return scores
