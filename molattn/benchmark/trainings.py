"""The trainings of a benchmark: from labeled molecules and a seed to predictions of the test molecules.

Labels of test molecules are not available here: they are in no argument, and `lint-imports` checks that this module
does not import `molattn.benchmark.scores`, which reads them.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from molattn.benchmark.tasks import BenchmarkTask, TaskData
from molattn.chem import read_smiles
from molattn.data import validation_labels, write_table
from molattn.errors import InputError, SmilesError
from molattn.training.config import BENCHMARK_SETTINGS
from molattn.training.reporter import Reporter, SilentReporter
from molattn.training.run import run
from molattn.training.run_config import RunConfig, check_config


@dataclass(frozen=True)
class TrainingJob:
    """One training of a benchmark.

    Attributes:
        task_type: "regression" or "binary".
        smiles: SMILES of the n labeled molecules, all of which RDKit can read.
        y: (n,) their labels.
        split: (n,) labels "train" or "val".
        test_smiles: SMILES of the m test molecules that RDKit can read.
        seed: seed of the training.

    >>> import numpy as np
    >>> from molattn.benchmark.trainings import TrainingJob
    >>> job = TrainingJob("regression", ["CCO", "CCN"], np.zeros(2), np.array(["train", "val"]), ["CCC"], seed=1)
    >>> job.seed
    1
    """

    task_type: str
    smiles: list[str]
    y: np.ndarray
    split: np.ndarray
    test_smiles: list[str]
    seed: int


Trainer = Callable[[TrainingJob], np.ndarray]
"""Trains a model for a job; returns (m,) predictions of the test molecules: numbers, or probabilities of class 1."""


def molattn_trainer(config: RunConfig, reporter: Reporter | None = None) -> Trainer:
    """A trainer of models of molattn, which trains as `molattn train` does with the same settings.

    Args:
        config: the settings; those in `molattn.training.config.BENCHMARK_SETTINGS` are replaced by the protocol's.
        reporter: reports the progress; the test labels in the data that it gets are placeholders. None for no reports.

    Raises:
        UsageError: invalid settings.
    """
    defaults = RunConfig().to_dict()
    protocol = {
        section: {name: defaults[section][name] for name in names} for section, names in BENCHMARK_SETTINGS.items()
    }
    config = config.updated(protocol, "the protocol")
    check_config(config)
    reporter = reporter or SilentReporter()

    def train(job: TrainingJob) -> np.ndarray:
        n = len(job.smiles)
        with tempfile.TemporaryDirectory(prefix="molattn-") as folder:
            table = Path(folder) / "table.csv"
            # A run needs labels of test rows. All are the same, so that they contain no information.
            placeholder = repr(float(job.y[0]))
            rows = [[text, repr(float(y)), label] for text, y, label in zip(job.smiles, job.y, job.split, strict=True)]
            write_table(
                table, ["smiles", "y", "split"], rows + [[text, placeholder, "test"] for text in job.test_smiles]
            )
            columns = {"smiles_column": "smiles", "target_columns": ["y"], "split_column": "split"}
            sections = {
                "data": {"dataset": str(table), "task_type": job.task_type, **columns},
                "training": {"seed": job.seed},
            }
            result = run(config.updated(sections, "the protocol"), Path(folder) / "run", reporter)
        predictions = np.full(n + len(job.test_smiles), np.nan)
        predictions[result.dataset.rows] = result.predictions.values[:, 0]
        for row, first_row in result.dataset.merged_rows.items():
            predictions[row] = predictions[first_row]
        return predictions[n:]

    return train


def train_and_predict(
    task: BenchmarkTask, data: TaskData, train: Trainer, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Train a model on the labeled molecules of a task, and predict its test molecules.

    Args:
        task: the task.
        data: its n labeled and m test molecules.
        train: trains the model.
        seed: seed of the training and of the validation split.

    Returns:
        (m,) predictions, which are the mean of the labels for a molecule that RDKit cannot read; (n,) split labels,
        "train", "val", or "" for a molecule that RDKit cannot read; and the number of molecules that it cannot read.

    Raises:
        InputError: a test molecule has no prediction, or one that is not finite.
    """
    labels = validation_labels(task.official_split, data.smiles, seed)
    rows = np.flatnonzero(labels != "")
    readable = [i for i, text in enumerate(data.test_smiles) if _is_readable(text)]
    job = TrainingJob(
        task.task_type,
        [data.smiles[row] for row in rows],
        data.y[rows],
        labels[rows],
        [data.test_smiles[i] for i in readable],
        seed,
    )
    found = np.asarray(train(job), dtype=float)
    if found.shape != (len(readable),) or not np.isfinite(found).all():
        if found.shape == (len(readable),):
            problem = f": {job.test_smiles[int(np.isfinite(found).argmin())]} has none"
        else:
            problem = f", but their shape is {found.shape}"
        raise InputError(f"{task.card.name}: {len(readable)} test molecules need finite predictions{problem}")
    predictions = np.full(len(data.test_smiles), data.y.mean())
    predictions[readable] = found
    return predictions, labels, len(labels) - len(rows) + len(data.test_smiles) - len(readable)


def _is_readable(smiles: str) -> bool:
    """Whether RDKit can read the SMILES."""
    try:
        read_smiles(smiles)
    except SmilesError:
        return False
    return True
