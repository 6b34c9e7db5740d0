"""Compare settings on molecules held out in five folds, without using the test molecules of a split of ESOL.

    python benchmarks/folds.py -o folds.json --base none --seeds 0 1 \\
        --options "" "--set training.auxiliary=0" "--set data.molecule_featurizers=[]"
    python benchmarks/folds.py -o random.json --split random0 --base none --options "" "--set training.ema=0"

The training and validation molecules of the split are divided into five folds: by scaffold for the scaffold split, the
default, where the molecules of the largest scaffolds, and those without a scaffold, are always trained on, as in the
split itself; by molecule for a random split. Each fold is held out once, and the next fold is for validation, which
chooses the epoch, so the errors of the held-out fold are unbiased. The folds of the scaffold split have four times as
many validation molecules as the split. Each training is the command that a user types, in a process of its own on one
thread. Results are saved after each training: the same command resumes an interrupted one.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from commands import DATASETS, MOLATTN, run
from report import describe_machine, load_results, machine, markdown, save_results

from molattn.chem import canonical_smiles, murcko_scaffold, read_smiles
from molattn.data import column, load_card, read_split_file, read_table, write_table

FOLDS = 5
MAX_GROUP = 100
"""The molecules of a larger group (a scaffold, or one molecule) are always trained on."""


def canonical(smiles: str) -> str:
    """The canonical SMILES, which all rows of one molecule share."""
    return canonical_smiles(read_smiles(smiles))


GROUPS: dict[str, Callable[[str], str]] = {"random": canonical, "scaffold": murcko_scaffold}
"""The function from a SMILES to its group, by the kind of split."""


def make_folds(smiles: list[str], labels: np.ndarray, group_of: Callable[[str], str]) -> list[np.ndarray]:
    """The split labels of every row for each fold; empty, which leaves them out, for the rows labeled "test"."""
    rows = np.flatnonzero(labels != "test")
    groups = [group_of(smiles[row]) for row in rows]
    sizes = Counter(groups)
    divided = sorted({g for g in groups if g and sizes[g] <= MAX_GROUP}, key=lambda g: (-sizes[g], g))
    np.random.default_rng(0).shuffle(divided)
    fold_sizes, fold_of = [0] * FOLDS, {}
    for group in divided:
        fold_of[group] = int(np.argmin(fold_sizes))
        fold_sizes[fold_of[group]] += sizes[group]
    fold = np.array([fold_of.get(g, -1) for g in groups])
    folds = []
    for held_out in range(FOLDS):
        fold_labels = np.full(len(smiles), "", dtype="<U5")
        fold_labels[rows] = np.where(fold == held_out, "test", np.where(fold == (held_out + 1) % FOLDS, "val", "train"))
        folds.append(fold_labels)
    return folds


def fold_labels(smiles: list[str], split: str, fold: int) -> np.ndarray:
    """Split labels with one fold as "test" and half of the next one, by groups, as "val"."""
    group_of = GROUPS[split]
    labels = make_folds(smiles, np.full(len(smiles), "train"), group_of)[fold]
    rows = np.flatnonzero(labels == "val")
    groups = {group: i for i, group in enumerate(dict.fromkeys(group_of(smiles[row]) for row in rows))}
    for row in rows:
        if groups[group_of(smiles[row])] % 2:
            labels[row] = "train"
    return labels


def main() -> None:
    """Make the missing trainings, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument(
        "--split", default="scaffold", help="a split of ESOL in datasets/splits, whose test molecules are not used"
    )
    parser.add_argument("--options", nargs="+", default=[""], help="options of `molattn train`, quoted; '' for none")
    parser.add_argument("--base", default="auto")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    card = load_card("esol")
    smiles = column(read_table(card.path), card.smiles_column)
    labels = read_split_file(DATASETS / "splits" / f"esol-{arguments.split}.csv", smiles)
    folds = make_folds(smiles, labels, GROUPS["scaffold" if arguments.split.startswith("scaffold") else "random"])
    results: dict[str, Any] = load_results(arguments.output)
    where, rows = machine(("torch", "rdkit", "molattn")), []
    reference: list[float] = []
    for options in arguments.options:
        found: dict[str, list[float]] = {"val": [], "test": []}
        for seed in arguments.seeds:
            for number, labels in enumerate(folds):
                key = f"{arguments.split} | {arguments.base} | {options} | fold {number} | {seed}"
                if key not in results:
                    with tempfile.TemporaryDirectory() as folder:
                        write_table(Path(folder) / "fold.csv", ("smiles", "split"), zip(smiles, labels, strict=True))
                        command = [*MOLATTN, "train", "--dataset", "esol", "--splits-file", f"{folder}/fold.csv"]
                        command += [
                            "--seed",
                            seed,
                            "--base",
                            arguments.base,
                            "-o",
                            f"{folder}/run",
                            "--json",
                            "--quiet",
                        ]
                        metrics = json.loads(run([*command, *options.split()]).stdout)
                    results[key] = {side: metrics[side][card.targets[0].name]["rmse"] for side in found}
                    save_results(arguments.output, "folds", {}, results, where)
                for side, values in found.items():
                    values.append(results[key][side])
        reference = reference or found["test"]
        differences = [a - b for a, b in zip(found["test"], reference, strict=True)]
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        means = [f"{statistics.mean(values):.3f}" for values in found.values()]
        rows.append([f"`{options}`" if options else "", *means, f"{statistics.mean(differences):+.3f} ({error:.3f})"])
        print(" | ".join(rows[-1]), file=sys.stderr)
    print(markdown(["options", "validation", "held out", "difference from the first"], rows))
    print(f"\nSeeds {', '.join(map(str, arguments.seeds))}. {describe_machine(where)}")


if __name__ == "__main__":
    main()
