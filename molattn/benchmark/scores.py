"""Scores of a benchmark: the only module of `molattn.benchmark` that reads labels of test molecules.

No module that trains may import this one, which `lint-imports` checks.
"""

from typing import NamedTuple

import numpy as np

from molattn.benchmark.statistics import bootstrap_interval
from molattn.benchmark.tasks import BenchmarkTask, to_number
from molattn.data import column, fetch_dataset, read_table

CLIFF_COLUMN = "cliff"
"""The column of MoleculeACE's tables that is 1 for molecules on an activity cliff."""


class Score(NamedTuple):
    """The score of one training.

    Attributes:
        part: the test molecules that are scored: "all", or "cliffs" for those on an activity cliff.
        value: value of the task's metric.
        lower, upper: ends of the 95% bootstrap interval over these molecules.
        molecules: number of these molecules.

    >>> from molattn.benchmark.scores import Score
    >>> Score("all", 0.4, 0.35, 0.45, 100).part
    'all'
    """

    part: str
    value: float
    lower: float
    upper: float
    molecules: int


def read_test_labels(task: BenchmarkTask, data_dir: str = "") -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The labels of the m test molecules, and a mask for each part of them that is scored.

    Args:
        task: the task.
        data_dir: a folder of data sets that is searched first.

    Returns:
        (m,) labels, and (m,) boolean masks by part: "all" for all molecules, and "cliffs", only for MoleculeACE, for
        those on an activity cliff.

    Raises:
        UsageError, InputError: as `read_task`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from molattn.benchmark import benchmark_tasks, read_test_labels
    >>> (task,) = benchmark_tasks("tdc", ["herg"])
    >>> with tempfile.TemporaryDirectory() as data:  # two molecules of each part, in place of the published files
    ...     Path(data, "tdc", "herg").mkdir(parents=True)
    ...     for part in ("train_val", "test"):
    ...         _ = Path(data, "tdc", "herg", f"{part}.csv").write_text("Drug,Y\\nC1CC1,0\\nc1ccccc1,1\\n")
    ...     y, parts = read_test_labels(task, data)
    >>> set(y.tolist()) == {0, 1}, list(parts)
    (True, ['all'])
    """
    card, _ = fetch_dataset(task.card.name, data_dir)
    table = read_table(card.path)
    split, labels = column(table, task.official_split.column), column(table, task.target)
    rows = [row for row, label in enumerate(split) if label == "test"]
    parts = {"all": np.ones(len(rows), dtype=bool)}
    if CLIFF_COLUMN in table.columns:
        cliffs = column(table, CLIFF_COLUMN)
        parts["cliffs"] = np.array([cliffs[row] == "1" for row in rows])
    return np.array([to_number(table, row, labels[row]) for row in rows]), parts


def score(task: BenchmarkTask, predictions: np.ndarray, data_dir: str = "") -> list[Score]:
    """The score of each part of the test molecules; parts without molecules are left out.

    Args:
        task: the task.
        predictions: (m,) predictions of its test molecules, in the order of the table.
        data_dir: a folder of data sets that is searched first.

    Raises:
        UsageError, InputError: as `read_test_labels`.
    """
    y, parts = read_test_labels(task, data_dir)
    return [
        Score(part, *bootstrap_interval(task.metric, y[mask], predictions[mask]), int(mask.sum()))
        for part, mask in parts.items()
        if mask.any()
    ]
