"""Test errors of every preset of `molattn train` on one ESOL split, with its parameters and its time, as a table.

    python benchmarks/presets.py                     # all presets, seed 0, some 15 minutes
    python benchmarks/presets.py --presets mat rmat  # some of them
    python benchmarks/presets.py --split scaffold

Each training is `molattn train --dataset esol --preset NAME` at its defaults, in a process of its own. RMSE in
log10(mol/L), not standardised; seconds are those of the training alone, without embedding molecules in 3D. Any further
option is handed to `molattn train`.
"""

import argparse
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from esol_splits import SPLITS, train

from molattn.models.presets import PRESETS


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    parser.add_argument("--split", default="random0", choices=SPLITS)
    parser.add_argument("--seed", type=int, default=0)
    arguments, options = parser.parse_known_args()
    print("| preset | parameters | seconds | validation RMSE | test RMSE |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for preset in arguments.presets:
            result = train(
                arguments.split,
                arguments.seed,
                Path(folder) / preset,
                [
                    "--preset",
                    preset,
                    "--base",
                    "none",
                    "--set",
                    "training.auxiliary=0",
                    "--set",
                    "data.molecule_featurizers=[]",
                    *options,
                ],
            )
            (target,) = result["test"]
            errors = " | ".join(f"{result[side][target]['rmse']:.3f}" for side in ("val", "test"))
            print(f"| {preset} | {result['parameters']:,} | {result['seconds']:.0f} | {errors} |")
            sys.stdout.flush()
    print(
        f"\n{arguments.split}, seed {arguments.seed}, on one thread of a machine with {os.cpu_count()} CPU cores "
        f"({platform.machine()}), torch {version('torch')}, rdkit {version('rdkit')}."
    )


if __name__ == "__main__":
    main()
