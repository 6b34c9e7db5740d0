"""Test errors of `molattn train` at its defaults on the four ESOL splits of this repository, as a table.

    python benchmarks/esol_splits.py                 # seed 0: four trainings, a few minutes
    python benchmarks/esol_splits.py --seeds 0 1 2   # with the spread over seeds

Each training is the command that a user types, in a process of its own; a split file is taken as it is. RMSE in
log10(mol/L), not standardised. Any further option is handed to `molattn train`.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

SPLITS = ("random0", "random1", "random2", "scaffold")


def train(split: str, seed: int, folder: Path, options: list[str]) -> dict:
    """The metrics of one training, and its seconds."""
    file = Path(__file__).parents[1] / "datasets" / "splits" / f"esol-{split}.csv"
    run = folder / f"{split}-{seed}"
    command = [sys.executable, "-c", "from molattn.cli.main import main; main()", "train", "--dataset", "esol"]
    command += ["--splits-file", str(file), "--seed", str(seed), "-o", str(run), "--json", "--quiet", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    env = json.loads((run / "env.json").read_text())
    return {**json.loads(done.stdout), "seconds": env["training_seconds"]}


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments, options = parser.parse_known_args()
    tests, means = {split: [] for split in SPLITS}, {}
    validation = {split: [] for split in SPLITS}
    seconds, parameters = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in arguments.seeds:
            for split in SPLITS:
                result = train(split, seed, Path(folder), options)
                (target,) = result["test"]
                tests[split].append(result["test"][target]["rmse"])
                validation[split].append(result["val"][target]["rmse"])
                means[split] = result["baseline"]["test"][target]["rmse"]
                seconds.append(result["seconds"])
                parameters = result["parameters"]
                print(f"{split} seed {seed}: test {tests[split][-1]:.3f}, {seconds[-1]:.0f} s", file=sys.stderr)
    random = [split for split in SPLITS if split.startswith("random")]
    print(f"| test RMSE, log10(mol/L) | {' | '.join(SPLITS)} | mean of random |")
    print(f"|---|{'---|' * (len(SPLITS) + 1)}")
    for name, values in (("molattn", tests), ("validation, for comparison", validation)):
        cells = [_cell(values[split]) for split in SPLITS]
        over_random = [statistics.mean(runs) for runs in zip(*(values[s] for s in random), strict=True)]
        print(f"| {name} | {' | '.join(cells)} | {_cell(over_random)} |")
    cells = [f"{means[split]:.3f}" for split in SPLITS]
    print(f"| always the training mean | {' | '.join(cells)} | {statistics.mean(means[s] for s in random):.3f} |")
    seeds = ", ".join(map(str, arguments.seeds))
    print(
        f"\nSeed {seeds}; {parameters:,} parameters; a training took {min(seconds):.0f} to {max(seconds):.0f} s, on "
        f"one thread of a machine with {os.cpu_count()} CPU cores ({platform.machine()}), torch {version('torch')}, "
        f"rdkit {version('rdkit')}."
    )


def _cell(values: list[float]) -> str:
    """One value, or mean and standard deviation of several."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


if __name__ == "__main__":
    main()
