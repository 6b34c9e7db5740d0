"""The tasks of a benchmark, and their data for training, without labels of test molecules."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from molattn.chem import inchi_key
from molattn.data import (
    DatasetCard,
    Table,
    column,
    dataset_names,
    fetch_dataset,
    group_of,
    load_card,
    read_table,
)
from molattn.data.datasets.cards import OfficialSplit
from molattn.errors import InputError, SmilesError, UsageError, unknown_choice

INCHIKEY_BLOCK = 14
"""Length of the first block of an InChIKey, which encodes the bonds without stereochemistry and charges."""


@dataclass(frozen=True)
class BenchmarkTask:
    """One task of a benchmark.

    Attributes:
        card: the card of its data set.

    >>> from molattn.benchmark import benchmark_tasks
    >>> (task,) = benchmark_tasks("tdc", ["caco2_wang"])
    >>> task.name, task.group, task.metric, task.task_type, task.target
    ('caco2_wang', 'tdc', 'mae', 'regression', 'log_permeability')
    """

    card: DatasetCard

    @property
    def group(self) -> str:
        """The name of the benchmark."""
        return self.card.group

    @property
    def name(self) -> str:
        """The name of the task, without the benchmark."""
        return self.card.name.rpartition("/")[2]

    @property
    def metric(self) -> str:
        """The metric of the published results, a name in `molattn.training.metrics.METRICS`."""
        return self.card.metric

    @property
    def target(self) -> str:
        """The name of the target column."""
        return self.card.target_columns[0]

    @property
    def task_type(self) -> str:
        """The type of the target: "regression" or "binary"."""
        return "binary" if self.card.task == "classification" else "regression"

    @property
    def official_split(self) -> OfficialSplit:
        """The official split.

        Raises:
            InputError: the card has none.
        """
        if self.card.official_split is None:
            raise InputError(f"the card of {self.card.name} has no official split, which a benchmark needs")
        return self.card.official_split


@dataclass(frozen=True)
class TaskData:
    """The data of a task that training may use.

    Attributes:
        smiles: SMILES of the n labeled molecules, in the order of the table.
        y: (n,) their labels.
        test_smiles: SMILES of the m test molecules, in the order of the table.
        message: how the table was obtained, as a sentence; empty if it was already on this machine.

    >>> import numpy as np
    >>> from molattn.benchmark import TaskData
    >>> data = TaskData(("CCO", "CCN"), np.array([0.1, 0.2]), ("CCC",))
    >>> len(data.smiles), data.test_smiles
    (2, ('CCC',))
    """

    smiles: tuple[str, ...]
    y: np.ndarray
    test_smiles: tuple[str, ...]
    message: str = ""


def benchmark_tasks(group: str, names: Sequence[str] = ()) -> list[BenchmarkTask]:
    """The tasks of a benchmark, by name.

    Args:
        group: "tdc" or "moleculeace".
        names: names of tasks, such as "herg" or "tdc/herg"; all tasks if empty.

    Raises:
        UsageError: there is no such benchmark or task.

    >>> from molattn.benchmark import benchmark_tasks
    >>> len(benchmark_tasks("tdc")), len(benchmark_tasks("moleculeace"))
    (22, 20)
    """
    found = {name.rpartition("/")[2]: name for name in dataset_names() if group and group_of(name) == group}
    if not found:
        groups = dict.fromkeys(filter(None, map(group_of, dataset_names())))
        raise UsageError(unknown_choice("benchmark", group, list(groups)))
    chosen = list(dict.fromkeys(name.removeprefix(f"{group}/") for name in names)) or list(found)
    for name in chosen:
        if name not in found:
            raise UsageError(unknown_choice(f"task of {group}", name, list(found)))
    return [BenchmarkTask(load_card(found[name])) for name in chosen]


def read_task(task: BenchmarkTask, data_dir: str = "") -> TaskData:
    """The labeled molecules of a task, and its test molecules without labels; the table is downloaded if necessary.

    Args:
        task: the task.
        data_dir: a folder of data sets that is searched first.

    Raises:
        UsageError, InputError: as `fetch_dataset`, or a label that is not a number.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from molattn.benchmark import benchmark_tasks, read_task
    >>> (task,) = benchmark_tasks("tdc", ["herg"])
    >>> with tempfile.TemporaryDirectory() as data:  # two molecules of each part, in place of the published files
    ...     Path(data, "tdc", "herg").mkdir(parents=True)
    ...     for part in ("train_val", "test"):
    ...         _ = Path(data, "tdc", "herg", f"{part}.csv").write_text("Drug,Y\\nC1CC1,0\\nc1ccccc1,1\\n")
    ...     found = read_task(task, data)
    >>> len(found.smiles) == len(found.y), set(found.y.tolist()) == {0, 1}, len(found.test_smiles) > 0
    (True, True, True)
    """
    card, message = fetch_dataset(task.card.name, data_dir)
    table = read_table(card.path)
    smiles, split = column(table, card.smiles_column), column(table, task.official_split.column)
    labels = column(table, task.target)
    labeled = [row for row, label in enumerate(split) if label == "train"]
    return TaskData(
        tuple(smiles[row] for row in labeled),
        np.array([to_number(table, row, labels[row]) for row in labeled]),
        tuple(text for text, label in zip(smiles, split, strict=True) if label == "test"),
        message,
    )


def to_number(table: Table, row: int, cell: str) -> float:
    """The label in a cell, as a number. Raises InputError, with its line, if it is not a number."""
    try:
        return float(cell)
    except ValueError:
        raise InputError(f"{table.source}, {table.location(row)}: the label is {cell!r}, not a number") from None


@cache
def count_shared(labeled: tuple[str, ...], test: tuple[str, ...]) -> int:
    """The number of test molecules that have the same first InChIKey block as a labeled molecule.

    labeled, test: SMILES; one without an InChIKey, such as an invalid one, is not counted.
    """
    blocks = set(map(_inchikey_block, labeled)) - {""}
    return sum(_inchikey_block(text) in blocks for text in test)


def _inchikey_block(smiles: str) -> str:
    """The first block of the InChIKey; empty for an invalid SMILES."""
    try:
        return inchi_key(smiles)[:INCHIKEY_BLOCK]
    except SmilesError:
        return ""
