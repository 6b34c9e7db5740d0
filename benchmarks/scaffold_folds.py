"""What settings are worth on molecules with new scaffolds, without a look at the test molecules of the scaffold split.

    python benchmarks/scaffold_folds.py -o folds.json --base none --seeds 0 1 \\
        --options "" "--set model.max_path=6" "--molecule-featurizers rdkit_few --set training.auxiliary=0"

The training and validation molecules of ESOL's scaffold split are cut into five folds by their scaffolds; those of the
largest scaffolds, and of none, are always trained on, as in the split itself. Each fold is held out once, with the next
one as validation, so that there are four times as many molecules to choose by as the split has for validation. Each
training is the command that a user types, in a process of its own, on one thread. Results are kept one by one: the same
command goes on where it was stopped.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from pretraining import SPLITS, run
from report import in_words, machine, markdown, save, saved

from molattn.chem import murcko_scaffold
from molattn.data import column, load_card, read_split_file, read_table, write_table

FOLDS = 5
LARGE = 100
"""Molecules of a scaffold from which on they are always trained on."""


def folds(smiles: list[str], sides: np.ndarray) -> list[np.ndarray]:
    """The sides of every row for each fold; empty, which leaves them out, for the rows of the test side."""
    own = np.flatnonzero(sides != "test")
    scaffolds = [murcko_scaffold(smiles[row]) for row in own]
    sizes = Counter(scaffolds)
    cut = sorted({s for s in scaffolds if s and sizes[s] <= LARGE}, key=lambda s: (-sizes[s], s))
    np.random.default_rng(0).shuffle(cut)
    filled, fold_of = [0] * FOLDS, {}
    for scaffold in cut:
        fold_of[scaffold] = int(np.argmin(filled))
        filled[fold_of[scaffold]] += sizes[scaffold]
    fold = np.array([fold_of.get(s, -1) for s in scaffolds])
    made = []
    for held in range(FOLDS):
        labels = np.full(len(smiles), "", dtype="<U5")
        labels[own] = np.where(fold == held, "test", np.where(fold == (held + 1) % FOLDS, "val", "train"))
        made.append(labels)
    return made


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--options", nargs="+", default=[""], help="of `molattn train`, a line each; '' for none")
    parser.add_argument("--base", default="auto")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    card = load_card("esol")
    smiles = column(read_table(card.path), card.smiles_column)
    sides = folds(smiles, read_split_file(SPLITS / "esol-scaffold.csv", smiles))
    kept: dict[str, Any] = saved(arguments.output)
    where, rows = machine(("torch", "rdkit", "molattn")), []
    first: list[float] = []
    for options in arguments.options:
        found: dict[str, list[float]] = {"val": [], "test": []}
        for seed in arguments.seeds:
            for number, labels in enumerate(sides):
                key = f"{arguments.base} | {options} | fold {number} | {seed}"
                if key not in kept:
                    with tempfile.TemporaryDirectory() as folder:
                        write_table(Path(folder) / "fold.csv", ("smiles", "split"), zip(smiles, labels, strict=True))
                        wanted = ["--splits-file", f"{folder}/fold.csv", "--seed", str(seed), "--base", arguments.base]
                        wanted += ["-o", f"{folder}/run", "--json", "--quiet", *options.split()]
                        metrics = json.loads(run(["train", "--dataset", "esol", *wanted]))
                    kept[key] = {side: metrics[side][card.targets[0].name]["rmse"] for side in found}
                    save(arguments.output, "scaffold_folds", {}, kept, where)
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
