"""Intervals and sets that hold what they promise: what was learned from molecules kept for calibration alone.

Sources: split conformal prediction, Papadopoulos et al. (2002), ECML, 345, and Lei et al., J. Am. Stat. Assoc. 2018,
113, 1094 (https://doi.org/10.1080/01621459.2017.1307116); of quantiles, Romano et al. (2019), NeurIPS 32, 3543; sets of
classes, Sadinle et al., J. Am. Stat. Assoc. 2019, 114, 223 (https://doi.org/10.1080/01621459.2017.1395341), adaptive
ones, Romano et al. (2020), NeurIPS 33, 3581; z-scaling, Levi et al., Sensors 2022, 22, 5540
(https://doi.org/10.3390/s22155540); isotonic regression of quantiles, Kuleshov et al. (2018), ICML, 2796.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from molattn.errors import UsageError
from molattn.models.answers import Answers
from molattn.models.distributions import normal_quantile
from molattn.models.tasks import Regression, Task

ZSCALING, ISOTONIC = "zscaling", "isotonic"
OF_NUMBERS = ("conformal-regression", ZSCALING, ISOTONIC)
OF_CLASSES = ("conformal-multiclass", "conformal-adaptive", ISOTONIC)
NONE = "none"
METHODS = tuple(dict.fromkeys((*OF_NUMBERS, *OF_CLASSES, NONE)))
"""What `--calibration-method` takes."""

Scores = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Calibration:
    """What the calibration molecules taught.

    Attributes:
        method: one of `METHODS` but "none", used where nobody asks for another.
        uncertainty: the uncertainty method whose standard deviations were calibrated.
        scores: for each target, by name, float64:
            z: (k,) of numbers, (y - mean) / std in order, std being 1 where the model has none.
            far: (k,) of numbers, |y - mean| / (std + b) in order; |y - mean| where the model has no std.
            b: (1,) the median std of the validation molecules; 0 where the model has none.
            quantiles: (k,) of quantile models, max(lower - y, y - upper) in order.
            least: (k,) of classes, 1 - p of the true class, in order.
            adaptive: (k,) of classes, the sum of p over the classes that are more probable than the true one, and its
                own, in order.
            x<c>, y<c>: of class c, the knots of the isotonic regression from p to the share that it is right.
    """

    method: str
    uncertainty: str
    scores: tuple[Scores, ...]


def score_names(task: Task, t: int) -> list[tuple[str, ...]]:
    """The names of the scores of target t, those together that are equally long."""
    if isinstance(task, Regression):
        return [("z", "far", *(("quantiles",) if task.loss == "quantile" else ())), ("b",)]
    return [("least", "adaptive"), *((f"x{c}", f"y{c}") for c in range(len(task.labels(t))))]


def choose_calibration(asked: str, task: Task) -> str:
    """The calibration method asked for, or the conformal one where that is empty.

    Raises:
        UsageError: there is no such method, or not for such targets.
    """
    fitting = OF_NUMBERS if isinstance(task, Regression) else OF_CLASSES
    if asked and asked not in METHODS:
        raise UsageError(f"there is no calibration method {asked!r}: choose among {', '.join(METHODS)}")
    if asked and asked not in (*fitting, NONE):
        raise UsageError(
            f"the calibration method {asked} does not go with {task.kind} targets: choose among {', '.join(fitting)}"
        )
    return asked or fitting[0]


def calibrated(answers: Answers, task: Task, calibration: Calibration, method: str) -> Answers:
    """The answers after calibration: standard deviations by z-scaling, probabilities by isotonic regression.

    zscaling: std <- std sqrt(mean z^2), which maximises the likelihood of normal errors
    isotonic: std <- std SD(z) of numbers;   p_c <- f_c(p_c) / sum_c f_c(p_c) of classes, f_c the isotonic regression

    Conformal methods change neither.
    """
    if method not in (ZSCALING, ISOTONIC):
        return answers
    if isinstance(task, Regression):
        if answers.std is None:
            return answers
        z = [part["z"] for part in calibration.scores]
        factor = [math.sqrt(np.mean(v**2)) if method == ZSCALING else float(np.std(v)) for v in z]
        return replace(answers, std=answers.std * np.array(factor))
    parts = []
    for t, scores in enumerate(calibration.scores):
        p = task.probabilities(answers, t)
        risen = [np.interp(p[:, c], scores[f"x{c}"], scores[f"y{c}"]) for c in range(p.shape[1])]
        total = np.sum(risen, 0)[:, None]
        # Where no class has any share left, nothing was learned.
        parts.append(np.where(total > 0, np.stack(risen, 1) / np.where(total > 0, total, 1.0), p))
    return task.with_probabilities(parts, answers.std)


def interval(
    answers: Answers, task: Regression, level: float, calibration: Calibration | None, method: str
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends, (n, T) each, between which the truth lies with a probability of `level`.

    conformal-regression: mean -+ q (std + b),   q the ceil((k + 1) level)-th smallest |y - mean| / (std + b) of the k
        calibration molecules, b their typical std, so that one that happens to be tiny promises little;
        mean -+ q and |y - mean| without a std; of quantile models lower - q and upper + q, q that of
        max(lower - y, y - upper)
    zscaling: mean -+ u sqrt(mean z^2) std,   u the (1 + level) / 2 quantile of the normal distribution
    isotonic: mean + z_a std to mean + z_b std,   z_a and z_b the (1 - level) / 2 and (1 + level) / 2 quantiles of z
    none: mean -+ u std;   of quantile models the distances of the quantiles from the median, times u / u_alpha

    Conformal intervals hold on average over molecules like the calibration ones, whatever the model; those by "none"
    are what the model itself believes.

    Raises:
        UsageError: the model has nothing to make intervals of, or too few calibration molecules for the level.
    """
    check_level(level)
    u = normal_quantile((1 + level) / 2)
    quantiles = np.split(answers.own, 2, 1) if task.loss == "quantile" else None
    if method == NONE or calibration is None:
        if quantiles is not None:
            stretch = u / normal_quantile(1 - task.alpha / 2)
            lower, upper = (answers.values + stretch * (q - answers.values) for q in quantiles)
            return lower, upper
        if answers.std is None:
            raise UsageError(
                "the model does not say how far off it may be: train with --calibration-size 0.1, which makes "
                "conformal intervals, or with --ensemble-size 5 or another --uncertainty-method"
            )
        return answers.values - u * answers.std, answers.values + u * answers.std
    std = np.ones_like(answers.values) if answers.std is None else answers.std
    scores = calibration.scores
    if method == ZSCALING:
        wide = u * std * np.array([math.sqrt(np.mean(s["z"] ** 2)) for s in scores])
        return answers.values - wide, answers.values + wide
    if method == ISOTONIC:
        for s in scores:
            conformal_quantile(s["z"], (1 + level) / 2)  # refuses what lies beyond the largest
        # Sorted scores against their ranks rise already: the isotonic regression goes through each of them.
        low, high = (
            np.array([np.quantile(s["z"], p, method="weibull") for s in scores])
            for p in ((1 - level) / 2, (1 + level) / 2)
        )
        return answers.values + low * std, answers.values + high * std
    if quantiles is not None:
        q = np.array([conformal_quantile(s["quantiles"], level) for s in scores])
        lower, upper = quantiles[0] - q, quantiles[1] + q
        # A negative q can make the ends of a narrow interval cross.
        middle = (lower + upper) / 2
        return np.minimum(lower, middle), np.maximum(upper, middle)
    wide = np.array([conformal_quantile(s["far"], level) for s in scores]) * (std + [s["b"][0] for s in scores])
    return answers.values - wide, answers.values + wide


