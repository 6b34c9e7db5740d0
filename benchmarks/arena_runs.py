"""The trainings of `arena.py`: each writes its predictions of the test molecules and a record to the folder of runs.

Nothing here can read a label of a test molecule, neither from its input nor through its imports: `arena_score.py` is
imported only by the command `score`.
"""

import hashlib
import json
import os
import resource
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from arena_statistics import metric_value
from arena_tasks import TASKS, TDC, Task, TaskData, is_readable, protocol_split, read_task
from compared_models import ARENA_MODELS, Trainer, TrainingJob, molattn
from folds import fold_labels
from peers import FOLDER, PEERS
from report import describe_machine, machine
from tables import read_column, write_rows

from molattn.benchmark.tasks import count_shared
from molattn.errors import UsageError
from molattn.training.bases import DEFAULT_BASE, FEW_MOLECULES, LARGE_BASE, MANY_MOLECULES
from molattn.training.skewed_targets import recognize_transform

ENVIRONMENTS = {"catboost": "catboost", "chemprop": "chemprop", "chemprop-rdkit": "chemprop", "attentivefp": "pyg"}
"""The environment in `peers.py` of each model of another project."""

NO_TRANSFORM, NO_DISTILLATION = "--target-transform none", "--distillation 0"
"""The options of a training without the target transform that the defaults may recognize."""


@dataclass(frozen=True)
class Record:
    """The record of a training.

    Attributes:
        task, model, seed: identify the training.
        options: options of `molattn train`.
        train, val, test: numbers of molecules.
        unreadable: the number of rows that RDKit cannot read; for those of the test table, the prediction is the mean
            of the labels.
        both_sides: the number of test molecules whose first InChIKey block is that of a labeled molecule.
        seconds: CPU time.
        version, machine: the software and the hardware.
        answers_sha256: the checksum of the file of predictions.
    """

    task: str
    model: str
    seed: int
    options: str
    train: int
    val: int
    test: int
    unreadable: int
    both_sides: int
    seconds: float
    version: str
    machine: str
    answers_sha256: str


def find_model(name: str, options: str = "") -> Trainer:
    """A model of `ARENA_MODELS`, with options of `molattn train`.

    Raises:
        UsageError: there is no such model, or it has no options.
    """
    if name not in ARENA_MODELS:
        raise UsageError(f"there is no model {name!r}: choose among {', '.join(ARENA_MODELS)}")
    if not options:
        return ARENA_MODELS[name]
    if name != "molattn":
        raise UsageError(f"the options are those of `molattn train`, which {name} does not have: leave them out")
    return partial(molattn, options=shlex.split(options))


def model_version(name: str) -> str:
    """The versions of the packages of a model; for molattn also the commit."""
    if name in ENVIRONMENTS:
        return ", ".join(PEERS[ENVIRONMENTS[name]])
    if not name.startswith("molattn"):
        return f"scikit-learn=={version('scikit-learn')}, rdkit=={version('rdkit')}"
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude", "*"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    commit = completed.stdout.strip() if not completed.returncode else ""
    return f"molattn=={version('molattn')}" + (f" ({commit})" if commit else "")


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def train_and_predict(
    task: Task, data: TaskData, labels: np.ndarray, train: Trainer, seed: int, peers: Path = FOLDER
) -> tuple[np.ndarray, float]:
    """Train a model on the labeled molecules and predict the test molecules, whose labels it does not get.

    Args:
        task: the task.
        data: its labeled molecules, n, and test molecules, m.
        labels: (n,) train or val.
        train: the model.
        seed: of the training.
        peers: the folder with the environments of other projects.

    Returns: (m,) predictions, the mean of y for a molecule that RDKit cannot read; and the seconds of CPU time.

    Raises:
        RuntimeError: a prediction is missing or not finite.
    """
    start, n = cpu_seconds(), len(data.smiles)
    readable = [i for i, smiles in enumerate(data.test_smiles) if is_readable(smiles)]
    with tempfile.TemporaryDirectory() as folder:
        rows = [*zip(data.smiles, data.y.tolist(), labels, strict=True)]
        rows += [(data.test_smiles[i], "", "test") for i in readable]
        table = write_rows(Path(folder) / "table.csv", ["smiles", "y", "split"], rows)
        found = train(TrainingJob(table, task.task_type, seed, Path(folder), peers, task.log_target))
    if found.shape != (len(rows),) or not np.isfinite(found).all():
        raise RuntimeError(f"{task.name}: {found.shape} predictions for {len(rows)} rows, or not finite ones")
    predictions = np.full(len(data.test_smiles), data.y.mean())
    predictions[readable] = found[n:]
    return predictions, cpu_seconds() - start


def tagged_name(model: str, tag: str) -> str:
    """The name of a model in records and results."""
    return f"{model} {tag}" if tag else model


def run_paths(runs: Path, model: str, task: str, seed: int) -> tuple[Path, Path]:
    """The files of the predictions and of the record of a training."""
    stem = runs / model / f"{task}-{seed}"
    return stem.with_suffix(".csv"), stem.with_suffix(".json")


