"""Training speed on ESOL of molattn, chemprop and PyG's AttentiveFP: molecules a second, and the time of a training.

    python benchmarks/training.py --peers FOLDER -o training.json             # molecules a second, some minutes
    python benchmarks/training.py --peers FOLDER -o whole.json --whole        # whole trainings, three of each

Each model is trained by the command that its users type, with default settings, in a process of its own on one thread;
the commands run in turns. The time of an epoch is the difference between a command with more and one with fewer epochs,
divided by the difference of the epochs: it includes reading, batches, forward, backward, optimizer, validation and
checkpoints, but not the start-up. The tables have CPU and wall time. `--whole` measures complete commands, and the test
RMSE of the model that each one keeps.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from commands import DATASETS, MOLATTN, run
from peers import FOLDER, python_of
from report import describe_machine, format_spread, machine, markdown, save_results, spread
from tables import read_rows, write_rows

HERE = Path(__file__).parent


class Training:
    """The training commands of the projects, with functions that return the test RMSE.

    Args:
        table: columns smiles, y, split.
        folder: an empty folder.
        peers: the folder with the environments of other projects.
        seed: the random seed.
    """

    def __init__(self, table: Path, folder: Path, peers: Path, seed: int = 0):
        self.table, self.folder, self.peers, self.seed = table, folder, peers, seed

    def molattn(self, epochs: int | None, *options: str) -> tuple[list[object], Callable[[], float]]:
        """`molattn train`."""
        output = self.folder / "run"
        columns = ("--smiles-column", "smiles", "--target-columns", "y", "--split-column", "split")
        command = [*MOLATTN, "train", self.table, *columns, "--seed", self.seed, "-o", output, "--quiet", *options]
        command += [] if epochs is None else ["--epochs", epochs]
        return command, lambda: json.loads((output / "metrics.json").read_text())["test"]["y"]["rmse"]

    def chemprop(self, epochs: int | None, *options: str) -> tuple[list[object], Callable[[], float]]:
        """`chemprop train`, which writes its predictions of the test molecules."""
        model = self.folder / "model"
        program = python_of("chemprop", self.peers).with_name("chemprop")
        columns = ("--smiles-columns", "smiles", "--target-columns", "y", "--splits-column", "split")
        seeds = ("--pytorch-seed", self.seed, "--data-seed", self.seed)
        device = ("--accelerator", "cpu", "--devices", "1")
        command = [program, "train", "-i", self.table, *columns, "-t", "regression", *seeds, "-o", model, *device]
        command += [] if epochs is None else ["--epochs", epochs]
        # By default the learning rate is warmed up over two epochs.
        command += ["--warmup-epochs", 0] if epochs is not None and epochs <= 2 else []
        return [*command, *options], lambda: self._error(model / "model_0" / "test_predictions.csv", "y")

    def attentivefp(self, epochs: int | None) -> tuple[list[object], Callable[[], float]]:
        """PyG's AttentiveFP."""
        output = self.folder / "predictions.csv"
        script = [python_of("pyg", self.peers), HERE / "attentivefp.py"]
        command = [*script, self.table, "-o", output, "--seed", self.seed]
        return [*command, *([] if epochs is None else ["--epochs", epochs])], lambda: self._error(output, "y_pred")

    def _error(self, predictions: Path, column: str) -> float:
        """Test RMSE of a file of predictions, of all molecules or the test molecules, in the order of the table."""
        rows, predicted = read_rows(self.table), read_rows(predictions)
        if len(predicted) < len(rows):
            rows = [row for row in rows if row["split"] == "test"]
        pairs = list(zip(rows, predicted, strict=True))
        if any(row["smiles"] != other["smiles"] for row, other in pairs):
            sys.exit(f"{predictions} is not in the order of {self.table}")
        errors = [float(row["y"]) - float(other[column]) for row, other in pairs if row["split"] == "test"]
        return float(np.sqrt(np.mean(np.square(errors))))


