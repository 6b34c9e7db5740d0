"""Which epoch of a training to keep, and when to stop: rules compared on molecules that chose nothing.

    python benchmarks/epoch_choice.py tdc
    python benchmarks/epoch_choice.py tdc --datasets herg caco2_wang --folds 0 1 2 --epochs 20
    python benchmarks/epoch_choice.py tdc --seconds
    python benchmarks/epoch_choice.py --page docs/epochs.md

`tdc` is a folder with a table NAME/train_val.csv for each data set, columns Drug and Y; the tables of test molecules
beside them are not opened. Each table is cut into five folds as in `benchmarks/folds.py`, by molecule ("random") or by
scaffold. One fold is held out, half of the next one validates and the other half is trained on: 70% of the molecules
train, 10% validate, 20% are held out.

One training with the default settings goes through all its epochs, whatever the validation says. After each, the loss
and metrics of the validation molecules and the metrics of the held-out ones are written down, by the averaged weights
that would be kept. What a rule would have kept, and after how many epochs it would have stopped, is computed from these
lines, see `epoch_rules.py`. The same command goes on where it was stopped.

`--seconds` measures what an epoch takes instead: the CPU time of one thread, validation included, the median of three
epochs after the first, on the training molecules of the first fold. Of one training all epochs cost the same.
"""

import argparse
import csv
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from epoch_rules import EPOCHS, METRICS, page, read_lines, read_trainings, write_rules
from folds import FOLDS, canonical, folds

from molattn.chem import murcko_scaffold
from molattn.data import column, read_table, write_table
from molattn.data.store.batches import batches_by_size
from molattn.data.store.molecule_store import molecule_sizes
from molattn.errors import MolattnError
from molattn.models.base import MODELS
from molattn.training import fit
from molattn.training.config import RunConfig, resolve
from molattn.training.dataset import LabelledMolecules, PreparedDataset, collate_step
from molattn.training.early_stopping import EpochRecord
from molattn.training.initialization import resolve_initialization
from molattn.training.learner import Learner
from molattn.training.metrics import compute_metrics
from molattn.training.prepare import prepare

MEASURED = [f"{side}_{name}" for names in METRICS.values() for name in names for side in ("val", "held")]
COLUMNS = ["dataset", "task", "split", "fold", "epochs", "train", "val", "epoch", "train_loss", "val_loss", *MEASURED]
RESULTS = Path(__file__).parent / "results"
SECONDS = RESULTS / "epoch_choice_seconds.csv"
SPLITS = {"random": canonical, "scaffold": murcko_scaffold}


def sides(smiles: list[str], split: str, fold: int) -> np.ndarray:
    """The side of every row: the fold is the test side, and half of the next one, by groups, the validation side."""
    group_of = SPLITS[split]
    labels = folds(smiles, np.full(len(smiles), "train"), group_of)[fold]
    rows = np.flatnonzero(labels == "val")
    groups = {group: i for i, group in enumerate(dict.fromkeys(group_of(smiles[row]) for row in rows))}
    for row in rows:
        if groups[group_of(smiles[row])] % 2:
            labels[row] = "train"
    return labels


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
    answers = learner.task.decode(np.concatenate(outputs), learner.scaler)
    return compute_metrics(np.concatenate(targets)[:, 0], learner.task.scores(answers, 0), names)


def readable(smiles: str) -> bool:
    """Whether RDKit reads the molecule."""
    try:
        return bool(canonical(smiles))
    except MolattnError:
        return False


def read_fold(path: Path, split: str, fold: int, epochs: int) -> tuple[RunConfig, PreparedDataset]:
    """The settings of a training from the base by default, and its molecules; the held-out ones are the test side."""
    table = read_table(path)
    rows = [(s, y) for s, y in zip(column(table, "Drug"), column(table, "Y"), strict=True) if readable(s)]
    labels = sides([s for s, _ in rows], split, fold)
    with tempfile.TemporaryDirectory() as folder:
        labelled = [(s, y, side) for (s, y), side in zip(rows, labels, strict=True)]
        write_table(Path(folder) / "fold.csv", ("smiles", "y", "split"), labelled)
        wanted = {"dataset": f"{folder}/fold.csv", "split_column": "split", "target_columns": ["y"]}
        config = resolve(None, {**wanted, "epochs": epochs, "patience": 10_000})
        resolved, _ = resolve_initialization(config)
        dataset = prepare(resolved.data, MODELS[config.model.kind], config.training.seed, 0, lambda *_: None, "", 0.1)
    of_atoms, count = dataset.task.of_atoms, len(dataset.subset("train").molecules)
    return resolve_initialization(replace(config, data=dataset.config), of_atoms, count)[0], dataset