def train(
    data: Path, runs: Path, name: str, model: str, seed: int, options: str = "", tag: str = "", peers: Path = FOLDER
) -> Record:
    """Train a model on a task by its protocol. The record is written last, so that an interrupted run is repeated.

    `tag` follows the name of the model in the record, to distinguish runs with options.
    """
    task, task_data, trainer = TASKS[name], read_task(data, name), find_model(model, options)
    software, model = model_version(model), tagged_name(model, tag)
    labels = protocol_split(task, task_data.smiles, seed)
    predictions, seconds = train_and_predict(task, task_data, labels, trainer, seed, peers)
    path, record_path = run_paths(runs, model, name, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["row,y_pred", *(f"{row},{y!r}" for row, y in enumerate(predictions.tolist()))]
    _replace(path, "\n".join(lines) + "\n")
    record = Record(
        task=name,
        model=model,
        seed=seed,
        options=options,
        train=int((labels == "train").sum()),
        val=int((labels == "val").sum()),
        test=len(task_data.test_smiles),
        unreadable=task_data.unreadable + sum(not is_readable(smiles) for smiles in task_data.test_smiles),
        both_sides=count_shared(task_data.smiles, task_data.test_smiles),
        seconds=round(seconds, 1),
        version=software,
        machine=describe_machine(machine()),
        answers_sha256=_sha256(path),
    )
    _replace(record_path, json.dumps(asdict(record), indent=1) + "\n")
    return record


def train_fold(data: Path, name: str, options: str, fold: int, seed: int, peers: Path = FOLDER) -> dict[str, object]:
    """Train without a fold of the labeled molecules, and score the predictions of that fold: a row of results.

    The folds are those of `epoch_choice.py`, by scaffold for TDC and by molecule for MoleculeACE: 70% of the labeled
    molecules are for training, 10% for validation, and 20% are held out, without their labels.

    Args:
        options: options of `molattn train`, or the name of another model.
    """
    task, data_of_task = TASKS[name], read_task(data, name)
    labels = fold_labels_of(data, name, fold)
    is_held_out = labels == "test"
    smiles = np.array(data_of_task.smiles, dtype=object)
    fold_data = TaskData(tuple(smiles[~is_held_out]), data_of_task.y[~is_held_out], tuple(smiles[is_held_out]))
    model, settings = model_and_options(options)
    predictions, seconds = train_and_predict(
        task, fold_data, labels[~is_held_out], find_model(model, settings), seed, peers
    )
    return {
        "task": name,
        "options": options,
        "fold": fold,
        "seed": seed,
        "metric": task.metric,
        "score": f"{metric_value(task.metric, data_of_task.y[is_held_out], predictions):.5g}",
        "train": int((labels == "train").sum()),
        "held": int(is_held_out.sum()),
        "seconds": round(seconds, 1),
        "version": model_version(model),
        "machine": describe_machine(machine()),
    }


def explicit_options(options: str, molecules: int, no_transform: bool) -> str:
    """The options with the base model that they lead to, and without those that change nothing.

    Trainings of a task with the same explicit options are the same.

    Args:
        options: options of `molattn train`, or the name of another model, which stays as it is.
        molecules: the number of training molecules, which decides on the base model and on distillation.
        no_transform: whether no transform of the target is recognized.

    >>> explicit_options("", 1500, True), explicit_options("--target-transform none --base nci", 900, False)
    ('--base chembl', '--target-transform none --base nci')
    >>> explicit_options("--distillation 0", 1500, True), explicit_options("--distillation 0", 300, True)
    ('--base chembl', '--base nci --distillation 0')
    """
    if options in ARENA_MODELS:
        return options
    if no_transform:
        options = options.removeprefix(NO_TRANSFORM).strip()
    without = NO_DISTILLATION in options and molecules in FEW_MOLECULES
    options = options.removesuffix(NO_DISTILLATION).strip()
    if "--base" not in options.split():
        options = f"{options} --base {LARGE_BASE if molecules in MANY_MOLECULES else DEFAULT_BASE}".strip()
    return f"{options} {NO_DISTILLATION}" if without else options


def defaults_of_fold(data: Path, name: str, fold: int) -> tuple[int, bool]:
    """What the defaults depend on: `molecules` and `no_transform` of `explicit_options`, for a training in a fold."""
    labels, y = fold_labels_of(data, name, fold), read_task(data, name).y
    no_transform = TASKS[name].task_type != "regression" or (
        recognize_transform(y[labels == "train"], y[labels != "test"])[0] is None
    )
    return int((labels == "train").sum()), no_transform


def fold_labels_of(data: Path, name: str, fold: int) -> np.ndarray:
    """(n,) train, val or test for each labeled molecule of a task."""
    smiles = list(read_task(data, name).smiles)
    return fold_labels(smiles, "scaffold" if TASKS[name].group == TDC else "random", fold)


def model_and_options(options: str) -> tuple[str, str]:
    """The name of a model without options, or molattn with options of `molattn train`."""
    return (options, "") if options in ARENA_MODELS else ("molattn", options)


def records(runs: Path) -> list[Record]:
    """The records of the finished trainings in a folder."""
    return [Record(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(runs.glob("*/*.json"))]


def is_finished(runs: Path, model: str, task: str, seed: int) -> bool:
    """Whether there is a record of the training."""
    return run_paths(runs, model, task, seed)[1].is_file()


def finished_runs(runs: Path) -> Iterator[tuple[Record, np.ndarray]]:
    """The records of the finished trainings in a folder, and their (m,) predictions of the test molecules.

    Raises:
        RuntimeError: a file of predictions has changed since its training.
    """
    for record in records(runs):
        path, record_path = run_paths(runs, record.model, record.task, record.seed)
        if _sha256(path) != record.answers_sha256:
            raise RuntimeError(f"{path} has changed since its training: delete it and {record_path}, and train again")
        yield record, read_column(path, "y_pred")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _replace(path: Path, text: str) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
