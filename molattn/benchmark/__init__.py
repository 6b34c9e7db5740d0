"""Public benchmarks, each with its own protocol: TDC's ADMET group, and MoleculeACE.

`run_benchmark` trains and scores a model as `molattn benchmark` does. The model is a function from a training job to
predictions; `molattn.benchmark.trainings.molattn_trainer` makes one for a model of molattn.
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
