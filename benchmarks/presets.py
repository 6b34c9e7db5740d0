"""Test errors of every preset of `molattn train` on one ESOL split, with its parameters and its time, as a table.

    python benchmarks/presets.py                     # all presets, seed 0, some 40 minutes
    python benchmarks/presets.py --presets mat rmat  # some of them
    python benchmarks/presets.py --split scaffold

Each training is `molattn train --dataset esol --preset NAME` from scratch, without descriptors, in a process of its
own. RMSE in log10(mol/L); the seconds are CPU time of the whole command, with the embedding of molecules in 3D where a
preset needs it, and depend little on other work. Further options are passed to `molattn train`.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from esol_splits import SPLITS, train
from report import describe_machine, machine, markdown

from molattn.models.presets import PRESETS

WITHOUT_DESCRIPTORS = ("--set", "training.auxiliary=0", "--set", "data.molecule_featurizers=[]")


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    parser.add_argument("--split", default="random0", choices=SPLITS)
    parser.add_argument("--seed", type=int, default=0)
    arguments, options = parser.parse_known_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for preset in arguments.presets:
            command = ["--preset", preset, "--base", "none", *WITHOUT_DESCRIPTORS, *options]
            result = train(arguments.split, arguments.seed, Path(folder) / preset, command)
            (target,) = result["test"]
            errors = (f"{result[part][target]['rmse']:.3f}" for part in ("val", "test"))
            rows.append([preset, f"{result['parameters']:,}", f"{result['cpu']:.0f}", *errors])
            print(" | ".join(rows[-1]), file=sys.stderr)
    print(markdown(["preset", "parameters", "CPU s", "validation RMSE", "test RMSE"], rows))
    print(f"\n{arguments.split}, seed {arguments.seed}. {describe_machine(machine())}")


if __name__ == "__main__":
    main()