def sets(answers: Answers, task: Task, level: float, calibration: Calibration | None, method: str) -> list[np.ndarray]:
    """For each target which classes belong to the answer, (n, classes): the true one with a probability of `level`.

    conformal-multiclass: those with 1 - p_c <= q,   q the ceil((k + 1) level)-th smallest 1 - p_true
    conformal-adaptive: those whose p, added to that of all more probable ones, is <= q,   q that of the same sum for
        the true class; and always the most probable one
    isotonic, none: the most probable ones, until their p sum to `level`

    Sets by "conformal-multiclass" are the smallest on average and may be empty: no class is likely enough.

    Raises:
        UsageError: too few calibration molecules for the level.
    """
    check_level(level)
    found = []
    for t in range(answers.values.shape[1]):
        p = task.probabilities(answers, t)
        if method in (NONE, ISOTONIC) or calibration is None:
            found.append(cumulated(p) - p < level)
        elif method == "conformal-adaptive":
            q = conformal_quantile(calibration.scores[t]["adaptive"], level)
            found.append((cumulated(p) <= q) | (p == p.max(1, keepdims=True)))
        else:
            q = conformal_quantile(calibration.scores[t]["least"], level)
            found.append(1 - p <= q)
    return found


def conformal_quantile(scores: np.ndarray, level: float) -> float:
    """The ceil((k + 1) level)-th smallest of k scores in order.

    Raises:
        UsageError: there are fewer.
    """
    # Rounded first: 0.9 * 10 in floating point is a little more than 9.
    place = math.ceil(round((len(scores) + 1) * level, 9))
    if place > len(scores):
        needed = math.ceil(round(level / (1 - level), 9))
        raise UsageError(
            f"{len(scores)} calibration labels are too few for intervals or sets of {level:g}, which need {needed}: "
            "ask for less, or train with a larger --calibration-size"
        )
    return float(scores[place - 1])


def cumulated(p: np.ndarray) -> np.ndarray:
    """(n, classes): the probability of each class and of all that are more probable; equals in their order."""
    order = np.argsort(-p, axis=1, kind="stable")
    sums = np.empty_like(p)
    np.put_along_axis(sums, order, np.cumsum(np.take_along_axis(p, order, 1), axis=1), 1)
    return sums


def check_level(level: float) -> None:
    """UsageError for what is no probability."""
    if not 0 < level < 1:
        raise UsageError(f"an interval has a level above 0 and below 1, such as 0.9, not {level:g}")
