"""Statistics of `arena.py`: confidence intervals and ranks of scores, and the decision rule for settings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from report import bootstrap_over_groups, corrected_half_interval

from molattn.training.metrics import METRICS, compute_metrics

NUM_SAMPLES = 1000
"""Bootstrap samples of the test molecules."""


def metric_value(metric: str, y: np.ndarray, predictions: np.ndarray) -> float:
    """A metric by its name, of (n,) labels and predictions; NaN if it is undefined."""
    value = compute_metrics(y, predictions, (metric,))[metric]
    return float("nan") if value is None else float(value)


def bootstrap_interval(
    metric: str, y: np.ndarray, predictions: np.ndarray, num_samples: int = NUM_SAMPLES
) -> tuple[float, float, float]:
    """A score, and the ends of its 95% percentile bootstrap interval over the test molecules.

    The samples depend only on the number of molecules, so they are the same for all models. Samples for which the
    metric is undefined, because they have one class only, are ignored.

    Shapes: y and predictions (n,).
    """
    samples = np.random.default_rng(0).integers(len(y), size=(num_samples, len(y)))
    scores = [metric_value(metric, y[rows], predictions[rows]) for rows in samples]
    low, high = np.nanpercentile(scores, (2.5, 97.5))
    return metric_value(metric, y, predictions), float(low), float(high)


def rank(value: float, published: Sequence[float], metric: str) -> int:
    """The rank of a value among published ones: 1 plus the number of better ones."""
    sign = 1 if METRICS[metric].larger_is_better else -1
    return 1 + sum(sign * other > sign * value for other in published)


def rank_range(lower: float, upper: float, published: Sequence[float], metric: str) -> tuple[int, int]:
    """The best and the worst rank of the values in an interval."""
    ends = rank(lower, published, metric), rank(upper, published, metric)
    return min(ends), max(ends)


@dataclass(frozen=True)
class Difference:
    """The change that a setting makes for one task, in folds of the labeled molecules.

    Attributes:
        values: (F,) the improvement of the score of each fold, the mean over seeds; positive is better.
        std: the standard deviation over the folds of the score that it is compared with.
        share: held-out molecules for each training molecule.
    """

    values: np.ndarray
    std: float
    share: float

    @property
    def mean(self) -> float:
        """The mean over the folds."""
        return float(self.values.mean())

    @property
    def half_interval(self) -> float:
        """Half the 95% interval of the mean, corrected for resampled splits."""
        return corrected_half_interval(self.values, self.share)

    @property
    def is_worse(self) -> bool:
        """Whether the whole interval is below 0."""
        return self.mean + self.half_interval < 0


def differences(rows: Sequence[Mapping[str, str]], options: str, reference: str = "") -> dict[str, Difference]:
    """The change that options make for each task, over the folds and seeds that rows of `arena.py folds` have for both.

    `reference` are the options that they are compared with; empty for the defaults.
    """
    rows_of: dict[str, dict[tuple[str, str, str], Mapping[str, str]]] = {options: {}, reference: {}}
    for row in rows:
        if row["options"] in rows_of:
            rows_of[row["options"]][row["task"], row["fold"], row["seed"]] = row
    found = {}
    for name in dict.fromkeys(task for task, *_ in rows_of[options]):
        scores: dict[str, list[tuple[float, float]]] = {}
        shares = []
        for key in (key for key in rows_of[options] if key[0] == name and key in rows_of[reference]):
            row, other = rows_of[options][key], rows_of[reference][key]
            sign = 1 if METRICS[row["metric"]].larger_is_better else -1
            scores.setdefault(key[1], []).append((sign * float(row["score"]), sign * float(other["score"])))
            shares.append(int(row["held"]) / int(row["train"]))
        if scores:
            means = np.array([np.mean(pairs, axis=0) for pairs in scores.values()])
            std = float(means[:, 1].std(ddof=1)) if len(means) > 1 else float("nan")
            found[name] = Difference(means[:, 0] - means[:, 1], std, float(np.mean(shares)))
    return found


def mean_standardized_difference(differences: Iterable[Difference]) -> tuple[float, float, float]:
    """The mean over tasks of differences divided by their standard deviations, and its 95% bootstrap interval."""
    return bootstrap_over_groups([d.values / d.std for d in differences])


def decide(differences: Mapping[str, Difference], tasks: Sequence[str]) -> str:
    """The decision rule: "accepted", "rejected", or "undecided" with the reason.

    A setting is accepted if the 95% interval of `mean_standardized_difference` is above 0, and no task is worse by more
    than its own interval. It is undecided until all tasks of the group have been measured in at least two folds.
    """
    measured = [name for name in tasks if name in differences and len(differences[name].values) > 1]
    if len(measured) < len(tasks):
        return f"undecided: {len(measured)} of {len(tasks)} tasks"
    if constant := [name for name in measured if not differences[name].std > 0]:
        return f"undecided: the folds of {constant[0]} have equal scores"
    if worse := [name for name in measured if differences[name].is_worse]:
        return f"rejected: worse for {', '.join(worse)}"
    _, low, _ = mean_standardized_difference(differences[name] for name in measured)
    return "accepted" if low > 0 else "rejected"
