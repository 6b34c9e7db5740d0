"""The trainings of a benchmark: from labeled molecules and a seed to predictions of the test molecules.

Nothing here can read a label of a test molecule, neither from its input nor through its imports, which `lint-imports`
checks: `molattn.benchmark.scores` does.
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
        split: (n,) "train" or "val".
        test_smiles: SMILES of the m test molecules that RDKit can read.
        seed: of the training.

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
"""From a training to the predictions of its test molecules, (m,): numbers, or probabilities of the class 1."""


def molattn_trainer(config: RunConfig, reporter: Reporter | None = None) -> Trainer:
    """A model of molattn, trained as by `molattn train` with the same settings.

    Args:
        config: the settings; those of `molattn.training.config.BENCHMARK_SETTINGS` are replaced.
        reporter: of the progress; its data are those of a table without test labels.

    Raises:
        UsageError: invalid settings.
    """
    defaults = RunConfig().to_dict()
    decided = {
        section: {name: defaults[section][name] for name in names} for section, names in BENCHMARK_SETTINGS.items()
    }
    config = config.updated(decided, "the protocol")
    check_config(config)
    reporter = reporter or SilentReporter()

    def train(job: TrainingJob) -> np.ndarray:
        n = len(job.smiles)
        with tempfile.TemporaryDirectory(prefix="molattn-") as folder:
            table = Path(folder) / "table.csv"
            # A run needs labels of test rows. The same for all, so that nothing can be learned from them.
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
        for row, kept in result.dataset.merged_rows.items():
            predictions[row] = predictions[kept]
        return predictions[n:]

    return train


def train_and_predict(
    task: BenchmarkTask, data: TaskData, train: Trainer, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Train a model on the labeled molecules of a task, and predict its test molecules.

    Args:
        task: the task.
        data: its n labeled and m test molecules.
        train: the model.
        seed: of the training, and of the choice of the validation molecules.

    Returns: (m,) predictions, the mean of the labels for a molecule that RDKit cannot read; the (n,) labels "train",
    "val" or ""; and the number of molecules that RDKit cannot read.

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
        missing = [job.test_smiles[i] for i in np.flatnonzero(~np.isfinite(found))[:1]] if found.ndim == 1 else []
        which = f": {missing[0]} has none" if missing else f", but their shape is {found.shape}"
        raise InputError(f"{task.card.name}: {len(readable)} test molecules need finite predictions{which}")
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
