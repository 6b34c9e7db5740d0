"""Which epoch of a training to keep, and when to stop: rules compared on held-out molecules.

    python benchmarks/epoch_choice.py tdc
    python benchmarks/epoch_choice.py tdc --datasets herg caco2_wang --folds 0 1 2 --epochs 20
    python benchmarks/epoch_choice.py tdc --seconds
    python benchmarks/epoch_choice.py --page docs/epochs.md

`tdc` is a folder with a table NAME/train_val.csv for each data set, columns Drug and Y; the tables of test molecules
are not read. Each table is divided into five folds as in `benchmarks/folds.py`, by molecule ("random") or by scaffold.
One fold is held out, half of the next one is for validation and the other half for training: 70% of the molecules are
trained on, 10% are for validation, 20% are held out.

A training with the default settings runs for all its epochs, without early stopping. After each epoch, the loss and
metrics of the validation molecules and the metrics of the held-out ones are recorded, computed with the averaged
weights that would be kept. The epoch that a rule keeps, and the epoch at which it stops, are computed from these
records, see `epoch_rules.py`. The same command resumes an interrupted one.

`--seconds` measures the time of an epoch instead: the CPU time of one thread, validation included, the median of three
epochs after the first, on the training molecules of the first fold. All epochs of a training take the same time.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from arena_tasks import is_readable
from epoch_rules import EPOCHS, TASK_METRICS, page, read_trainings, write_rules
from folds import FOLDS, GROUPS, fold_labels
from tables import append_rows, read_rows

from molattn.data import column, read_table, write_table
from molattn.data.store.batches import batches_by_size
from molattn.data.store.molecule_store import molecule_sizes
from molattn.training.callbacks import Callback, ReportEpochs
from molattn.training.dataset import LabelledMolecules, PreparedDataset, collate_step
from molattn.training.early_stopping import EpochRecord
from molattn.training.ensemble import fit_ensemble
from molattn.training.initialization import resolve_initialization
from molattn.training.learner import Learner
from molattn.training.metrics import compute_metrics
from molattn.training.prepare import prepare_run
from molattn.training.run_config import RunConfig, resolve

MEASURED = [f"{side}_{name}" for names in TASK_METRICS.values() for name in names for side in ("val", "held")]
COLUMNS = ["dataset", "task", "split", "fold", "epochs", "train", "val", "epoch", "train_loss", "val_loss", *MEASURED]
RESULTS = Path(__file__).parent / "results"
SECONDS = RESULTS / "epoch_choice_seconds.csv"


def measure(learner: Learner, part: LabelledMolecules, names: Sequence[str]) -> dict[str, Any]:
    """The metrics of the averaged weights on molecules with one target; None where undefined."""
    model = learner.average.module
    model.eval()
    outputs, targets = [], []
    with torch.inference_mode():
        for rows in batches_by_size(molecule_sizes(part.molecules), 128):
            batch = collate_step(learner.model, part, rows.tolist())[0]
            outputs.append(model(batch).numpy())
            targets.append(np.asarray(batch.targets))
    predictions = learner.task.decode(np.concatenate(outputs), learner.scaler)
    return compute_metrics(np.concatenate(targets)[:, 0], learner.task.scores(predictions, 0), names)


def read_fold(path: Path, split: str, fold: int, epochs: int) -> tuple[RunConfig, PreparedDataset]:
    """The default settings from the base model, and the data set, whose test split is the held-out fold."""
    table = read_table(path)
    rows = [(s, y) for s, y in zip(column(table, "Drug"), column(table, "Y"), strict=True) if is_readable(s)]
    labels = fold_labels([s for s, _ in rows], split, fold)
    with tempfile.TemporaryDirectory() as folder:
        table = [(s, y, label) for (s, y), label in zip(rows, labels, strict=True)]
        write_table(Path(folder) / "fold.csv", ("smiles", "y", "split"), table)
        settings = {"dataset": f"{folder}/fold.csv", "split_column": "split", "target_columns": ["y"]}
        config = resolve(None, {**settings, "epochs": epochs, "patience": 10_000})
        dataset = prepare_run(config)
    atom_level, count = dataset.task.atom_level, len(dataset.subset("train").molecules)
    return resolve_initialization(replace(config, data=dataset.config), atom_level, count)[0], dataset


def curves(path: Path, split: str, fold: int, epochs: int) -> list[dict[str, Any]]:
    """A row for each epoch of one training."""
    config, dataset = read_fold(path, split, fold, epochs)
    train, val, held = (dataset.subset(side) for side in ("train", "val", "test"))
    names, rows = TASK_METRICS[dataset.task.kind], []

    class Recorder(Callback):
        """Computes the metrics of the held-out molecules after each epoch."""

        def on_epoch_end(self, learner: Learner, record: EpochRecord) -> None:
            """Record the losses and the metrics of an epoch."""
            measured = {side: measure(learner, part, names) for side, part in (("val", val), ("held", held))}
            values = {"train_loss": record.train_loss, "val_loss": record.val_loss}
            values |= {f"{side}_{name}": found[name] for side, found in measured.items() for name in names}
            rows.append({"epoch": record.epoch} | {k: f"{v:.5g}" for k, v in values.items() if v is not None})

    train_on(config, dataset, Recorder())
    common = {"task": dataset.task.kind, "train": len(train.molecules), "val": len(val.molecules)}
    return [common | {"epochs": config.training.epochs} | row for row in rows]


def train_on(config: RunConfig, dataset: PreparedDataset, callback: Callback) -> None:
    """Train the model, or the ensemble, of these settings."""
    task, train, val = dataset.task, dataset.subset("train"), dataset.subset("val")
    fit_ensemble(config, task, task.fit_scaler(train.targets), train, val, task.metrics[0], [callback])


def seconds_of_epoch(path: Path) -> dict[str, Any]:
    """The CPU time of an epoch on the first fold by molecule."""
    config, dataset = read_fold(path, "random", 0, EPOCHS)
    config = replace(config, training=replace(config.training, epochs=4))
    ends: list[float] = []
    train_on(config, dataset, ReportEpochs(lambda *_: ends.append(time.process_time())))
    count = len(dataset.subset("train").molecules)
    return {"task": dataset.task.kind, "train": count, "seconds": f"{statistics.median(np.diff(ends)):.3g}"}


def run(arguments: argparse.Namespace) -> None:
    """Make the missing trainings, fold by fold, the smallest data sets first."""
    names = arguments.datasets or sorted(path.parent.name for path in arguments.data.glob("*/train_val.csv"))
    sizes = {name: len(read_table(arguments.data / name / "train_val.csv").rows) for name in names}
    requested = [
        (name, split, fold, epochs)
        for fold in arguments.folds
        for name in sorted(names, key=lambda name: (sizes[name], name))
        for split in arguments.splits
        for epochs in arguments.epochs
    ]
    done = {training.key for training in read_trainings(arguments.output)}
    for name, split, fold, epochs in requested:
        if (name, split, fold, epochs) in done:
            continue
        start = time.process_time()
        rows = curves(arguments.data / name / "train_val.csv", split, fold, epochs)
        common = {"dataset": name, "split": split, "fold": fold}
        append_rows(arguments.output, [common | row for row in rows], COLUMNS)
        seconds = time.process_time() - start
        print(f"{name}, {split} {fold}, {epochs} epochs: {seconds:.0f} s of CPU", file=sys.stderr, flush=True)


def measure_seconds(data: Path, names: Sequence[str], output: Path) -> None:
    """Append a row for each data set that has none yet."""
    done = {row["dataset"] for row in read_rows(output)}
    for name in names or sorted(path.parent.name for path in data.glob("*/train_val.csv")):
        if name not in done:
            append_rows(output, [{"dataset": name} | seconds_of_epoch(data / name / "train_val.csv")])


def main() -> None:
    """Make the missing trainings; then write the rules and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the tables; without it, nothing is trained")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=RESULTS / "epoch_choice_curves.csv",
        help="CSV file with a row for each epoch",
    )
    parser.add_argument(
        "--rules", type=Path, default=RESULTS / "epoch_choice.csv", help="CSV file with a row for each rule"
    )
    parser.add_argument("--page", type=Path, help="the Markdown file to write, docs/epochs.md")
    parser.add_argument("--datasets", nargs="+", default=[])
    parser.add_argument("--splits", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--folds", type=int, nargs="+", default=[0], choices=range(FOLDS))
    parser.add_argument("--epochs", type=int, nargs="+", default=[40])
    parser.add_argument("--seconds", action="store_true", help="measure the time of an epoch instead of training")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.data and arguments.seconds:
        measure_seconds(arguments.data, arguments.datasets, SECONDS)
    elif arguments.data:
        run(arguments)
    trainings = read_trainings(arguments.output)
    write_rules(trainings, arguments.rules)
    if arguments.page:
        seconds = {row["dataset"]: float(row["seconds"]) for row in read_rows(SECONDS)}
        arguments.page.write_text(page(trainings, seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