def curves(path: Path, split: str, fold: int, epochs: int) -> list[dict[str, Any]]:
    """One training, a line for each epoch."""
    config, dataset = read_fold(path, split, fold, epochs)
    train, val, held = (dataset.subset(side) for side in ("train", "val", "test"))
    names, lines = METRICS[dataset.task.kind], []

    class Recorder(fit.EarlyStopping):
        """`EarlyStopping` that also measures the molecules held out."""

        def update(self, epoch: int, learner: Learner) -> bool:
            """Measure an epoch, then decide as without this."""
            measured = {side: measure(learner, part, names) for side, part in (("val", val), ("held", held))}
            stop = super().update(epoch, learner)
            last = self.history[-1]
            shown = {f"{side}_{name}": found[name] for side, found in measured.items() for name in names}
            losses = {"train_loss": last.train_loss, "val_loss": last.val_loss}
            lines.append({"epoch": epoch + 1} | {k: f"{v:.5g}" for k, v in (losses | shown).items() if v is not None})
            return stop

    with mock.patch.object(fit, "EarlyStopping", Recorder):
        train_on(config, dataset)
    where = {"task": dataset.task.kind, "train": len(train.molecules), "val": len(val.molecules)}
    return [where | {"epochs": config.training.epochs} | line for line in lines]


def train_on(
    config: RunConfig, dataset: PreparedDataset, on_epoch: Callable[[EpochRecord], None] = lambda _: None
) -> None:
    """Train the model, or the ensemble, of these settings."""
    task, train, val = dataset.task, dataset.subset("train"), dataset.subset("val")
    fit.fit_ensemble(config, task, task.fit_scaler(train.targets), train, val, task.metrics[0], on_epoch)


def seconds_of_epoch(path: Path) -> dict[str, Any]:
    """The CPU time of an epoch on the first fold by molecule."""
    config, dataset = read_fold(path, "random", 0, EPOCHS)
    config = replace(config, training=replace(config.training, epochs=4))
    ends: list[float] = []
    train_on(config, dataset, lambda _: ends.append(time.process_time()))
    count = len(dataset.subset("train").molecules)
    return {"task": dataset.task.kind, "train": count, "seconds": f"{statistics.median(np.diff(ends)):.3g}"}


def run(arguments: argparse.Namespace) -> None:
    """Train what is missing, fold by fold, the smallest sets first."""
    names = arguments.datasets or sorted(path.parent.name for path in arguments.data.glob("*/train_val.csv"))
    sizes = {name: len(read_table(arguments.data / name / "train_val.csv").rows) for name in names}
    wanted = [
        (name, split, fold, epochs)
        for fold in arguments.folds
        for name in sorted(names, key=lambda name: (sizes[name], name))
        for split in arguments.splits
        for epochs in arguments.epochs
    ]
    done = {training.key for training in read_trainings(arguments.output)}
    for name, split, fold, epochs in wanted:
        if (name, split, fold, epochs) in done:
            continue
        start = time.process_time()
        found = curves(arguments.data / name / "train_val.csv", split, fold, epochs)
        where = {"dataset": name, "split": split, "fold": fold}
        append_lines(arguments.output, COLUMNS, [where | line for line in found])
        seconds = time.process_time() - start
        print(f"{name}, {split} {fold}, {epochs} epochs: {seconds:.0f} s of CPU", file=sys.stderr, flush=True)


def measure_seconds(data: Path, names: Sequence[str], output: Path) -> None:
    """A line for each data set that has none yet."""
    done = {line["dataset"] for line in read_lines(output)}
    for name in names or sorted(path.parent.name for path in data.glob("*/train_val.csv")):
        if name not in done:
            line = {"dataset": name} | seconds_of_epoch(data / name / "train_val.csv")
            append_lines(output, list(line), [line])


def append_lines(path: Path, columns: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
    """Write lines at the end of a CSV file, which gets its header first if it is new."""
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(lines)


def main() -> None:
    """Train what is missing; then write the rules and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the tables; nothing is trained without it")
    parser.add_argument(
        "-o", "--output", type=Path, default=RESULTS / "epoch_choice_curves.csv", help="a line for each epoch"
    )
    parser.add_argument("--rules", type=Path, default=RESULTS / "epoch_choice.csv", help="a line for each rule")
    parser.add_argument("--page", type=Path, help="where the tables are written, docs/epochs.md")
    parser.add_argument("--datasets", nargs="+", default=[])
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), choices=list(SPLITS))
    parser.add_argument("--folds", type=int, nargs="+", default=[0], choices=range(FOLDS))
    parser.add_argument("--epochs", type=int, nargs="+", default=[40])
    parser.add_argument("--seconds", action="store_true", help="measure what an epoch takes, and train nothing else")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.data and arguments.seconds:
        measure_seconds(arguments.data, arguments.datasets, SECONDS)
    elif arguments.data:
        run(arguments)
    trainings = read_trainings(arguments.output)
    write_rules(trainings, arguments.rules)
    if arguments.page:
        seconds = {line["dataset"]: float(line["seconds"]) for line in read_lines(SECONDS)}
        arguments.page.write_text(page(trainings, seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
