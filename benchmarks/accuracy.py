"""The accuracy of molattn and other models on identical splits: a row of results for each run, and tables.

    python benchmarks/accuracy.py                                          # ESOL, single models, all splits
    python benchmarks/accuracy.py --datasets freesolv bbbp --models molattn chemprop --splits random0 scaffold
    python benchmarks/accuracy.py --tables                                 # writes docs/accuracy.md without training

The protocol. All models get the same table: the molecules that RDKit can read, their target in its own unit, and the
split. A model is trained on `train`, uses `val` for early stopping and other choices, and predicts every row. One
function computes the errors of all models from the predictions: RMSE in the unit of the target, or AUROC. The test
rows are evaluated once per run. Each run has one thread.

The splits are those in datasets/splits: one file for each split of ESOL; for FreeSolv, Lipophilicity and BBBP one table
with a column per split. Other splits are made by `molattn.data`, with the number as the seed. A run that is in the file
of results is skipped, so an interrupted command can be resumed. `--jobs 2` makes two runs at a time. Models of other
projects run in environments of their own: see `peers.py`.
"""

import argparse
import hashlib
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_page import ENSEMBLE, page
from compared_models import ACCURACY_MODELS, TrainingJob
from peers import FOLDER
from report import machine
from sklearn.metrics import roc_auc_score
from tables import append_rows, read_rows, write_rows

from molattn.chem import canonical_smiles, read_smiles
from molattn.data import (
    column,
    datasets_dir,
    fetch_dataset,
    read_split_column,
    read_split_file,
    read_table,
    split_labels,
)
from molattn.errors import InputError, SmilesError

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "accuracy.csv"
PAGE = ROOT / "docs" / "accuracy.md"
SIZES = (0.8, 0.1, 0.1)
SPLITS = (*(f"random{i}" for i in range(10)), "scaffold", "scaffold-balanced0")
DIGEST = "smiles_sha256"


def split_file(dataset: str, split: str = "") -> Path:
    """The file of a split of a data set, or the table that has a column for each split."""
    return datasets_dir() / "splits" / (f"{dataset}-{split}.csv" if split else f"{dataset}.csv")


