"""Coverage of 90% intervals: one model per data set, its held-out molecules split repeatedly.

    python benchmarks/coverage.py -o coverage.json                      # about 40 minutes on one core
    python benchmarks/coverage.py --datasets freesolv --epochs 30       # one of them
    python benchmarks/coverage.py -o coverage.json --resplits 50 --epochs lipophilicity=15

Of each data set 60% of the molecules train, 10% choose the epoch, and 30% do neither (`molattn train --split-sizes 0.6
0.1 0.3`, the command that a user types). Those 30% are split into calibration and test, half and half, `--resplits`
times, as whole molecules: the model never changes, and no calibration molecule has trained it or stopped its training.
For each resplit every calibration method that goes with the model makes its intervals; the table has the mean of the
coverages, their standard deviation over resplits, the mean width and the test RMSE. Options that the tool does not
know are handed to `molattn train`, such as `--ensemble-size 3`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from report import in_words, machine, markdown, save

DATASETS = ("esol", "freesolv", "lipophilicity")
METHODS = ("none", "zscaling", "isotonic", "conformal-regression")


def train(dataset: str, folder: Path, epochs: int | None, options: list[str]) -> Path:
    """The run of one training, in a process of its own; an existing run is used again."""
    run = folder / dataset
    if (run / "metrics.json").is_file():
        return run
    code = "from molattn.cli.main import main; main()"
    command = [sys.executable, "-c", code, "train"]
    if (run / "config.toml").is_file():
        command += ["--resume", str(run), "--quiet"]
    else:
        command += [
            "--dataset",
            dataset,
            "--split-sizes",
            "0.6",
            "0.1",
            "0.3",
            "--base",
            "none",
            "-o",
            str(run),
            "--quiet",
        ]
        command += ["--accelerator", "cpu", *([] if epochs is None else ["--epochs", str(epochs)]), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return run


def resplits(run: Path, level: float, count: int) -> dict[str, dict[str, list[float]]]:
    """For every method the coverage and the mean width of each resplit of the test molecules of a run."""
    import molattn
    from molattn.chem import canonical_smiles, read_smiles
    from molattn.data.tables.table import column, read_table
    from molattn.models.calibration import prediction_intervals
    from molattn.training.calibrate import calibrate
    from molattn.training.descriptors import append_computed_descriptors

    table = read_table(run / "predictions.csv")
    artifact = molattn.load(run)._artifact
    (target,) = artifact.targets
    sides = np.array(column(table, "split"))
    rows = {side: np.flatnonzero(sides == side) for side in ("val", "test")}
    smiles = np.array(column(table, "smiles"), dtype=object)
    truth = np.array(column(table, target), dtype=float)[:, None]
    answers = {}
    for side, chosen in rows.items():
        molecules = artifact.model.read(smiles[chosen], artifact.read_options)
        scaler = artifact.descriptors
        values = None if scaler is None else append_computed_descriptors(scaler.computed, None, molecules)
        z = None if scaler is None or values is None else scaler.scale(values)
        answers[side] = artifact.predict(molecules, z)
    held, y = answers["test"], truth[rows["test"]]
    keys = np.array([canonical_smiles(read_smiles(text)) for text in smiles[rows["test"]]])
    molecules = np.unique(keys)
    methods = [m for m in METHODS if m != "none" or held.std is not None]
    found: dict[str, dict[str, list[float]]] = {m: {"coverage": [], "width": []} for m in methods}
    for seed in range(count):
        chosen = np.random.default_rng(seed).permutation(molecules)[: len(molecules) // 2]
        cal = np.isin(keys, chosen)
        calibration = calibrate(held[cal], y[cal], artifact.task, artifact.uncertainty, "", (target,), answers["val"])
        for method, values in found.items():
            lower, upper = prediction_intervals(held[~cal], artifact.task, level, calibration, method)
            values["coverage"].append(float(((lower <= y[~cal]) & (y[~cal] <= upper)).mean()))
            values["width"].append(float((upper - lower).mean()))
    return found


def main() -> None:
    """Train, deal out again and again, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--resplits", type=int, default=50)
    parser.add_argument("--epochs", nargs="+", default=["lipophilicity=20"], metavar="[DATASET=]N")
    parser.add_argument("--folder", type=Path, help="Keeps the runs, and takes those that stand there.")
    parser.add_argument("-o", "--output", type=Path, help="All figures as JSON.")
    arguments, options = parser.parse_known_args()
    epochs = dict(text.split("=") if "=" in text else ("", text) for text in arguments.epochs)
    results, rows = {}, []
    with tempfile.TemporaryDirectory() as temporary:
        for dataset in arguments.datasets:
            limit = epochs.get(dataset, epochs.get(""))
            run = train(dataset, arguments.folder or Path(temporary), limit and int(limit), options)
            metrics = json.loads((run / "metrics.json").read_text())
            ((target, test),) = metrics["test"].items()
            unit = metrics["units"][target]
            found = resplits(run, arguments.level, arguments.resplits)
            results[dataset] = {"rmse": test["rmse"], "n": test["n"], "epochs": metrics["epochs"], "methods": found}
            for method, values in found.items():
                coverage = 100 * np.array(values["coverage"])
                rows.append(
                    [
                        dataset,
                        f"{test['rmse']:.3f} {unit}",
                        f"{test['n'] // 2} + {test['n'] - test['n'] // 2}",
                        method,
                        f"{coverage.mean():.1f}%",
                        f"{coverage.std(ddof=1):.1f}%",
                        f"{np.mean(values['width']):.2f} {unit}",
                    ]
                )
            print(f"{dataset}: done", file=sys.stderr)
    heads = ["data set", "RMSE", "calibration + test", "method", "mean coverage", "SD over resplits", "mean width"]
    print(markdown(heads, rows))
    where = machine(("torch", "rdkit"), 1)
    told = ", ".join(arguments.epochs)
    print(
        f"\nIntervals of {100 * arguments.level:g}%, {arguments.resplits} resplits; at most the default number of "
        f"epochs, but {told}{'; ' + ' '.join(options) if options else ''}. {in_words(where)}"
    )
    if arguments.output:
        settings = {"level": arguments.level, "resplits": arguments.resplits, "epochs": epochs, "options": options}
        save(arguments.output, "coverage", settings, results, where)


if __name__ == "__main__":
    main()
