"""Training on ESOL beside chemprop and PyG's AttentiveFP: molecules a second, and the time to a trained model.

    python benchmarks/training.py --peers FOLDER -o training.json             # molecules a second, some minutes
    python benchmarks/training.py --peers FOLDER -o whole.json --whole        # whole trainings, three of each

Every side is the command that its users type, at its defaults, in a process of its own on one thread; the sides take
turns. An epoch is what a command with more epochs takes longer than one with fewer, divided by the difference: reading,
batches, forward, backward, optimizer, validation and checkpoints are in it, starting is not. CPU time is the figure,
wall time stands beside it. `--whole` takes complete commands, and the test RMSE of the model that each one keeps.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from contenders import MOLATTN
from peers import FOLDER, python_of
from report import in_words, machine, markdown, save, shown, spread

HERE = Path(__file__).parent
DATA = HERE.parent / "datasets"


class Training:
    """The command of one project and its result.

    Args:
        table: columns smiles, y, split.
        folder: empty.
        peers: where the peers' environments lie.
        seed: of weights and batches.
    """

    def __init__(self, table: Path, folder: Path, peers: Path, seed: int = 0):
        self.table, self.folder, self.peers, self.seed = table, folder, peers, seed

    def molattn(self, epochs: int | None, *options: str) -> tuple[list[object], Callable[[], float]]:
        """`molattn train`."""
        run = self.folder / "run"
        columns = ("--smiles-column", "smiles", "--target-columns", "y", "--split-column", "split")
        command = [*MOLATTN, "train", self.table, *columns, "--seed", self.seed, "-o", run, "--quiet", *options]
        command += [] if epochs is None else ["--epochs", epochs]
        return command, lambda: json.loads((run / "metrics.json").read_text())["test"]["y"]["rmse"]

    def chemprop(self, epochs: int | None, *options: str) -> tuple[list[object], Callable[[], float]]:
        """`chemprop train`, which writes what it predicts for the test molecules."""
        model = self.folder / "model"
        program = python_of("chemprop", self.peers).with_name("chemprop")
        columns = ("--smiles-columns", "smiles", "--target-columns", "y", "--splits-column", "split")
        seeds = ("--pytorch-seed", self.seed, "--data-seed", self.seed)
        where = ("--accelerator", "cpu", "--devices", "1")
        command = [program, "train", "-i", self.table, *columns, "-t", "regression", *seeds, "-o", model, *where]
        command += [] if epochs is None else ["--epochs", epochs]
        # Its learning rate rises over two epochs, which must then be there.
        command += ["--warmup-epochs", 0] if epochs is not None and epochs <= 2 else []
        return [*command, *options], lambda: self._error(model / "model_0" / "test_predictions.csv", "y")

    def attentivefp(self, epochs: int | None) -> tuple[list[object], Callable[[], float]]:
        """PyG's AttentiveFP."""
        out = self.folder / "predictions.csv"
        script = [python_of("pyg", self.peers), HERE / "attentivefp.py"]
        command = [*script, self.table, "-o", out, "--seed", self.seed]
        return [*command, *([] if epochs is None else ["--epochs", epochs])], lambda: self._error(out, "y_pred")

    def _error(self, predictions: Path, column: str) -> float:
        """Test RMSE of a file of predictions with SMILES, in the table's order."""
        with open(self.table, newline="", encoding="utf-8") as file:
            true = list(csv.DictReader(file))
        with open(predictions, newline="", encoding="utf-8") as file:
            answers = list(csv.DictReader(file))
        chosen = true if len(answers) == len(true) else [row for row in true if row["split"] == "test"]
        pairs = list(zip(chosen, answers, strict=True))
        if any(row["smiles"] != answer["smiles"] for row, answer in pairs):
            sys.exit(f"{predictions} is not in the order of {self.table}")
        errors = [float(row["y"]) - float(answer[column]) for row, answer in pairs if row["split"] == "test"]
        return float(np.sqrt(np.mean(np.square(errors))))


Side = Callable[[Training, int | None], tuple[list[object], Callable[[], float]]]
SIDES: dict[str, Side] = {
    "molattn": Training.molattn,
    "molattn, from scratch": lambda t, epochs: t.molattn(epochs, "--base", "none"),
    "chemprop": Training.chemprop,
    "chemprop, C++ featurizer": lambda t, epochs: t.chemprop(epochs, "--use-cuikmolmaker-featurization"),
    "AttentiveFP": Training.attentivefp,
}


