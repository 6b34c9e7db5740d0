"""The arena: molattn and others on identical splits, run by run into a file of results, and the tables made from it.

    python benchmarks/accuracy.py                                          # ESOL, single models, all splits
    python benchmarks/accuracy.py --datasets freesolv bbbp --models molattn chemprop --splits random0 scaffold
    python benchmarks/accuracy.py --tables                                 # only writes docs/accuracy.md again

The protocol. Every contender gets the same table: the molecules that RDKit reads, their target in its own unit and
their side of the split. It trains on `train`, makes all its choices on `val`, and answers every row; the errors of all
are taken from these answers by one function: RMSE, never standardised, or the AUROC. The test rows are looked at once
per run. One thread for each.

The splits are those in datasets/splits, taken as they are: of ESOL a file each, of FreeSolv, Lipophilicity and BBBP a
table each with a column per split. Others are made by molattn's own splits, with the number as the seed. A run that is
in the file of results is not done again, so a long command can be stopped and goes on. With `--jobs 2` two runs at a
time. Peers run in environments of their own: see `peers.py`.
"""

import argparse
import csv
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from threading import Lock

import numpy as np
from arena_tables import ENSEMBLE, page
from contenders import CONTENDERS, Round
from peers import FOLDER
from report import machine
from sklearn.metrics import roc_auc_score

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
    """Where the project keeps a split of a data set, or all of them in a table with a column each."""
    return datasets_dir() / "splits" / (f"{dataset}-{split}.csv" if split else f"{dataset}.csv")


@dataclass(frozen=True)
class Result:
    """One row of the file of results: who, on what, how well, in the unit of the target."""

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
        """What is not done twice."""
        return self.dataset, self.split, self.model, self.seed


def read_results(path: Path) -> list[Result]:
    """All runs so far; none where there is no file."""
    if not path.exists():
        return []
    kinds = {field.name: field.type for field in fields(Result)}
    with open(path, newline="", encoding="utf-8") as file:
        return [Result(**{name: kinds[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]


def add_result(path: Path, result: Result) -> None:
    """One row more, on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Result)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(asdict(result))
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True)
class Dataset:
    """What all contenders learn from: the rows that RDKit reads, the first target of the card."""

    name: str
    task: str
    smiles: list[str]
    keys: list[str]
    y: np.ndarray
    rows: np.ndarray
    table_smiles: list[str]

    @classmethod
    def load(cls, name: str) -> "Dataset":
        """By its name, found or downloaded as `molattn train` does."""
        card, _ = fetch_dataset(name)
        table = read_table(card.path)
        smiles, values = column(table, card.smiles_column), column(table, card.targets[0].name)
        kept, keys = [], []
        for row, text in enumerate(smiles):
            try:
                keys.append(canonical_smiles(read_smiles(text)))
            except SmilesError:
                continue
            kept.append(row)
        task = {"regression": "regression", "classification": "binary"}[card.task]
        y = np.array([float(values[row]) for row in kept])
        return cls(name, task, [smiles[row] for row in kept], keys, y, np.array(kept), smiles)

    def sides(self, split: str) -> np.ndarray:
        """(n,) train, val or test: from the project's files, or by the project's own split."""
        file, columns = split_file(self.name, split), split_file(self.name)
        if file.exists():
            return read_split_file(file, self.table_smiles)[self.rows]
        if columns.exists() and split in (kept := read_table(columns)).columns:
            if column(kept, DIGEST) != self.digests():
                raise InputError(f"{columns} was made for another table of {self.name} than the one that is there")
            return read_split_column(kept, split)[self.rows]
        return self.made(split)

    def made(self, split: str) -> np.ndarray:
        """(n,) train, val or test by the project's own split; the number in its name is the seed."""
        kind = split.rstrip("0123456789")
        return split_labels(kind, self.keys, self.y, SIZES, int(split[len(kind) :] or 0))

    def digests(self) -> list[str]:
        """An identifier of the molecule in a row of the table, without its SMILES: eight digits of its SHA-256."""
        return [hashlib.sha256(text.encode()).hexdigest()[:8] for text in self.table_smiles]

    def write(self, path: Path, sides: Iterable[str]) -> None:
        """The table that a contender gets."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", "y", "split"])
            writer.writerows(zip(self.smiles, self.y.tolist(), sides, strict=True))


def error_of(task: str, y: np.ndarray, answers: np.ndarray) -> tuple[str, float]:
    """RMSE in the target's unit; of classes the AUROC, which is better the larger."""
    if task == "regression":
        return "rmse", float(np.sqrt(np.mean((answers - y) ** 2)))
    return "auroc", float(roc_auc_score(y, answers))


def measured(dataset: Dataset, split: str, model: str, seed: int, peers: Path) -> Result:
    """One training and its errors."""
    sides = dataset.sides(split)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        dataset.write(table, sides)
        sha256 = hashlib.sha256(table.read_bytes()).hexdigest()
        start = time.perf_counter()
        answers = CONTENDERS[model](Round(table, dataset.task, seed, Path(folder), peers))
        seconds = time.perf_counter() - start
    if answers.shape != dataset.y.shape or not np.isfinite(answers).all():
        raise RuntimeError(f"{model} answered {answers.shape} for {dataset.y.shape} rows, or something not finite")
    errors = {
        side: error_of(dataset.task, dataset.y[sides == side], answers[sides == side]) for side in ("val", "test")
    }
    where = machine()
    return Result(
        dataset=dataset.name,
        split=split,
        model=model,
        seed=seed,
        metric=errors["test"][0],
        train=int((sides == "train").sum()),
        test=int((sides == "test").sum()),
        val_error=round(errors["val"][1], 5),
        test_error=round(errors["test"][1], 5),
        seconds=round(seconds, 1),
        split_sha256=sha256[:16],
        machine=f"{where['cores']} cores, {where['processor']}",
    )


def main() -> None:
    """Do the runs that are missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["esol"])
    single_models = [name for name in CONTENDERS if not name.endswith(ENSEMBLE)]
    parser.add_argument(
        "--models", nargs="+", default=single_models, choices=list(CONTENDERS), help="all but the ensembles by default"
    )
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), help="random0, scaffold, scaffold-balanced0, ...")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the tables go")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="where the peers' environments lie")
    parser.add_argument("--tables", action="store_true", help="no runs, only the page")
    options = parser.parse_args()
    results = read_results(options.results)
    if not options.tables:
        done = {result.key for result in results}
        requested = product(options.datasets, options.splits, options.seeds, options.models)
        missing = [(d, s, m, seed) for d, s, seed, m in requested if (d, s, m, seed) not in done]
        print(f"{len(missing)} runs to do, {len(done)} in {options.results}", file=sys.stderr)
        datasets = {name: Dataset.load(name) for name in dict.fromkeys(d for d, *_ in missing)}
        writing = Lock()
        with ThreadPoolExecutor(options.jobs) as pool:
            runs = [pool.submit(measured, datasets[d], s, m, seed, options.peers) for d, s, m, seed in missing]
            try:
                for run in as_completed(runs):
                    result = run.result()
                    with writing:
                        add_result(options.results, result)
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
