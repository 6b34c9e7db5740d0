"""Calibrated prediction intervals and prediction sets, from scores of held-out calibration molecules.

Sources: split conformal prediction, Papadopoulos et al. (2002), ECML, 345, and Lei et al., J. Am. Stat. Assoc. 2018,
113, 1094 (https://doi.org/10.1080/01621459.2017.1307116); residuals divided by distances to the training set,
Papadopoulos et al., J. Artif. Intell. Res. 2011, 40, 815 (https://doi.org/10.1613/jair.3198); conformalized quantile
regression, Romano et al. (2019), NeurIPS 32, 3543; sets of classes, Sadinle et al., J. Am. Stat. Assoc. 2019, 114, 223
(https://doi.org/10.1080/01621459.2017.1395341); adaptive sets, Romano et al. (2020), NeurIPS 33, 3581; z-scaling, Levi
et al., Sensors 2022, 22, 5540 (https://doi.org/10.3390/s22155540); isotonic regression of quantiles, Kuleshov et al.
(2018), ICML, 2796.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from molattn.errors import UsageError, unknown_choice
from molattn.models.predictions import NONE, Predictions, normal_quantile
from molattn.models.task import Task
from molattn.models.tasks import Regression

CONFORMAL_REGRESSION, ZSCALING, ISOTONIC = "conformal-regression", "zscaling", "isotonic"
REGRESSION_METHODS = (CONFORMAL_REGRESSION, ZSCALING, ISOTONIC)
CLASSIFICATION_METHODS = ("conformal-multiclass", "conformal-adaptive", ISOTONIC)
CALIBRATION_METHODS = tuple(dict.fromkeys((*REGRESSION_METHODS, *CLASSIFICATION_METHODS, NONE)))
"""The choices of `--calibration-method`."""

ROUNDING = 1e-6
"""By how much a probability may differ between spellings, batches, devices and exported forms of the same molecule."""

Scores = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Calibration:
    """The scores of the calibration molecules.

    Attributes:
        method: one of `CALIBRATION_METHODS` except "none"; the default for predictions.
        uncertainty_method: the uncertainty method whose standard deviations were calibrated.
        scores: for each target, arrays of float64 by name, for k calibration molecules. For regression:
            z: (k,) sorted (y - mean) / std; std is 1 if the model has none.
            normalized_residuals: (k,) sorted |y - mean| / (std + beta). Of a model without std, distances to the
                training molecules stand for std; without these, they are |y - mean|.
            beta: (1,) the median std, or distance, of the validation molecules; 0 if there are neither.
            quantile_residuals: (k,) sorted max(lower - y, y - upper), only for quantile models.
            For classification:
            one_minus_p: (k,) sorted 1 - p of the true class.
            cumulative_p: (k,) sorted sums of p over the true class and all more probable ones.
            x<c>, y<c>: the knots of the isotonic regression from p_c to the share of molecules of class c.
        has_distances: whether distances to the training molecules stand for std in `normalized_residuals`.
    """

    method: str
    uncertainty_method: str
    scores: tuple[Scores, ...]
    has_distances: bool = False

    def needs_distances(self, method: str) -> bool:
        """Whether the intervals of a calibration method depend on `Predictions.distance`."""
        return self.has_distances and method == CONFORMAL_REGRESSION


def score_names(task: Task, t: int) -> list[tuple[str, ...]]:
    """The names of the scores of target t, grouped by equal length."""
    if isinstance(task, Regression):
        quantiles = ("quantile_residuals",) if task.loss_function.has_quantiles else ()
        return [("z", "normalized_residuals", *quantiles), ("beta",)]
    return [("one_minus_p", "cumulative_p"), *((f"x{c}", f"y{c}") for c in range(len(task.class_names(t))))]


def resolve_calibration_method(requested: str, task: Task) -> str:
    """The requested calibration method, or the conformal one if that is empty.

    Raises:
        UsageError: an unknown method, or one for other kinds of targets.
    """
    available = REGRESSION_METHODS if isinstance(task, Regression) else CLASSIFICATION_METHODS
    if requested and requested not in CALIBRATION_METHODS:
        raise UsageError(unknown_choice("calibration method", requested, CALIBRATION_METHODS))
    if requested and requested not in (*available, NONE):
        raise UsageError(
            f"the calibration method {requested} does not apply to {task.kind} targets: choose among "
            f"{', '.join(available)}"
        )
    return requested or available[0]


def apply_calibration(predictions: Predictions, task: Task, calibration: Calibration, method: str) -> Predictions:
    """The predictions after calibration: standard deviations by z-scaling, probabilities by isotonic regression.

    zscaling: std <- std sqrt(mean z^2), which maximizes the likelihood of normal errors
    isotonic: std <- std SD(z) for regression;
        p_c <- f_c(p_c) / sum_c f_c(p_c) for classification, f_c the isotonic regression

    Conformal methods change nothing.
    """
    if method not in (ZSCALING, ISOTONIC):
        return predictions
    if isinstance(task, Regression):
        if predictions.std is None:
            return predictions
        z = [scores["z"] for scores in calibration.scores]
        factor = [math.sqrt(np.mean(v**2)) if method == ZSCALING else float(np.std(v)) for v in z]
        return replace(predictions, std=predictions.std * np.array(factor))
    probabilities = []
    for t, scores in enumerate(calibration.scores):
        p = task.probabilities(predictions, t)
        mapped = [np.interp(p[:, c], scores[f"x{c}"], scores[f"y{c}"]) for c in range(p.shape[1])]
        total = np.sum(mapped, 0)[:, None]
        # Where all mapped probabilities are 0, those of the model remain.
        probabilities.append(np.where(total > 0, np.stack(mapped, 1) / np.where(total > 0, total, 1.0), p))
    return task.with_probabilities(probabilities, predictions.std)


def prediction_intervals(
    predictions: Predictions, task: Regression, level: float, calibration: Calibration | None, method: str
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends, (n, T) each, of intervals that contain the true value with a probability of `level`.

    conformal-regression: mean +- q (std + beta),   q the ceil((k + 1) level)-th smallest |y - mean| / (std + beta) of
        the k calibration molecules, beta the median std of the validation molecules, so that a tiny std has little
        effect. Without a std, the mean distance to the 5 nearest training molecules stands for it: intervals are wider
        for molecules unlike these. For quantile models lower - q and upper + q, q the same quantile of
        max(lower - y, y - upper)
    zscaling: mean +- u sqrt(mean z^2) std,   u the (1 + level) / 2 quantile of the normal distribution
    isotonic: mean + z_a std to mean + z_b std,   z_a and z_b the (1 - level) / 2 and (1 + level) / 2 quantiles of z
    none: mean +- u std;   for quantile models the distances of the quantiles from the median, times u / u_alpha,
        u_alpha the 1 - alpha / 2 quantile of the normal distribution

    Conformal intervals have the coverage `level`, on average over molecules like those of the calibration, for any
    model; the intervals of "none" are the model's own, uncalibrated.

    Raises:
        UsageError: the model has neither standard deviations nor a calibration, or there are too few calibration
            molecules for the level.
    """
    check_level(level)
    u = normal_quantile((1 + level) / 2)
    quantiles = np.split(predictions.distribution, 2, 1) if task.loss_function.has_quantiles else None
    if method == NONE or calibration is None:
        if quantiles is not None:
            factor = u / normal_quantile(1 - task.alpha / 2)
            lower, upper = (predictions.values + factor * (q - predictions.values) for q in quantiles)
            return lower, upper
        if predictions.std is None:
            raise UsageError(
                "the model has no standard deviations: train with --calibration-size 0.1, which makes "
                "conformal intervals, or with --ensemble-size 5 or another --uncertainty-method"
            )
        return predictions.values - u * predictions.std, predictions.values + u * predictions.std
    std = np.ones_like(predictions.values) if predictions.std is None else predictions.std
    scores = calibration.scores
    if method == ZSCALING:
        half_width = u * std * np.array([math.sqrt(np.mean(s["z"] ** 2)) for s in scores])
        return predictions.values - half_width, predictions.values + half_width
    if method == ISOTONIC:
        for s in scores:
            conformal_quantile(s["z"], (1 + level) / 2, level)  # raises for a level beyond the largest score
        # Sorted scores against their ranks are monotonic already: the isotonic regression interpolates all of them.
        low, high = (
            np.array([np.quantile(s["z"], p, method="weibull") for s in scores])
            for p in ((1 - level) / 2, (1 + level) / 2)
        )
        return predictions.values + low * std, predictions.values + high * std
    if quantiles is not None:
        q = np.array([conformal_quantile(s["quantile_residuals"], level) for s in scores])
        lower, upper = quantiles[0] - q, quantiles[1] + q
        # A negative q can make the ends of a narrow interval cross.
        middle = (lower + upper) / 2
        return np.minimum(lower, middle), np.maximum(upper, middle)
    q = np.array([conformal_quantile(s["normalized_residuals"], level) for s in scores])
    if calibration.has_distances:
        assert predictions.distance is not None  # the caller asks `Calibration.needs_distances`
        std = predictions.distance[:, None]
    half_width = q * (std + [s["beta"][0] for s in scores])
    return predictions.values - half_width, predictions.values + half_width


