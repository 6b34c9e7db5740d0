"""What each part of the recipe is worth: one setting changed at a time, by validation errors and never by test errors.

    python benchmarks/recipe.py -o recipe.json                       # from the base, random0 to random9 and scaffold
    python benchmarks/recipe.py -o recipe.json --start scratch --splits random0 random1 random2 scaffold \
        --seeds 0 --scaffold-seeds 0 1 2 3
    python benchmarks/recipe.py -o recipe.json --steps "batches of 64" "no dropout"
    python benchmarks/recipe.py -o recipe.json --start scratch --also "--set training.auxiliary=0"   # around another

From the base those settings are changed that leave the model as the base has it; from scratch its parts and sizes as
well. Each training is `molattn train --dataset esol` with the options in the table, in a process of its own, on one
thread. The error is that of the epoch that validation chose. Results are kept one by one: the same command goes on
where it was stopped.
"""

import argparse
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from pretraining import train
from report import in_words, machine, markdown, save, saved

BOTH = {
    "the default": "",
    "half the learning rate": "--set training.learning_rate=5e-4",
    "twice the learning rate": "--set training.learning_rate=2e-3",
    "no dropout": "--set model.dropout=0",
    "dropout 0.1": "--set model.dropout=0.1",
    "dropout 0.2": "--set model.dropout=0.2",
    "weight decay 0.1": "--set training.weight_decay=0.1",
    "no weight decay": "--set training.weight_decay=0",
    "no running average": "--set training.ema=0",
    "longer running average": "--set training.ema=0.995",
    "no warm-up": "--set training.warmup=0",
    "batches of 16": "--batch-size 16",
    "batches of 64": "--batch-size 64",
}
"""What can be changed whatever a training starts from."""

BASE = {
    "auxiliary descriptors": "--set training.auxiliary=0.3",
    "10 epochs": "--epochs 10",
    "20 epochs": "--epochs 20",
    "60 epochs": "--epochs 60",
}

SCRATCH = {
    "no auxiliary descriptors": "--set training.auxiliary=0",
    "auxiliary descriptors, weight 0.3": "--set training.auxiliary=0.3",
    "auxiliary descriptors, weight 1": "--set training.auxiliary=1",
    "no descriptors in the readout": "--set data.molecule_featurizers=[]",
    "all descriptors in the readout": "--molecule-featurizers rdkit_2d",
    "path lengths up to 3 bonds": "--set model.max_path=3",
    "path lengths up to 20 bonds": "--set model.max_path=20",
    "atoms know their degree": '--set model.nodes=["degree"]',
    "50 epochs": "--epochs 50",
    "bonds alone, no path lengths": '--set model.edges=["bond"]',
    "path lengths alone, no bonds": '--set model.edges=["path"]',
    "bonded neighbours alone": "--set model.neighbours=bonded",
    "readout: sum": "--set model.readout=sum",
    "readout: attention": "--set model.readout=attention",
    "a virtual node": "--set model.virtual_node=true",
    "2 layers": "--set model.num_layers=2",
    "6 layers": "--set model.num_layers=6",
    "4 heads": "--set model.num_heads=4",
    "16 heads": "--set model.num_heads=16",
    "Huber loss": "--set training.loss=huber",
    "width 32": "--set model.hidden_dim=32",
    "width 128": "--set model.hidden_dim=128",
}

STEPS = {"base": BOTH | BASE, "scratch": BOTH | SCRATCH}


def row(name: str, options: str, found: dict[str, float], default: dict[str, float]) -> list[str]:
    """A row of the table: mean errors over random splits and scaffolds, and how much more than the default's.

    In brackets the standard error of the mean difference, run by run; splits and seeds are the runs.
    """
    cells = []
    for scaffold in (False, True):
        runs = [key for key in found if ("scaffold" in key) == scaffold]
        cells.append(f"{statistics.mean(found[key] for key in runs):.3f}" if runs else "")
        more = [found[key] - default[key] for key in runs]
        if not options or len(more) < 2:
            cells.append("")
        else:
            error = statistics.stdev(more) / math.sqrt(len(more))
            cells.append(f"{statistics.mean(more):+.3f} ({error:.3f})")
    return [name, f"`{options}`" if options else "", *cells]


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--start", choices=list(STEPS), default="base")
    parser.add_argument("--splits", nargs="+", default=[*(f"random{i}" for i in range(10)), "scaffold"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--scaffold-seeds", type=int, nargs="+", help="of the scaffold split; --seeds by default")
    parser.add_argument("--steps", nargs="+", metavar="STEP", help="names in the table; the default is always there")
    parser.add_argument("--also", default="", help="options of `molattn train` that every line has, before its own")
    arguments = parser.parse_args()
    steps = STEPS[arguments.start]
    if unknown := set(arguments.steps or ()) - set(steps):
        parser.error(f"there is no step {', '.join(sorted(unknown))}; there are {', '.join(steps)}")
    kept: dict[str, Any] = saved(arguments.output)
    where, default, rows = machine(("torch", "rdkit", "molattn")), {}, []
    base = "none" if arguments.start == "scratch" else "auto"
    for name, options in steps.items():
        if options and name not in (arguments.steps or steps):
            continue
        found = {}
        for split in arguments.splits:
            for seed in (split == "scaffold" and arguments.scaffold_seeds) or arguments.seeds:
                key = f"{arguments.start} | {f'{arguments.also} {options}'.strip()} | {split} | {seed}"
                if key not in kept:
                    kept[key] = train("esol", split, base, seed, [*arguments.also.split(), *options.split()])
                    save(arguments.output, "recipe", {}, kept, where)
                found[f"{split} {seed}"] = kept[key]["val"]
        default = default or found
        rows.append(row(name, options, found, default))
        print(" | ".join(rows[-1]), file=sys.stderr)
    print(markdown([f"from {arguments.start}", "options", "random", "", "scaffold", ""], rows))
    seeds = ", ".join(map(str, arguments.seeds))
    of_scaffold = ", ".join(map(str, arguments.scaffold_seeds or arguments.seeds))
    print(f"\nSeeds of the weights {seeds}, of the scaffold split {of_scaffold}. {in_words(where)}")


if __name__ == "__main__":
    main()
