"""The models that `accuracy.py` and `arena.py` compare: functions that train on a table and predict all of its rows.

Each runs as its users run it, in a process of its own on one thread; early stopping and other choices use the
validation rows. To add a model, write a function and add it to `ACCURACY_MODELS` or `ARENA_MODELS`.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from commands import MOLATTN, run
from peers import FOLDER, python_of
from tables import read_column, read_rows, write_rows

HERE = Path(__file__).parent


@dataclass(frozen=True)
class TrainingJob:
    """One training.

    Attributes:
        table: columns smiles, y, split; RDKit can read each molecule. y of test rows may be empty.
        task: "regression" or "binary".
        seed: the random seed.
        folder: an empty folder for the files of the training.
        peers: the folder with the environments of other projects.
        log_target: whether y spans orders of magnitude, for models that are then trained on its logarithm.
    """

    table: Path
    task: str
    seed: int
    folder: Path
    peers: Path = FOLDER
    log_target: bool = False

    @property
    def filled_table(self) -> Path:
        """The table with the first label in each empty cell of y, for programs that require a label of test rows.

        The test metrics that such programs report are meaningless, and are not read.
        """
        rows = read_rows(self.table)
        if all(row["y"] for row in rows):
            return self.table
        placeholder = next(row["y"] for row in rows if row["y"])
        filled = ([row["smiles"], row["y"] or placeholder, row["split"]] for row in rows)
        return write_rows(self.folder / "filled.csv", ["smiles", "y", "split"], filled)


Trainer = Callable[[TrainingJob], np.ndarray]
"""From a training to the predictions of all rows, (n,): numbers, or probabilities of class 1."""


def molattn(job: TrainingJob, options: Sequence[str] = ()) -> np.ndarray:
    """`molattn train` with its default settings and `options`."""
    output = job.folder / "run"
    columns = ("--smiles-column", "smiles", "--target-columns", "y", "--split-column", "split")
    run([*MOLATTN, "train", job.filled_table, *columns, "--seed", job.seed, "-o", output, "--quiet", *options])
    return read_column(output / "predictions.csv", "y_pred")


def _run_script(job: TrainingJob, python: str | Path, script: str, *options: object) -> np.ndarray:
    """The predictions of one of the scripts in this folder."""
    output = job.folder / "predictions.csv"
    common = ("--task", job.task, "--seed", job.seed, "-o", output)
    run([python, HERE / script, job.filled_table, *common, *options])
    return read_column(output, "y_pred")


def classical(job: TrainingJob, kind: str, options: Sequence[str] = ()) -> np.ndarray:
    """A random forest or gradient boosting of scikit-learn on RDKit's descriptors and Morgan counts."""
    return _run_script(job, sys.executable, "classical.py", "--kind", kind, *options)


def attentivefp(job: TrainingJob) -> np.ndarray:
    """PyG's AttentiveFP, the best of 50 epochs by the validation loss."""
    return _run_script(job, python_of("pyg", job.peers), "attentivefp.py")


def catboost(job: TrainingJob) -> np.ndarray:
    """CatBoost with the features and settings of MapLight."""
    options = ["--log-target"] if job.log_target else []
    return _run_script(job, python_of("catboost", job.peers), "catboost_maplight.py", *options)


def chemprop(job: TrainingJob, featurizer: str = "", options: Sequence[str] = ()) -> np.ndarray:
    """`chemprop train` with its default settings, then `chemprop predict`.

    Args:
        job: the training.
        featurizer: a molecule featurizer; empty for none.
        options: further options of `chemprop train`.
    """
    program, model = python_of("chemprop", job.peers).with_name("chemprop"), job.folder / "model"
    task = {"regression": "regression", "binary": "classification"}[job.task]
    columns = ("--smiles-columns", "smiles", "--target-columns", "y", "--splits-column", "split")
    device = ("--accelerator", "cpu", "--devices", "1")
    seeds = ("--pytorch-seed", job.seed, "--data-seed", job.seed)
    features = ("--molecule-featurizers", featurizer) if featurizer else ()
    train = ("train", "-i", job.filled_table, *columns, "-t", task, *seeds, "-o", model)
    run([program, *train, *device, *features, *options])
    # Without y, because its predictions would overwrite a column of that name.
    smiles = write_rows(job.folder / "smiles.csv", ["smiles"], ([row["smiles"]] for row in read_rows(job.table)))
    output, best = job.folder / "predictions.csv", model / "model_0" / "best.pt"
    predict = ("predict", "-i", smiles, "--smiles-columns", "smiles", "--model-paths", best, "-o", output)
    run([program, *predict, *device, *features])
    return read_column(output, "y")


ACCURACY_MODELS: dict[str, Trainer] = {
    "molattn": molattn,
    "molattn-scratch": partial(molattn, options=("--base", "none")),
    "molattn-ensemble": partial(molattn, options=("--ensemble-size", "5")),
    "molattn-scratch-ensemble": partial(molattn, options=("--base", "none", "--ensemble-size", "5")),
    "forest": partial(classical, kind="forest"),
    "boosting": partial(classical, kind="boosting"),
    "chemprop": chemprop,
    "attentivefp": attentivefp,
}
"""The models of `accuracy.py`, by their names in the results."""

ARENA_MODELS: dict[str, Trainer] = {
    **ACCURACY_MODELS,
    "forest-morgan": partial(classical, kind="forest", options=("--features", "morgan")),
    "catboost": catboost,
    # Its descriptors are quantiles, which need no scaling.
    "chemprop-rdkit": partial(chemprop, featurizer="v1_rdkit_2d_normalized", options=("--no-descriptor-scaling",)),
}
"""The models of `arena.py`: those of `accuracy.py`, and models of the published tables."""
