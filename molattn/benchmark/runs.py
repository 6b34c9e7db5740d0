"""Run a benchmark: train and score a model for each task and seed, in a folder from which the run can be resumed."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from molattn.benchmark.scores import score
from molattn.benchmark.summary import TaskSummary, summarize
from molattn.benchmark.tasks import BenchmarkTask, count_shared, read_task
from molattn.benchmark.trainings import Trainer, train_and_predict
from molattn.data import column, read_table, write_table
from molattn.data.files import write_text
from molattn.data.locks import lock_folder
from molattn.errors import InputError, UsageError

SEEDS = (1, 2, 3, 4, 5)
"""The seeds of TDC's protocol."""
SCORES_FILE, MODEL_FILE, PREDICTIONS_FOLDER = "scores.csv", "model.json", "predictions"
COLUMNS = (
    *("task", "seed", "part", "metric", "score", "lower", "upper"),
    *("train", "val", "test", "both_sides", "unreadable", "seconds", "version"),
)
"""The columns of `scores.csv`, which has a row for each training and part of the test molecules.

`part` is "all" or "cliffs", `both_sides` the result of `count_shared`, `unreadable` the number of invalid SMILES."""


def run_benchmark(
    tasks: Sequence[BenchmarkTask],
    train: Trainer,
    output_dir: str | Path,
    seeds: Sequence[int] = SEEDS,
    model: Any = "",
    data_dir: str = "",
    on_training: Callable[[str], None] | None = None,
) -> list[TaskSummary]:
    """Train a model for each task and seed by the protocol of a benchmark, and score it on the test molecules.

    `train` gets no labels of test molecules. Trainings that are already in `scores.csv` are not repeated: an
    interrupted benchmark is resumed, and seeds and tasks can be added.

    Args:
        tasks: tasks of one benchmark: see `benchmark_tasks`.
        train: the model: a function from a `molattn.benchmark.trainings.TrainingJob` to predictions of its m test
            molecules, (m,): numbers, or probabilities of the class 1.
        output_dir: folder of `scores.csv`, and of `predictions/TASK-SEED.csv`, the predictions of the test molecules.
        seeds: seeds of the trainings.
        model: a description of the model and its settings that can be written as JSON. It is stored in the folder, and
            a folder with another description is an error.
        data_dir: a folder of data sets that is searched first.
        on_training: called with a sentence before each training, and with messages on downloads.

    Returns:
        A summary for each task and each part of its test molecules.

    Raises:
        UsageError: no tasks, tasks of several benchmarks, no seeds, a folder of another model, or one that another
            process is using.
        InputError: a table cannot be read or downloaded, or a prediction is missing or not finite.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from molattn.benchmark import benchmark_tasks, run_benchmark
    >>> tasks = benchmark_tasks("tdc", ["herg"])
    >>> with tempfile.TemporaryDirectory() as data:  # two molecules of each part, in place of the published files
    ...     Path(data, "tdc", "herg").mkdir(parents=True)
    ...     for part in ("train_val", "test"):
    ...         _ = Path(data, "tdc", "herg", f"{part}.csv").write_text("Drug,Y\\nC1CC1,0\\nc1ccccc1,1\\n")
    ...     always_one = lambda job: np.ones(len(job.test_smiles))
    ...     (summary,) = run_benchmark(tasks, always_one, Path(data, "run"), seeds=[1, 2], data_dir=data)
    >>> summary.task, summary.seeds, summary.mean
    ('herg', (1, 2), 0.5)
    """
    groups = list(dict.fromkeys(task.group for task in tasks))
    if len(groups) != 1 or not seeds:
        raise UsageError(f"a benchmark needs tasks of one group and seeds, not {groups} and {list(seeds)}")
    folder, notify = Path(output_dir), on_training or (lambda _: None)
    with ExitStack() as locks:
        locks.enter_context(lock_folder(folder))
        (folder / PREDICTIONS_FOLDER).mkdir(exist_ok=True)
        _check_model(folder, {"benchmark": groups[0], "model": model})
        rows = read_scores(folder)
        done = {(row["task"], row["seed"]) for row in rows}
        missing = [(task, seed) for task in tasks for seed in seeds if (task.name, str(seed)) not in done]
        for number, (task, seed) in enumerate(missing, 1):
            notify(f"{number} of {len(missing)}: {task.card.name}, seed {seed}")
            rows += _train_and_score(task, train, seed, folder, data_dir, notify)
            write_table(folder / SCORES_FILE, COLUMNS, [[row[name] for name in COLUMNS] for row in rows])
    names, seed_texts = [task.name for task in tasks], set(map(str, seeds))
    chosen = [row for row in rows if row["task"] in names and row["seed"] in seed_texts]
    return summarize(sorted(chosen, key=lambda row: names.index(row["task"])), groups[0])


def _train_and_score(
    task: BenchmarkTask, train: Trainer, seed: int, folder: Path, data_dir: str, notify: Callable[[str], None]
) -> list[dict[str, str]]:
    """Train once, write the predictions, and score them; returns the new rows of `scores.csv`."""
    start, data = time.perf_counter(), read_task(task, data_dir)
    if data.message:
        notify(data.message)
    predictions, labels, unreadable = train_and_predict(task, data, train, seed)
    seconds = time.perf_counter() - start
    cells = [[text, repr(y)] for text, y in zip(data.test_smiles, predictions.tolist(), strict=True)]
    write_table(folder / PREDICTIONS_FOLDER / f"{task.name}-{seed}.csv", ["smiles", "prediction"], cells)
    common = {"task": task.name, "seed": seed, "metric": task.metric, "unreadable": unreadable}
    common |= {label: int(np.count_nonzero(labels == label)) for label in ("train", "val")}
    common |= {"both_sides": count_shared(data.smiles, data.test_smiles), "seconds": round(seconds, 1)}
    common |= {"version": version("molattn")}
    return [
        {key: str(value) for key, value in common.items()}
        | {"part": result.part, "test": str(result.molecules)}
        | {"score": f"{result.value:.5g}", "lower": f"{result.lower:.5g}", "upper": f"{result.upper:.5g}"}
        for result in score(task, predictions, data_dir)
    ]


def _check_model(folder: Path, model: dict[str, Any]) -> None:
    """Store the description of the model in a new folder; raise UsageError if the folder has another one."""
    path, text = folder / MODEL_FILE, json.dumps(model, indent=1, sort_keys=True) + "\n"
    if not path.is_file():
        write_text(path, text)
    elif path.read_text(encoding="utf-8") != text:
        raise UsageError(
            f"{folder} has trainings of another model or other settings, see {path.name}: give another --output-dir"
        )


def read_scores(folder: str | Path) -> list[dict[str, str]]:
    """The rows of `scores.csv` in the folder of a benchmark, by column; empty if there is no such file.

    Args:
        folder: the `output_dir` of `run_benchmark`.

    Raises:
        InputError: the file does not have the columns of `scores.csv`.
    """
    path = Path(folder) / SCORES_FILE
    if not path.is_file():
        return []
    table = read_table(path)
    if set(COLUMNS) - set(table.columns):
        raise InputError(f"{path} is not a file of scores: its columns are {', '.join(table.columns)}")
    columns = {name: column(table, name) for name in COLUMNS}
    return [{name: columns[name][row] for name in COLUMNS} for row in range(len(table.rows))]
