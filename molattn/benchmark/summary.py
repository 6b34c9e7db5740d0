"""The summary of a benchmark: means over seeds, intervals, and ranks among the published results."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from molattn.benchmark.published import MIN_ENTRIES, PublishedEntry, published_entries
from molattn.benchmark.statistics import rank, rank_range

ScoreRow = Mapping[str, str]
"""A row of `scores.csv`, by column: the scores of one training on one part of the test molecules."""


@dataclass(frozen=True)
class TaskSummary:
    """The scores of one model for one task.

    Attributes:
        group: the benchmark.
        task: the task, without its benchmark.
        part: the test molecules that are scored: "all" or "cliffs".
        metric: the metric, a name in `molattn.training.metrics.METRICS`.
        scores: one for each seed, in the order of `seeds`.
        seeds: the seeds of the trainings.
        lower, upper: ends of the 95% bootstrap interval over the test molecules, each a mean over the seeds.
        test: number of test molecules.
        both_sides: number of test molecules that are among the labeled ones as well, by the first InChIKey block.
        published: the entries of the leaderboard; empty if there is none.

    >>> from molattn.benchmark import TaskSummary, published_entries
    >>> board = published_entries("tdc", "caco2_wang")
    >>> summary = TaskSummary("tdc", "caco2_wang", "all", "mae", (0.29, 0.30), (1, 2), 0.26, 0.33, 182, 0, board)
    >>> summary.rank, summary.rank_range, [entry.name for entry in summary.indistinguishable][:2]
    (8, (2, 11), ['XG Boost', 'MapLight'])
    """

    group: str
    task: str
    part: str
    metric: str
    scores: tuple[float, ...]
    seeds: tuple[int, ...]
    lower: float
    upper: float
    test: int
    both_sides: int
    published: Sequence[PublishedEntry]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.fmean(self.scores)

    @property
    def std(self) -> float:
        """The standard deviation over the seeds, with n in its denominator as in TDC's package."""
        return statistics.pstdev(self.scores)

    @property
    def rank(self) -> int | None:
        """The rank in the leaderboard, 1 plus the number of better entries; None without a leaderboard."""
        return rank(self.mean, self._means, self.metric) if self.published else None

    @property
    def rank_range(self) -> tuple[int, int] | None:
        """The best and the worst rank of the scores in the interval; None without a leaderboard."""
        return rank_range(self.lower, self.upper, self._means, self.metric) if self.published else None

    @property
    def indistinguishable(self) -> list[PublishedEntry]:
        """The entries within the interval: these test molecules cannot distinguish them from the model."""
        return [entry for entry in self.published if self.lower <= entry.mean <= self.upper]

    @property
    def _means(self) -> list[float]:
        return [entry.mean for entry in self.published]


def summarize(rows: Iterable[ScoreRow], group: str) -> list[TaskSummary]:
    """The summary of each task and part, in the order of their first rows.

    Args:
        rows: rows of `scores.csv`: see `molattn.benchmark.runs.read_scores`.
        group: name of the benchmark.

    >>> from molattn.benchmark import summarize
    >>> row = {"task": "herg", "part": "all", "metric": "auroc", "lower": "0.7", "upper": "0.9"}
    >>> row |= {"test": "132", "both_sides": "6"}
    >>> (summary,) = summarize([row | {"seed": "1", "score": "0.8"}, row | {"seed": "2", "score": "0.82"}], "tdc")
    >>> round(summary.mean, 2), round(summary.std, 2), summary.rank
    (0.81, 0.01, 11)
    """
    rows_by_part: dict[tuple[str, str], list[ScoreRow]] = {}
    for row in rows:
        rows_by_part.setdefault((row["task"], row["part"]), []).append(row)
    return [
        TaskSummary(
            group=group,
            task=task,
            part=part,
            metric=runs[0]["metric"],
            scores=tuple(float(row["score"]) for row in runs),
            seeds=tuple(int(row["seed"]) for row in runs),
            lower=statistics.fmean(float(row["lower"]) for row in runs),
            upper=statistics.fmean(float(row["upper"]) for row in runs),
            test=int(runs[0]["test"]),
            both_sides=int(runs[0]["both_sides"]),
            published=published_entries(group, task) if part == "all" else [],
        )
        for (task, part), runs in rows_by_part.items()
    ]


def mean_rank(summaries: Iterable[TaskSummary]) -> tuple[float, int] | None:
    """The mean rank over the tasks whose leaderboards have at least ten entries, and their number; None without any.

    Args:
        summaries: the summaries of all tasks: see `summarize`.

    >>> from molattn.benchmark import TaskSummary, mean_rank, published_entries
    >>> board = published_entries("tdc", "caco2_wang")
    >>> mean_rank([TaskSummary("tdc", "caco2_wang", "all", "mae", (0.29,), (1,), 0.26, 0.33, 182, 0, board)])
    (8.0, 1)
    """
    ranks = [s.rank for s in summaries if s.rank is not None and len(s.published) >= MIN_ENTRIES]
    return (statistics.fmean(ranks), len(ranks)) if ranks else None
