"""Who takes part in `accuracy.py` and `arena.py`: from a table with columns smiles, y and split to a prediction of all.

Each runs in a process of its own, on one thread, as its users run it; whatever it chooses, it chooses on the validation
rows. Adding one is a function and a line in the table at the foot.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from peers import FOLDER, python_of

HERE = Path(__file__).parent
MOLATTN = (sys.executable, "-c", "from molattn.cli.main import main; main()")


@dataclass(frozen=True)
class Round:
    """What one training is given.

    Attributes:
        table: columns smiles, y, split; every row of it is a molecule that RDKit reads. Of test rows y may be empty.
        task: "regression" or "binary".
        seed: of what is random in the training.
        folder: empty, for whatever it writes.
        peers: where the peers' environments lie.
        log_target: whether y spans orders of magnitude, for contenders whose recipe says that they learn its logarithm.
    """

    table: Path
    task: str
    seed: int
    folder: Path
    peers: Path = FOLDER
    log_target: bool = False

    @property
    def filled(self) -> Path:
        """The table with the first label in each empty cell of y: programs that evaluate test rows demand a label.

        What they report of such rows says nothing, and is not read.
        """
        with open(self.table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if all(row["y"] for row in rows):
            return self.table
        first = next(row["y"] for row in rows if row["y"])
        path = self.folder / "filled.csv"
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", "y", "split"])
            writer.writerows([row["smiles"], row["y"] or first, row["split"]] for row in rows)
        return path


def molattn(given: Round, options: Sequence[str] = ()) -> np.ndarray:
    """`molattn train`, at its defaults but for `options`."""
    run = given.folder / "run"
    columns = ("--smiles-column", "smiles", "--target-columns", "y", "--split-column", "split")
    command = [*MOLATTN, "train", given.filled, *columns, "--seed", given.seed, "-o", run, "--quiet", *options]
    _ran(command)
    return _column(run / "predictions.csv", "y_pred")


def classical(given: Round, kind: str, options: Sequence[str] = ()) -> np.ndarray:
    """A forest or boosted trees on RDKit's descriptors and Morgan counts, by scikit-learn."""
    out = given.folder / "predictions.csv"
    _ran([sys.executable, HERE / "classical.py", given.filled, "-o", out, "--kind", kind, *_how(given), *options])
    return _column(out, "y_pred")


def attentivefp(given: Round) -> np.ndarray:
    """PyG's AttentiveFP, 50 epochs, the best of them on validation."""
    out = given.folder / "predictions.csv"
    _ran([python_of("pyg", given.peers), HERE / "attentivefp.py", given.filled, "-o", out, *_how(given)])
    return _column(out, "y_pred")


def catboost(given: Round) -> np.ndarray:
    """CatBoost on the fingerprints and descriptors of MapLight, with its settings."""
    out = given.folder / "predictions.csv"
    log = ["--log-target"] if given.log_target else []
    script = HERE / "catboost_maplight.py"
    _ran([python_of("catboost", given.peers), script, given.filled, "-o", out, *_how(given), *log])
    return _column(out, "y_pred")


def chemprop(given: Round, featurizer: str = "", options: Sequence[str] = ()) -> np.ndarray:
    """`chemprop train` at its defaults, then `chemprop predict`; with a featurizer of whole molecules if one is named.

    options: of `chemprop train`.
    """
    program, model = python_of("chemprop", given.peers).with_name("chemprop"), given.folder / "model"
    task = {"regression": "regression", "binary": "classification"}[given.task]
    columns = ("--smiles-columns", "smiles", "--target-columns", "y", "--splits-column", "split")
    where = ("--accelerator", "cpu", "--devices", "1")
    seeds = ("--pytorch-seed", given.seed, "--data-seed", given.seed)
    more = ("--molecule-featurizers", featurizer) if featurizer else ()
    _ran([program, "train", "-i", given.filled, *columns, "-t", task, *seeds, "-o", model, *where, *more, *options])
    # It writes its answers over a column of the target's name, so it gets the SMILES alone.
    with open(given.table, newline="", encoding="utf-8") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    alone, out = given.folder / "smiles.csv", given.folder / "predictions.csv"
    with open(alone, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["smiles"], *([text] for text in smiles)])
    best = model / "model_0" / "best.pt"
    smiles_alone = ("-i", alone, "--smiles-columns", "smiles")
    _ran([program, "predict", *smiles_alone, "--model-paths", best, "-o", out, *where, *more])
    return _column(out, "y")


def _how(given: Round) -> tuple[object, ...]:
    return ("--task", given.task, "--seed", given.seed)


def _ran(command: Sequence[object]) -> None:
    """Run it on one thread; what it printed is shown if it fails."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env={**os.environ, **one}, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{json.dumps([str(part) for part in command])}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def _column(path: Path, name: str) -> np.ndarray:
    with open(path, newline="", encoding="utf-8") as file:
        return np.array([float(row[name]) for row in csv.DictReader(file)])


CONTENDERS: dict[str, Callable[[Round], np.ndarray]] = {
    "molattn": molattn,
    "molattn-scratch": partial(molattn, options=("--base", "none")),
    "molattn-ensemble": partial(molattn, options=("--ensemble-size", "5")),
    "molattn-scratch-ensemble": partial(molattn, options=("--base", "none", "--ensemble-size", "5")),
    "forest": partial(classical, kind="forest"),
    "boosting": partial(classical, kind="boosting"),
    "chemprop": chemprop,
    "attentivefp": attentivefp,
}
"""By the name they have in the results."""

ARENA: dict[str, Callable[[Round], np.ndarray]] = {
    **CONTENDERS,
    "forest-morgan": partial(classical, kind="forest", options=("--features", "morgan")),
    "catboost": catboost,
    "chemprop-rdkit": partial(
        chemprop, featurizer="v1_rdkit_2d_normalized", options=("--no-descriptor-scaling",)
    ),  # these descriptors are quantiles already
}
"""Those of `arena.py`: the others, and what the published tables are made with."""
