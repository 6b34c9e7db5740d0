"""Faithfulness of every attribution method, on data whose atom contributions RDKit computes, as tables.

    python benchmarks/faithfulness.py -o folder                       # four trainings of a few minutes, then measures
    python benchmarks/faithfulness.py -o folder --seeds 0 1 2         # with the standard deviation over seeds
    python benchmarks/faithfulness.py -o folder --datasets nci-logp   # one of the two
    python benchmarks/faithfulness.py -o folder --side val            # for choosing settings; test is for reporting

Two data sets, `nci-logp` (Crippen's log P) and `nci-tpsa` (polar surface area), and two models: `molattn train` at its
defaults, and with `--preset additive`; 30 epochs each. No model is trained on the contributions. Finished runs in the
folder are used again. The metrics are those of `molattn faithfulness`, for all molecules of the split.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from commands import MOLATTN, run
from report import describe_machine, machine, markdown, mean_and_std
from scipy.stats import kendalltau

from molattn import inference
from molattn.chem import atom_contributions
from molattn.data.tables.table import column, read_table

DATA = ("nci-logp", "nci-tpsa")
PRESETS = ("additive", "molattn")
EPOCHS = 30
COLUMNS = {
    "Kendall tau": ("methods", "kendall"),
    "Pearson r": ("methods", "pearson"),
    "AUROC": ("methods", "auroc"),
    "untrained, tau": ("untrained", "kendall"),
    "sign": ("methods", "sign"),
    "deletion": ("methods", "deletion_ratio"),
}
"""The columns of the tables, and where their values are in the output of `molattn faithfulness`."""


def train(dataset: str, preset: str, seed: int, folder: Path) -> tuple[Path, dict]:
    """The run folder of one training, and its metrics."""
    output = folder / f"{dataset}-{preset}-{seed}"
    if not (output / "metrics.json").is_file():
        command = [*MOLATTN, "train", "--dataset", dataset, "--preset", preset, "--epochs", EPOCHS, "--seed", seed]
        run([*command, "-o", output, "--quiet"])
    return output, json.loads((output / "metrics.json").read_text())


def split_smiles(run_folder: Path, split: str) -> list[str]:
    """The SMILES of a split of a run."""
    table = read_table(run_folder / "predictions.csv")
    return [s for s, label in zip(column(table, "smiles"), column(table, "split"), strict=True) if label == split]


def measure(run_folder: Path, split: str, folder: Path) -> dict:
    """The output of `molattn faithfulness` for all molecules of a split of the run."""
    predictor = inference.load(run_folder)
    if split == "test":
        return predictor.faithfulness(max_molecules=10**9).record
    path = folder / f"{run_folder.name}-{split}.csv"
    path.write_text("\n".join(["smiles", *split_smiles(run_folder, split)]) + "\n")
    return predictor.faithfulness(table=path, max_molecules=10**9).record


def max_tau(run_folder: Path, split: str, name: str) -> float:
    """The mean tau-b of the true terms with small noise: the maximum for a method whose values have no ties."""
    rng, taus = np.random.default_rng(0), []
    for smiles in split_smiles(run_folder, split):
        terms = np.round(atom_contributions(smiles, name), 4)
        if np.ptp(terms) > 0:
            taus.append(kendalltau(terms + 1e-6 * rng.normal(size=len(terms)), terms)[0])
    return float(np.mean(taus))


def _cell(numbers: list[float | None]) -> str:
    """The mean over the seeds; "-" for a method that has no such number, such as the signs of attention weights."""
    known = [x for x in numbers if x is not None]
    return mean_and_std(known, 2) if len(known) == len(numbers) else "-"


def main() -> None:
    """Make the missing trainings, measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--datasets", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--side", choices=("test", "val"), default="test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    seconds = []
    for dataset in arguments.datasets:
        for preset in PRESETS:
            errors, records = [], []
            trained = [train(dataset, preset, seed, arguments.output) for seed in arguments.seeds]
            folder, first = trained[0]
            (target,) = first["test"]
            for output, metrics in trained:
                seconds.append(json.loads((output / "env.json").read_text())["training_seconds"])
                errors.append([metrics[side][target]["rmse"] for side in ("val", "test")])
                start = time.perf_counter()
                records.append(measure(output, arguments.side, arguments.output))
                print(f"{output}: measured in {time.perf_counter() - start:.0f} s", file=sys.stderr)
            val, test = (mean_and_std([e[i] for e in errors]) for i in (0, 1))
            print(
                f"\n`{dataset}`, preset `{preset}`: RMSE {val} of validation, {test} of test; "
                f"{records[0]['molecules_with_truth']} {arguments.side} molecules; a perfect order without ties has a "
                f"tau of {max_tau(folder, arguments.side, target):.2f}\n"
            )
            rows = [
                [
                    method,
                    *(_cell([r[part][method][name] for r in records]) for part, name in COLUMNS.values()),
                ]
                for method in records[0]["methods"]
            ]
            print(markdown(["method", *COLUMNS], rows), flush=True)
    print(
        f"\nSeed {', '.join(map(str, arguments.seeds))}, {EPOCHS} epochs, {min(seconds):.0f} to {max(seconds):.0f} s a "
        f"training. {describe_machine(machine())}"
    )


if __name__ == "__main__":
    main()