Command = Callable[[Training, int | None], tuple[list[object], Callable[[], float]]]
MODELS: dict[str, Command] = {
    "molattn": Training.molattn,
    "molattn, from scratch": lambda t, epochs: t.molattn(epochs, "--base", "none"),
    "chemprop": Training.chemprop,
    "chemprop, C++ featurizer": lambda t, epochs: t.chemprop(epochs, "--use-cuikmolmaker-featurization"),
    "AttentiveFP": Training.attentivefp,
}


def write_table(split: str, folder: Path) -> Path:
    """ESOL with columns smiles, y and split, in the order of the file of the split."""
    rows = zip(read_rows(DATASETS / "esol.csv"), read_rows(DATASETS / "splits" / f"esol-{split}.csv"), strict=True)
    cells = ((row["smiles"], row["log_solubility"], label["split"]) for row, label in rows)
    return write_rows(folder / f"{split}.csv", ("smiles", "y", "split"), cells)


def train(name: str, split: str, epochs: int | None, options: argparse.Namespace) -> dict[str, float]:
    """The CPU and wall seconds of one command, and the test RMSE."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command, error = MODELS[name](Training(write_table(split, folder), folder, options.peers), epochs)
        completed = run(command)
        return {"cpu": completed.cpu, "wall": completed.wall, "test_rmse": error()}


def throughput(options: argparse.Namespace) -> tuple[Any, str]:
    """The seconds of an epoch in each round, and molecules a second."""
    few, many = options.epochs
    molecules = sum(row["split"] == "train" for row in read_rows(DATASETS / "splits" / "esol-random0.csv"))
    for side in options.sides:  # the first start compiles, and fills caches
        train(side, "random0", few, options)
    epochs: dict[str, dict[str, list[float]]] = {side: {"cpu": [], "wall": []} for side in options.sides}
    for number in range(options.rounds):
        for side in options.sides:
            short, long = (train(side, "random0", n, options) for n in (few, many))
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
            format_spread(r["seconds_per_epoch"]["cpu"]),
            format_spread(r["seconds_per_epoch"]["wall"]),
            format_spread(r["molecules_per_second"], 0),
            format_spread(r["times_as_long"]),
        )
        for side, r in results.items()
    ]
    columns = ("", "CPU s an epoch", "wall s an epoch", "molecules a second of CPU", "times as long")
    return results, markdown(columns, rows)


def complete_trainings(options: argparse.Namespace) -> tuple[Any, str]:
    """The test RMSE, CPU and wall seconds of complete commands on several splits."""
    results: dict[str, list[dict[str, float]]] = {}
    for split in options.splits:
        for side in options.sides:
            lengths = options.lengths if side == "molattn" else [None]
            for length in lengths:
                name = side if length is None else f"{side}, {length} epochs"
                results.setdefault(name, []).append(train(side, split, length, options))
                found = results[name][-1]
                print(f"{split}, {name}: {found['test_rmse']:.3f} in {found['cpu']:.0f} s of CPU", file=sys.stderr)
    rows = [
        (
            name,
            *(f"{r['test_rmse']:.3f}" for r in runs),
            f"{np.mean([r['test_rmse'] for r in runs]):.3f}",
            format_spread(spread(r["cpu"] for r in runs), 0),
            format_spread(spread(r["wall"] for r in runs), 0),
        )
        for name, runs in results.items()
    ]
    return results, markdown(("", *options.splits, "mean test RMSE", "CPU s", "wall s"), rows)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder with the environments of other projects")
    parser.add_argument("--sides", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--epochs", type=int, nargs=2, default=(2, 8), help="epochs of the shorter and the longer command"
    )
    parser.add_argument("--whole", action="store_true", help="complete trainings and their test errors")
    parser.add_argument("--splits", nargs="+", default=["random0", "random1", "random2"])
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[40, 20], help="epochs of complete trainings of molattn"
    )
    options = parser.parse_args()
    results, table = complete_trainings(options) if options.whole else throughput(options)
    where = machine(("torch", "rdkit"))
    save_results(options.output, "training", vars(options), results, where)
    print(f"{table}\n\n{describe_machine(where)}")


if __name__ == "__main__":
    main()
