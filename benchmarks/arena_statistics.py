"""Statistics of `arena.py`: the decision rule for settings. Intervals and ranks of scores are those of the package."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from report import bootstrap_over_groups, corrected_half_interval

from molattn.benchmark.statistics import bootstrap_interval, metric_value, rank, rank_range
from molattn.training.metrics import METRICS

__all__ = [
    "Difference",
    "bootstrap_interval",
    "decide",
    "differences",
    "mean_standardized_difference",
    "metric_value",
    "rank",
    "rank_range",
]


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

    def format_interval(self) -> str:
        """The 95% interval of the mean; empty for a single fold."""
        if len(self.values) < 2:
            return ""
        return f"{self.mean - self.half_interval:+.3f} to {self.mean + self.half_interval:+.3f}"

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
