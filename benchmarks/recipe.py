"""Ablation of the default settings: one setting changed at a time, by validation errors only.

    python benchmarks/recipe.py -o recipe.json                       # from the base, random0 to random9 and scaffold
    python benchmarks/recipe.py -o recipe.json --start scratch --splits random0 random1 random2 scaffold \
        --seeds 0 --scaffold-seeds 0 1 2 3
    python benchmarks/recipe.py -o recipe.json --steps "batches of 64" "no dropout"
    python benchmarks/recipe.py -o recipe.json --start scratch --also "--set training.auxiliary=0"

From the base model, only settings that do not change the model are varied; from scratch also its parts and sizes. Each
training is `molattn train --dataset esol` with the options in the table, in a process of its own on one thread. The
error is that of the best epoch by the validation loss. Results are saved after each training: the same command resumes
an interrupted one.
"""

import argparse
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from pretraining import train
from report import describe_machine, load_results, machine, markdown, save_results

COMMON = {
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
"""Settings for both starts."""

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

STEPS = {"base": COMMON | BASE, "scratch": COMMON | SCRATCH}


def row(name: str, options: str, found: dict[str, float], default: dict[str, float]) -> list[str]:
    """A row of the table: mean errors of random and scaffold splits, and differences from the default.

    In brackets the standard error of the mean difference over the splits and seeds.
    """
    cells = []
    for scaffold in (False, True):
        runs = [key for key in found if ("scaffold" in key) == scaffold]
        cells.append(f"{statistics.mean(found[key] for key in runs):.3f}" if runs else "")
        differences = [found[key] - default[key] for key in runs]
        if not options or len(differences) < 2:
            cells.append("")
        else:
            error = statistics.stdev(differences) / math.sqrt(len(differences))
            cells.append(f"{statistics.mean(differences):+.3f} ({error:.3f})")
    return [name, f"`{options}`" if options else "", *cells]


def main() -> None:
    """Make the missing trainings, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--start", choices=list(STEPS), default="base")
    parser.add_argument("--splits", nargs="+", default=[*(f"random{i}" for i in range(10)), "scaffold"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--scaffold-seeds", type=int, nargs="+", help="seeds of the scaffold split; --seeds by default")
    parser.add_argument("--steps", nargs="+", metavar="STEP", help="names in the table, in addition to the default")
    parser.add_argument("--also", default="", help="options of `molattn train` for every row")
    arguments = parser.parse_args()
    steps = STEPS[arguments.start]
    if unknown := set(arguments.steps or ()) - set(steps):
        parser.error(f"there is no step {', '.join(sorted(unknown))}; there are {', '.join(steps)}")
    results: dict[str, Any] = load_results(arguments.output)
    where, default, rows = machine(("torch", "rdkit", "molattn")), {}, []
    base = "none" if arguments.start == "scratch" else "auto"
    for name, options in steps.items():
        if options and name not in (arguments.steps or steps):
            continue
        found = {}
        for split in arguments.splits:
            for seed in (split == "scaffold" and arguments.scaffold_seeds) or arguments.seeds:
                key = f"{arguments.start} | {f'{arguments.also} {options}'.strip()} | {split} | {seed}"
                if key not in results:
                    results[key] = train("esol", split, base, seed, [*arguments.also.split(), *options.split()])
                    save_results(arguments.output, "recipe", {}, results, where)
                found[f"{split} {seed}"] = results[key]["val"]
        default = default or found
        rows.append(row(name, options, found, default))
        print(" | ".join(rows[-1]), file=sys.stderr)
    print(markdown([f"from {arguments.start}", "options", "random", "", "scaffold", ""], rows))
    seeds = ", ".join(map(str, arguments.seeds))
    scaffold_seeds = ", ".join(map(str, arguments.scaffold_seeds or arguments.seeds))
    print(f"\nSeeds of the weights {seeds}, of the scaffold split {scaffold_seeds}. {describe_machine(where)}")


if __name__ == "__main__":
    main()