def prediction_sets(
    predictions: Predictions, task: Task, level: float, calibration: Calibration | None, method: str
) -> list[np.ndarray]:
    """For each target the classes in the prediction set, (n, classes): the true one is in it with probability `level`.

    conformal-multiclass: those with 1 - p_c <= q,   q the ceil((k + 1) level)-th smallest 1 - p_true
    conformal-adaptive: those whose p, plus the p of all more probable ones, is <= q,   q the same quantile of that sum
        for the true class; and always the most probable one
    isotonic, none: the most probable ones, until their p sum to `level`

    Conformal sets include classes whose score exceeds the quantile by less than the rounding of the probabilities
    (`ROUNDING`), since the quantile is the score of a calibration molecule.

    Sets of "conformal-multiclass" are the smallest on average and may be empty if no class is likely enough.

    Raises:
        UsageError: too few calibration molecules for the level.
    """
    check_level(level)
    result = []
    for t in range(predictions.values.shape[1]):
        p = task.probabilities(predictions, t)
        if method in (NONE, ISOTONIC) or calibration is None:
            result.append(cumulative_probabilities(p) - p < level)
        elif method == "conformal-adaptive":
            q = conformal_quantile(calibration.scores[t]["cumulative_p"], level)
            result.append((cumulative_probabilities(p) <= q + ROUNDING) | (p == p.max(1, keepdims=True)))
        else:
            q = conformal_quantile(calibration.scores[t]["one_minus_p"], level)
            result.append(1 - p <= q + ROUNDING)
    return result