@dataclass
class Result:
    """One row of the file of results; errors are in the unit of the target."""

    dataset: str
    split: str
    model: str
    seed: int
    metric: str
    train: int
    test: int
    val_error: float
    test_error: float
    seconds: float
    split_sha256: str
    machine: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Identifies the run."""
        return self.dataset, self.split, self.model, self.seed


def read_results(path: Path) -> list[Result]:
    """The results in a file; none if there is no file yet."""
    types: dict[str, Any] = {field.name: field.type for field in fields(Result)}
    return [Result(**{name: types[name](text) for name, text in row.items()}) for row in read_rows(path)]


@dataclass(frozen=True)
class Dataset:
    """The data of all models: the molecules that RDKit can read, and the first target of the card.

    Attributes:
        name, task: the data set, and "regression" or "binary".
        smiles, keys, y: (n,) SMILES, canonical SMILES and targets.
        rows: (n,) the rows of the table that the molecules are from.
        table_smiles: the SMILES of all rows of the table.
    """

    name: str
    task: str
    smiles: list[str]
    keys: list[str]
    y: np.ndarray
    rows: np.ndarray
    table_smiles: list[str]

    @classmethod
    def load(cls, name: str) -> "Dataset":
        """The data set of that name, which is downloaded if necessary, as by `molattn train`."""
        card, _ = fetch_dataset(name)
        table = read_table(card.path)
        smiles, values = column(table, card.smiles_column), column(table, card.targets[0].name)
        rows, keys = [], []
        for row, text in enumerate(smiles):
            try:
                keys.append(canonical_smiles(read_smiles(text)))
            except SmilesError:
                continue
            rows.append(row)
        task = {"regression": "regression", "classification": "binary"}[card.task]
        y = np.array([float(values[row]) for row in rows])
        return cls(name, task, [smiles[row] for row in rows], keys, y, np.array(rows), smiles)

    def split_labels(self, split: str) -> np.ndarray:
        """(n,) train, val or test, from datasets/splits, or made by `molattn.data.split_labels`."""
        file, columns = split_file(self.name, split), split_file(self.name)
        if file.exists():
            return read_split_file(file, self.table_smiles)[self.rows]
        if columns.exists() and split in (table := read_table(columns)).columns:
            if column(table, DIGEST) != self.digests():
                raise InputError(f"{columns} was made for another table of {self.name}: download the table of the card")
            return read_split_column(table, split)[self.rows]
        return self.new_split_labels(split)

    def new_split_labels(self, split: str) -> np.ndarray:
        """(n,) train, val or test, made by `molattn.data.split_labels`; the number in the name is the seed."""
        kind = split.rstrip("0123456789")
        return split_labels(kind, self.keys, self.y, SIZES, int(split[len(kind) :] or 0))

    def digests(self) -> list[str]:
        """Eight digits of the SHA-256 of the SMILES of each row of the table."""
        return [hashlib.sha256(text.encode()).hexdigest()[:8] for text in self.table_smiles]


def metric_of(task: str, y: np.ndarray, predictions: np.ndarray) -> tuple[str, float]:
    """The name and the value of the metric: RMSE in the unit of the target, or AUROC."""
    if task == "regression":
        return "rmse", float(np.sqrt(np.mean((predictions - y) ** 2)))
    return "auroc", float(roc_auc_score(y, predictions))


def train(dataset: Dataset, split: str, model: str, seed: int, peers: Path) -> Result:
    """Train a model once and compute its errors.

    Raises:
        RuntimeError: the training failed, or a prediction is missing or not finite.
    """
    labels = dataset.split_labels(split)
    with tempfile.TemporaryDirectory() as folder:
        rows = zip(dataset.smiles, dataset.y.tolist(), labels, strict=True)
        table = write_rows(Path(folder) / "table.csv", ["smiles", "y", "split"], rows)
        sha256 = hashlib.sha256(table.read_bytes()).hexdigest()
        start = time.perf_counter()
        predictions = ACCURACY_MODELS[model](TrainingJob(table, dataset.task, seed, Path(folder), peers))
        seconds = time.perf_counter() - start
    if predictions.shape != dataset.y.shape or not np.isfinite(predictions).all():
        raise RuntimeError(
            f"{model} predicts {predictions.shape} values for {dataset.y.shape} rows, or not finite ones"
        )
    masks = {name: labels == name for name in ("train", "val", "test")}
    errors = {
        name: metric_of(dataset.task, dataset.y[masks[name]], predictions[masks[name]]) for name in ("val", "test")
    }
    where = machine()
    return Result(
        dataset=dataset.name,
        split=split,
        model=model,
        seed=seed,
        metric=errors["test"][0],
        train=int(masks["train"].sum()),
        test=int(masks["test"].sum()),
        val_error=round(errors["val"][1], 5),
        test_error=round(errors["test"][1], 5),
        seconds=round(seconds, 1),
        split_sha256=sha256[:16],
        machine=f"{where['cores']} cores, {where['processor']}",
    )


def main() -> None:
    """Make the missing runs, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["esol"])
    single_models = [name for name in ACCURACY_MODELS if not name.endswith(ENSEMBLE)]
    parser.add_argument(
        "--models",
        nargs="+",
        default=single_models,
        choices=list(ACCURACY_MODELS),
        help="all but the ensembles by default",
    )
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), help="random0, scaffold, scaffold-balanced0, ...")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("--page", type=Path, default=PAGE, help="the Markdown file to write")
    parser.add_argument("--jobs", type=int, default=1, help="number of concurrent runs")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder with the environments of other projects")
    parser.add_argument("--tables", action="store_true", help="write the page without training")
    options = parser.parse_args()
    results = read_results(options.results)
    if not options.tables:
        done = {result.key for result in results}
        requested = product(options.datasets, options.splits, options.seeds, options.models)
        missing = [(d, s, m, seed) for d, s, seed, m in requested if (d, s, m, seed) not in done]
        print(f"{len(missing)} runs to do, {len(done)} in {options.results}", file=sys.stderr)
        datasets = {name: Dataset.load(name) for name in dict.fromkeys(d for d, *_ in missing)}
        with ThreadPoolExecutor(options.jobs) as pool:
            runs = [pool.submit(train, datasets[d], s, m, seed, options.peers) for d, s, m, seed in missing]
            try:
                for run in as_completed(runs):
                    result = run.result()
                    append_rows(options.results, [asdict(result)])
                    results.append(result)
                    print(
                        f"{' '.join(map(str, result.key))}: {result.metric} {result.test_error:.3f}, "
                        f"{result.seconds:.0f} s",
                        file=sys.stderr,
                        flush=True,
                    )
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text(page(results), encoding="utf-8")
    print(options.page)


if __name__ == "__main__":
    main()
