"""How faithful every method of attribution is, on data whose atoms' true contributions RDKit knows, as tables.

    python benchmarks/faithfulness.py -o folder                       # four trainings of a few minutes, then measures
    python benchmarks/faithfulness.py -o folder --seeds 0 1 2         # with the spread over seeds
    python benchmarks/faithfulness.py -o folder --datasets nci-logp   # one of the two
    python benchmarks/faithfulness.py -o folder --side val            # for choosing settings: test is for reporting

Two data sets, `nci-logp` (Crippen's log P) and `nci-tpsa` (polar surface area), and two models: `molattn train` at its
defaults, and with `--preset additive`; 30 epochs each. No model sees what an atom adds. Runs that are in the folder
already are not trained again. The measures are those of `molattn faithfulness`, on all molecules of the side.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from molattn import inference
from molattn.chem import atom_contributions
from molattn.data.tables.table import column, read_table

DATA = ("nci-logp", "nci-tpsa")
PRESETS = ("additive", "molattn")
EPOCHS = 30


def trained(dataset: str, preset: str, seed: int, folder: Path) -> tuple[Path, dict]:
    """The run folder of one training, and its metrics."""
    run = folder / f"{dataset}-{preset}-{seed}"
    if not (run / "metrics.json").is_file():
        command = [sys.executable, "-c", "from molattn.cli.main import main; main()", "train", "--dataset", dataset]
        command += ["--preset", preset, "--epochs", str(EPOCHS), "--seed", str(seed), "-o", str(run), "--quiet"]
        subprocess.run(command, check=True)
    return run, json.loads((run / "metrics.json").read_text())


def measured(run: Path, side: str, folder: Path) -> dict:
    """The output of `molattn faithfulness` for all molecules of a split of the run."""
    predictor = inference.load(run)
    if side == "test":
        return predictor.faithfulness(run, max_molecules=10**9).record
    table = read_table(run / "predictions.csv")
    rows = zip(column(table, "split"), column(table, "smiles"), strict=True)
    smiles = [s for of, s in rows if of == side]
    path = folder / f"{run.name}-{side}.csv"
    path.write_text("\n".join(["smiles", *smiles]) + "\n")
    return predictor.faithfulness(run, table=path, max_molecules=10**9).record


def ceiling(run: Path, side: str, what: str) -> float:
    """The mean tau-b of the true terms with a little noise: what a method can reach that tells equal atoms apart."""
    table, rng, taus = read_table(run / "predictions.csv"), np.random.default_rng(0), []
    for of, smiles in zip(column(table, "split"), column(table, "smiles"), strict=True):
        terms = np.round(atom_contributions(smiles, what), 4)
        if of == side and np.ptp(terms) > 0:
            taus.append(kendalltau(terms + 1e-6 * rng.normal(size=len(terms)), terms).statistic)
    return float(np.mean(taus))


def main() -> None:
    """Train what is not there, measure, and print the tables."""
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
            for seed in arguments.seeds:
                run, metrics = trained(dataset, preset, seed, arguments.output)
                seconds.append(json.loads((run / "env.json").read_text())["training_seconds"])
                (target,) = metrics["test"]
                errors.append([metrics[side][target]["rmse"] for side in ("val", "test")])
                start = time.perf_counter()
                records.append(measured(run, arguments.side, arguments.output))
                print(f"{run}: measured in {time.perf_counter() - start:.0f} s", file=sys.stderr)
            val, test = (_cell([e[i] for e in errors], 3) for i in (0, 1))
            print(f"\n`{dataset}`, preset `{preset}`: RMSE {val} of validation, {test} of test; ", end="")
            print(
                f"{records[0]['molecules_with_truth']} {arguments.side} molecules; a perfect order without ties has a ",
                end="",
            )
            print(f"tau of {ceiling(run, arguments.side, target):.2f}\n")
            print("| method | Kendall tau | Pearson r | AUROC | untrained, tau | deletion |\n|---|---|---|---|---|---|")
            for method in records[0]["methods"]:
                cells = [
                    _cell([r[part][method][name] for r in records])
                    for part, name in (
                        ("methods", "kendall"),
                        ("methods", "pearson"),
                        ("methods", "auroc"),
                        ("untrained", "kendall"),
                        ("methods", "deletion"),
                    )
                ]
                print(f"| {method} | {' | '.join(cells)} |")
            sys.stdout.flush()
    seeds = ", ".join(map(str, arguments.seeds))
    print(
        f"\nSeed {seeds}, {EPOCHS} epochs, {min(seconds):.0f} to {max(seconds):.0f} s a training, on one thread of a "
        f"machine with {os.cpu_count()} CPU cores ({platform.machine()}), torch {version('torch')}, rdkit "
        f"{version('rdkit')}."
    )


def _cell(values: list[float], digits: int = 2) -> str:
    """One value, or mean and standard deviation of several."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


if __name__ == "__main__":
    main()
