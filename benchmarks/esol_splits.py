"""Test errors of `molattn train` with its default settings on the four ESOL splits of this repository, as a table.

    python benchmarks/esol_splits.py                 # seed 0: four trainings, a few minutes
    python benchmarks/esol_splits.py --seeds 0 1 2   # with the standard deviation over seeds

Each training is the command that a user types, in a process of its own. RMSE in log10(mol/L). Further options are
passed to `molattn train`.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from commands import DATASETS, MOLATTN, run
from report import describe_machine, machine, markdown, mean_and_std

SPLITS = ("random0", "random1", "random2", "scaffold")


def train(split: str, seed: int, folder: Path, options: list[str]) -> dict[str, Any]:
    """The metrics of one training, the seconds that it took, and the CPU seconds of the whole command."""
    output = folder / f"{split}-{seed}"
    command = [*MOLATTN, "train", "--dataset", "esol", "--splits-file", DATASETS / "splits" / f"esol-{split}.csv"]
    done = run([*command, "--seed", seed, "-o", output, "--json", "--quiet", *options])
    seconds = json.loads((output / "env.json").read_text())["training_seconds"]
    return {**json.loads(done.stdout), "seconds": seconds, "cpu": done.cpu}


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments, options = parser.parse_known_args()
    results: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    with tempfile.TemporaryDirectory() as folder:
        for seed in arguments.seeds:
            for split in SPLITS:
                results[split].append(train(split, seed, Path(folder), options))
                print(f"{split} seed {seed}: {results[split][-1]['seconds']:.0f} s", file=sys.stderr)

    def row(name: str, part: str, is_baseline: bool = False) -> list[str]:
        errors: list[list[float]] = []
        for runs in results.values():
            metrics = [(run["baseline"] if is_baseline else run)[part] for run in runs]
            errors.append([next(iter(m.values()))["rmse"] for m in metrics])
        over_random = [statistics.mean(values) for values in zip(*errors[:3], strict=True)]
        return [name, *map(mean_and_std, errors), mean_and_std(over_random)]

    rows = [row("molattn", "test"), row("molattn, validation", "val"), row("always the training mean", "test", True)]
    print(markdown(["test RMSE, log10(mol/L)", *SPLITS, "mean of random"], rows))
    seconds = [run["seconds"] for runs in results.values() for run in runs]
    print(
        f"\nSeed {', '.join(map(str, arguments.seeds))}; {results['scaffold'][0]['parameters']:,} parameters; a "
        f"training takes {min(seconds):.0f} to {max(seconds):.0f} s. {describe_machine(machine())}"
    )


if __name__ == "__main__":
    main()
