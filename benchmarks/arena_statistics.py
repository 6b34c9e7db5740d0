"""What a score of `arena.py` can say: intervals over test molecules, ranks that they allow, and the rule of choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from molattn.training.metrics import METRICS, compute_metrics

DRAWS = 1000
LEVEL = (2.5, 97.5)
"""Percentiles of the ends of an interval of 95%."""


def score_of(metric: str, y: np.ndarray, answers: np.ndarray) -> float:
    """A metric by its name, of (n,) labels and answers; NaN where it is undefined."""
    value = compute_metrics(y, answers, (metric,))[metric]
    return float("nan") if value is None else float(value)


def bootstrap(metric: str, y: np.ndarray, answers: np.ndarray, draws: int = DRAWS) -> tuple[float, float, float]:
    """A score, and the ends of its 95% interval by the percentiles of test molecules drawn with replacement.

    The draws depend on the number of molecules alone: two models are measured on the same ones. A draw for which the
    metric is undefined, of one class only, does not count.

    Shapes: y and answers (n,).
    """
    rng = np.random.default_rng(0)
    found = [score_of(metric, y[own], answers[own]) for own in rng.integers(len(y), size=(draws, len(y)))]
    low, high = np.nanpercentile(found, LEVEL)
    return score_of(metric, y, answers), float(low), float(high)


def rank(value: float, published: Sequence[float], metric: str) -> int:
    """The rank of a value beside published ones: 1, and one more for each that is better."""
    sign = 1 if METRICS[metric].larger_is_better else -1
    return 1 + sum(sign * other > sign * value for other in published)


def ranks(lower: float, upper: float, published: Sequence[float], metric: str) -> tuple[int, int]:
    """The best and the worst rank that an interval allows; between them are the entries that cannot be told apart."""
    ends = rank(lower, published, metric), rank(upper, published, metric)
    return min(ends), max(ends)


@dataclass(frozen=True)
class Difference:
    """What a setting changes for one task, in folds of its labelled molecules.

    Attributes:
        values: (F,) by how much the held-out molecules of each fold are predicted better, the mean over seeds.
        spread: the standard deviation over the folds of the score that it is compared to.
        share: held-out molecules for each trained one.
    """

    values: np.ndarray
    spread: float
    share: float

    @property
    def mean(self) -> float:
        """Over the folds; positive is better."""
        return float(self.values.mean())

    @property
    def half(self) -> float:
        """Half the 95% interval of the mean, with the variance (1/F + share) s^2 of Nadeau and Bengio (2003)."""
        n = len(self.values)
        return float(stats.t.ppf(0.975, n - 1) * np.sqrt((1 / n + self.share) * self.values.var(ddof=1)))

    @property
    def is_loss(self) -> bool:
        """Whether the task loses by more than its interval."""
        return self.mean + self.half < 0


def differences(rows: Sequence[Mapping[str, str]], options: str, first: str = "") -> dict[str, Difference]:
    """What options change for each task, from rows of `arena.py folds` that both have: the same fold and seed.

    first: the options that they are compared to; empty for the defaults.
    """
    scores: dict[str, dict[tuple[str, str, str], Mapping[str, str]]] = {options: {}, first: {}}
    for row in rows:
        if row["options"] in scores:
            scores[row["options"]][row["task"], row["fold"], row["seed"]] = row
    found = {}
    for name in dict.fromkeys(task for task, *_ in scores[options]):
        pairs: dict[str, list[tuple[float, float]]] = {}
        shares = []
        for key in (key for key in scores[options] if key[0] == name and key in scores[first]):
            own, other = scores[options][key], scores[first][key]
            sign = 1 if METRICS[own["metric"]].larger_is_better else -1
            pairs.setdefault(key[1], []).append((sign * float(own["score"]), sign * float(other["score"])))
            shares.append(int(own["held"]) / int(own["train"]))
        if pairs:
            means = np.array([np.mean(of_fold, axis=0) for of_fold in pairs.values()])
            spread = float(means[:, 1].std(ddof=1)) if len(means) > 1 else float("nan")
            found[name] = Difference(means[:, 0] - means[:, 1], spread, float(np.mean(shares)))
    return found


def overall(differences: Sequence[Difference], draws: int = 10_000) -> tuple[float, float, float]:
    """The mean over tasks of differences divided by their spread, and its 95% interval.

    For the interval tasks, and then their folds, are drawn with replacement.
    """
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(differences), size=(draws, len(differences)))
    means = np.zeros(drawn.shape)
    for i, difference in enumerate(differences):
        values = difference.values / difference.spread
        of_task = values[rng.integers(len(values), size=(*drawn.shape, len(values)))].mean(2)
        means = np.where(drawn == i, of_task, means)
    low, high = np.percentile(means.mean(1), LEVEL)
    return float(np.mean([d.mean / d.spread for d in differences])), float(low), float(high)


def verdict(differences: Mapping[str, Difference], tasks: Sequence[str]) -> str:
    """The rule: "taken", "not taken", or why it cannot be said.

    A setting is taken if the 95% interval of `overall` is above 0, and no task loses by more than its own interval.
    Before all tasks of the group are measured, in two folds at least, nothing is decided.
    """
    measured = [name for name in tasks if name in differences and len(differences[name].values) > 1]
    if len(measured) < len(tasks):
        return f"undecided: {len(measured)} of {len(tasks)} tasks"
    if flat := [name for name in measured if not differences[name].spread > 0]:
        return f"undecided: the folds of {flat[0]} do not differ"
    losing = [name for name in measured if differences[name].is_loss]
    if losing:
        return f"not taken: {', '.join(losing)} loses" if len(losing) == 1 else f"not taken: {', '.join(losing)} lose"
    return "taken" if overall([differences[name] for name in measured])[1] > 0 else "not taken"