def table_of(split: str, folder: Path) -> Path:
    """ESOL with columns smiles, y and split, row for row as in the split's file."""
    path = folder / f"{split}.csv"
    with (
        open(DATA / "esol.csv", newline="", encoding="utf-8") as data,
        open(DATA / "splits" / f"esol-{split}.csv", newline="", encoding="utf-8") as sides,
        open(path, "w", newline="", encoding="utf-8") as out,
    ):
        writer = csv.writer(out)
        writer.writerow(("smiles", "y", "split"))
        for row, side in zip(csv.DictReader(data), csv.DictReader(sides), strict=True):
            writer.writerow((row["smiles"], row["log_solubility"], side["split"]))
    return path


def ran(command: list[object]) -> dict[str, float]:
    """CPU and wall seconds of a command on one thread; the benchmark ends where it fails."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    words = [str(part) for part in command]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **one}, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{json.dumps(words)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, "wall": wall}


def timed(side: str, split: str, epochs: int | None, options: argparse.Namespace) -> dict[str, float]:
    """One command of one side: seconds, and the test RMSE."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command, error = SIDES[side](Training(table_of(split, folder), folder, options.peers), epochs)
        return {**ran(command), "test_rmse": error()}


def throughput(options: argparse.Namespace) -> tuple[Any, str]:
    """Seconds of an epoch, round by round, and molecules a second."""
    few, many = options.epochs
    with open(DATA / "splits" / "esol-random0.csv", newline="", encoding="utf-8") as file:
        molecules = sum(row["split"] == "train" for row in csv.DictReader(file))
    for side in options.sides:  # what each one compiles or keeps at its first start
        timed(side, "random0", few, options)
    epochs: dict[str, dict[str, list[float]]] = {side: {"cpu": [], "wall": []} for side in options.sides}
    for number in range(options.rounds):
        for side in options.sides:
            short, long = (timed(side, "random0", n, options) for n in (few, many))
            for clock, seconds in epochs[side].items():
                seconds.append((long[clock] - short[clock]) / (many - few))
            print(f"round {number + 1}, {side}: {epochs[side]['cpu'][-1]:.3f} s of CPU an epoch", file=sys.stderr)
    results = {
        side: {
            "seconds_per_epoch": {clock: spread(values) for clock, values in of.items()},
            "molecules_per_second": spread(molecules / np.array(of["cpu"])),
            "times_as_long": spread(np.array(of["cpu"]) / np.array(epochs[options.sides[0]]["cpu"])),
        }
        for side, of in epochs.items()
    }
    rows = [
        (
            side,
            shown(r["seconds_per_epoch"]["cpu"]),
            shown(r["seconds_per_epoch"]["wall"]),
            shown(r["molecules_per_second"], 0),
            shown(r["times_as_long"]),
        )
        for side, r in results.items()
    ]
    columns = ("", "CPU s an epoch", "wall s an epoch", "molecules a second of CPU", "times as long")
    return results, markdown(columns, rows)


def whole(options: argparse.Namespace) -> tuple[Any, str]:
    """Whole commands on three splits: test RMSE, CPU and wall seconds."""
    results: dict[str, list[dict[str, float]]] = {}
    for split in options.splits:
        for side in options.sides:
            lengths = options.lengths if side == "molattn" else [None]
            for length in lengths:
                name = side if length is None else f"{side}, {length} epochs"
                results.setdefault(name, []).append(timed(side, split, length, options))
                found = results[name][-1]
                print(f"{split}, {name}: {found['test_rmse']:.3f} in {found['cpu']:.0f} s of CPU", file=sys.stderr)
    rows = [
        (
            name,
            *(f"{r['test_rmse']:.3f}" for r in runs),
            f"{np.mean([r['test_rmse'] for r in runs]):.3f}",
            shown(spread(r["cpu"] for r in runs), 0),
            shown(spread(r["wall"] for r in runs), 0),
        )
        for name, runs in results.items()
    ]
    return results, markdown(("", *options.splits, "mean test RMSE", "CPU s", "wall s"), rows)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="where the peers' environments lie")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, nargs=2, default=(2, 8), help="of the shorter and the longer command")
    parser.add_argument("--whole", action="store_true", help="whole trainings and their test errors")
    parser.add_argument("--splits", nargs="+", default=["random0", "random1", "random2"])
    parser.add_argument("--lengths", type=int, nargs="+", default=[40, 20], help="epochs of molattn's whole trainings")
    options = parser.parse_args()
    results, table = whole(options) if options.whole else throughput(options)
    where = machine(("torch", "rdkit"))
    save(options.output, "training", vars(options), results, where)
    print(f"{table}\n\n{in_words(where)}")


if __name__ == "__main__":
    main()
