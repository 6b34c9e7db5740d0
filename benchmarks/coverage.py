"""Coverage of 90% intervals: one model per data set, its held-out molecules split repeatedly.

    python benchmarks/coverage.py -o coverage.json                      # about 40 minutes on one core
    python benchmarks/coverage.py --datasets freesolv --epochs 30       # one of them
    python benchmarks/coverage.py -o coverage.json --resplits 50 --epochs lipophilicity=15

The model of each data set is trained on 60% of the molecules, with 10% for validation (`molattn train --split-sizes 0.6
0.1 0.3`). The other 30% are split into equal calibration and test sets `--resplits` times, by molecule, so that no
calibration molecule is used for training or early stopping. Every calibration method that supports the model computes
intervals for each resplit; the table has the mean of the coverages, their standard deviation over resplits, the mean
width and the test RMSE. Further options are passed to `molattn train`, such as `--ensemble-size 3`.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from commands import MOLATTN, run
from report import describe_machine, machine, markdown, save_results

DATASETS = ("esol", "freesolv", "lipophilicity")
METHODS = ("none", "zscaling", "isotonic", "conformal-regression")


def train(dataset: str, folder: Path, epochs: int | None, options: list[str]) -> Path:
    """The run folder of one training; a finished run is used again, and an interrupted one resumed."""
    output = folder / dataset
    if (output / "metrics.json").is_file():
        return output
    if (output / "config.toml").is_file():
        run([*MOLATTN, "train", "--resume", output, "--quiet"])
        return output
    command = [*MOLATTN, "train", "--dataset", dataset, "--split-sizes", "0.6", "0.1", "0.3", "--base", "none"]
    command += ["-o", output, "--quiet", "--accelerator", "cpu", *([] if epochs is None else ["--epochs", epochs])]
    run([*command, *options])
    return output


def resplit(folder: Path, level: float, count: int) -> dict[str, dict[str, list[float]]]:
    """The coverage and the mean width of each method for each resplit of the test molecules of a run folder."""
    import molattn
    from molattn.chem import canonical_smiles, read_smiles
    from molattn.data.tables.table import column, read_table
    from molattn.errors import SmilesError
    from molattn.models.calibration import prediction_intervals
    from molattn.models.tasks import Regression
    from molattn.training.calibrate import calibrate
    from molattn.training.descriptors import append_computed_descriptors

    table = read_table(folder / "predictions.csv")
    artifact = molattn.load(folder)._artifact
    (target,) = artifact.targets
    split = np.array(column(table, "split"))
    rows = {part: np.flatnonzero(split == part) for part in ("val", "test")}
    smiles = np.array(column(table, "smiles"), dtype=object)
    truth = np.array(column(table, target), dtype=float)[:, None]
    predictions = {}
    for part, part_rows in rows.items():
        read = artifact.model.read(smiles[part_rows], artifact.read_options)
        molecules = [molecule for molecule in read if not isinstance(molecule, SmilesError)]
        scaler = artifact.descriptors
        values = None if scaler is None else append_computed_descriptors(scaler.computed, None, molecules)
        z = None if scaler is None or values is None else scaler.scale(values)
        predictions[part] = artifact.predict_for_intervals(molecules, z)
    test, y = predictions["test"], truth[rows["test"]]
    keys = np.array([canonical_smiles(read_smiles(text)) for text in smiles[rows["test"]]])
    molecules = np.unique(keys)
    assert isinstance(artifact.task, Regression)
    methods = [m for m in METHODS if m != "none" or test.std is not None]
    found: dict[str, dict[str, list[float]]] = {m: {"coverage": [], "width": []} for m in methods}
    for seed in range(count):
        chosen = np.random.default_rng(seed).permutation(molecules)[: len(molecules) // 2]
        cal = np.isin(keys, chosen)
        calibration = calibrate(
            test[cal], y[cal], artifact.task, artifact.uncertainty_method, "", (target,), predictions["val"]
        )
        for method, values in found.items():
            lower, upper = prediction_intervals(test[~cal], artifact.task, level, calibration, method)
            values["coverage"].append(float(((lower <= y[~cal]) & (y[~cal] <= upper)).mean()))
            values["width"].append(float((upper - lower).mean()))
    return found


def main() -> None:
    """Train, split repeatedly, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--resplits", type=int, default=50)
    parser.add_argument("--epochs", nargs="+", default=["lipophilicity=20"], metavar="[DATASET=]N")
    parser.add_argument("--folder", type=Path, help="the folder of the runs; finished runs in it are used again")
    parser.add_argument("-o", "--output", type=Path, help="all results as JSON")
    arguments, options = parser.parse_known_args()
    epochs = dict(text.split("=") if "=" in text else ("", text) for text in arguments.epochs)
    results, rows = {}, []
    with tempfile.TemporaryDirectory() as temporary:
        for dataset in arguments.datasets:
            limit = epochs.get(dataset, epochs.get(""))
            output = train(dataset, arguments.folder or Path(temporary), limit and int(limit), options)
            metrics = json.loads((output / "metrics.json").read_text())
            ((target, test),) = metrics["test"].items()
            unit = metrics["units"][target]
            found = resplit(output, arguments.level, arguments.resplits)
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
    columns = ["data set", "RMSE", "calibration + test", "method", "mean coverage", "SD over resplits", "mean width"]
    print(markdown(columns, rows))
    where = machine(("torch", "rdkit"), 1)
    print(
        f"\nIntervals of {100 * arguments.level:g}%, {arguments.resplits} resplits; at most the default number of "
        f"epochs, except {', '.join(arguments.epochs)}{'; ' + ' '.join(options) if options else ''}. "
        f"{describe_machine(where)}"
    )
    if arguments.output:
        settings = {"level": arguments.level, "resplits": arguments.resplits, "epochs": epochs, "options": options}
        save_results(arguments.output, "coverage", settings, results, where)


if __name__ == "__main__":
    main()
