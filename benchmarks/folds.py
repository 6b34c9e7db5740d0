"""What settings are worth on molecules that chose nothing, without a look at the test molecules of a split.

    python benchmarks/folds.py -o folds.json --base none --seeds 0 1 \\
        --options "" "--set training.auxiliary=0" "--set data.molecule_featurizers=[]"
    python benchmarks/folds.py -o random.json --split random0 --base none --options "" "--set training.ema=0"

The training and validation molecules of a split of ESOL are cut into five folds: those of the scaffold split, the
default, by their scaffolds, where those of the largest scaffolds, and of none, are always trained on, as in the split
itself; those of a random split molecule by molecule. Each fold is held out once, with the next one as validation, which
chooses the epoch: the errors of the held-out fold flatter nothing. The folds of the scaffold split have four times as
many molecules to choose by as its validation. Each training is the command that a user types, in a process of its own,
on one thread. Results are kept one by one: the same command goes on where it was stopped.
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
from pretraining import SPLITS, run
from report import in_words, machine, markdown, save, saved

from molattn.chem import canonical_smiles, murcko_scaffold, read_smiles
from molattn.data import column, load_card, read_split_file, read_table, write_table

FOLDS = 5
LARGE = 100
"""Molecules of a group, which is a scaffold or one molecule, from which on they are always trained on."""


def folds(smiles: list[str], sides: np.ndarray, group_of: Callable[[str], str]) -> list[np.ndarray]:
    """The sides of every row for each fold; empty, which leaves them out, for the rows of the test side."""
    own = np.flatnonzero(sides != "test")
    groups = [group_of(smiles[row]) for row in own]
    sizes = Counter(groups)
    cut = sorted({g for g in groups if g and sizes[g] <= LARGE}, key=lambda g: (-sizes[g], g))
    np.random.default_rng(0).shuffle(cut)
    filled, fold_of = [0] * FOLDS, {}
    for group in cut:
        fold_of[group] = int(np.argmin(filled))
        filled[fold_of[group]] += sizes[group]
    fold = np.array([fold_of.get(g, -1) for g in groups])
    made = []
    for held in range(FOLDS):
        labels = np.full(len(smiles), "", dtype="<U5")
        labels[own] = np.where(fold == held, "test", np.where(fold == (held + 1) % FOLDS, "val", "train"))
        made.append(labels)
    return made


def canonical(smiles: str) -> str:
    """The canonical SMILES, which all rows of one molecule share."""
    return canonical_smiles(read_smiles(smiles))


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--split", default="scaffold", help="of datasets/splits, whose test molecules are left out")
    parser.add_argument("--options", nargs="+", default=[""], help="of `molattn train`, a line each; '' for none")
    parser.add_argument("--base", default="auto")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    card = load_card("esol")
    smiles = column(read_table(card.path), card.smiles_column)
    group_of = murcko_scaffold if arguments.split.startswith("scaffold") else canonical
    sides = folds(smiles, read_split_file(SPLITS / f"esol-{arguments.split}.csv", smiles), group_of)
    kept: dict[str, Any] = saved(arguments.output)
    where, rows = machine(("torch", "rdkit", "molattn")), []
    first: list[float] = []
    for options in arguments.options:
        found: dict[str, list[float]] = {"val": [], "test": []}
        for seed in arguments.seeds:
            for number, labels in enumerate(sides):
                key = f"{arguments.split} | {arguments.base} | {options} | fold {number} | {seed}"
                if key not in kept:
                    with tempfile.TemporaryDirectory() as folder:
                        write_table(Path(folder) / "fold.csv", ("smiles", "split"), zip(smiles, labels, strict=True))
                        wanted = ["--splits-file", f"{folder}/fold.csv", "--seed", str(seed), "--base", arguments.base]
                        wanted += ["-o", f"{folder}/run", "--json", "--quiet", *options.split()]
                        metrics = json.loads(run(["train", "--dataset", "esol", *wanted]))
                    kept[key] = {side: metrics[side][card.targets[0].name]["rmse"] for side in found}
                    save(arguments.output, "folds", {}, kept, where)
                for side, values in found.items():
                    values.append(kept[key][side])
        first = first or found["test"]
        more = [mine - theirs for mine, theirs in zip(found["test"], first, strict=True)]
        error = statistics.stdev(more) / math.sqrt(len(more))
        means = [f"{statistics.mean(values):.3f}" for values in found.values()]
        rows.append([f"`{options}`" if options else "", *means, f"{statistics.mean(more):+.3f} ({error:.3f})"])
        print(" | ".join(rows[-1]), file=sys.stderr)
    print(markdown(["options", "validation", "held out", "more than the first"], rows))
    print(f"\nSeeds {', '.join(map(str, arguments.seeds))}. {in_words(where)}")


if __name__ == "__main__":
    main()
