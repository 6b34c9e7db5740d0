"""Benchmarks of the field by their protocols: TDC's ADMET group, and MoleculeACE.

`run_benchmark` trains and scores, as `molattn benchmark` does, any model that is a function of a training: one of
molattn is made by `molattn.benchmark.trainings.molattn_trainer`.
"""

from molattn.benchmark.published import PublishedEntry, published_entries
from molattn.benchmark.runs import run_benchmark
from molattn.benchmark.scores import read_test_labels
from molattn.benchmark.statistics import bootstrap_interval, rank, rank_range
from molattn.benchmark.summary import TaskSummary, mean_rank, summarize
from molattn.benchmark.tasks import BenchmarkTask, TaskData, benchmark_tasks, read_task

__all__ = [
    "BenchmarkTask",
    "PublishedEntry",
    "TaskData",
    "TaskSummary",
    "benchmark_tasks",
    "bootstrap_interval",
    "mean_rank",
    "published_entries",
    "rank",
    "rank_range",
    "read_task",
    "read_test_labels",
    "run_benchmark",
    "summarize",
]
