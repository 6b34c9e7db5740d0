"""Published results: their tasks, metrics and order; ranks among them."""

import numpy as np
import pytest

from molattn.benchmark import TaskSummary, benchmark_tasks, mean_rank, published_entries
from molattn.benchmark.published import MIN_ENTRIES, load_published
from molattn.training.metrics import METRICS


def test_every_task_of_tdc_has_a_leaderboard_with_its_metric() -> None:
    boards = load_published()["tdc"]
    tasks = benchmark_tasks("tdc")
    assert {task.name for task in tasks} == set(boards)
    for task in tasks:
        entries = published_entries("tdc", task.name)
        assert boards[task.name]["metric"] == task.metric
        means = [entry.mean for entry in entries]
        assert means == sorted(means, reverse=METRICS[task.metric].larger_is_better)
        assert len({entry.name for entry in entries}) >= len(entries) - 1
    assert all(published_entries("moleculeace", task.name) == [] for task in benchmark_tasks("moleculeace"))
    assert all("2026" in text or "CheMeleon" in text for text in load_published()["sources"].values())


@pytest.mark.parametrize("task", ["caco2_wang", "hia_hou", "vdss_lombardo"])
def test_the_entries_that_cannot_be_told_apart_are_those_between_the_ranks(task: str) -> None:
    board = published_entries("tdc", task)
    metric = load_published()["tdc"][task]["metric"]
    means = np.array([entry.mean for entry in board])
    lower, upper = np.quantile(means, [0.2, 0.6]) + 1e-6
    summary = TaskSummary("tdc", task, "all", metric, (float(lower + upper) / 2,), (1,), lower, upper, 50, 0, board)
    assert summary.rank is not None and summary.rank_range is not None
    best, worst = summary.rank_range
    assert best <= summary.rank <= worst and worst - best == len(summary.indistinguishable)
    assert [entry.name for entry in summary.indistinguishable] == [entry.name for entry in board[best - 1 : worst - 1]]


def test_the_mean_rank_is_over_leaderboards_with_enough_entries() -> None:
    def summary(task: str, score: float) -> TaskSummary:
        board = published_entries("tdc", task)
        return TaskSummary("tdc", task, "all", "auroc", (score,), (1,), score, score, 50, 0, board)

    assert len(published_entries("tdc", "bioavailability_ma")) < MIN_ENTRIES
    last = len(published_entries("tdc", "dili")) + 1
    summaries = [summary("bioavailability_ma", 1.0), summary("herg", 1.0), summary("dili", 0.0)]
    assert mean_rank(summaries) == ((1 + last) / 2, 2)
    assert mean_rank(summaries[:1]) is None