def conformal_quantile(scores: np.ndarray, level: float, requested: float | None = None) -> float:
    """The ceil((k + 1) level)-th smallest of k sorted scores.

    Args:
        scores: sorted.
        level: of the quantile.
        requested: the level of the intervals, for errors, if that is another one.

    Raises:
        UsageError: there are fewer than ceil((k + 1) level) scores.
    """
    # Rounded first: 0.9 * 10 in floating point is a little more than 9.
    rank = math.ceil(round((len(scores) + 1) * level, 9))
    if rank > len(scores):
        needed = math.ceil(round(level / (1 - level), 9))
        raise UsageError(
            f"{len(scores)} calibration labels are too few for intervals or sets of {requested or level:g}, which need "
            f"{needed}: request a lower level, or train with a larger --calibration-size"
        )
    return float(scores[rank - 1])


def cumulative_probabilities(p: np.ndarray) -> np.ndarray:
    """(n, classes): the probability of each class plus those of all more probable ones; ties in order of class."""
    order = np.argsort(-p, axis=1, kind="stable")
    sums = np.empty_like(p)
    np.put_along_axis(sums, order, np.cumsum(np.take_along_axis(p, order, 1), axis=1), 1)
    return sums


def check_level(level: float) -> None:
    """Raise UsageError unless `level` is a probability between 0 and 1, exclusive."""
    if not 0 < level < 1:
        raise UsageError(f"the level of intervals and sets is above 0 and below 1, such as 0.9, not {level:g}")
