"""Does it help to start from a base model, and from which? Validation errors as a table, and no test errors.

    python benchmarks/pretraining.py -o results.json                      # from scratch, and from molattn's base
    python benchmarks/pretraining.py -o results.json --auxiliary 0 0.3    # each with auxiliary targets too
    python benchmarks/pretraining.py -o results.json --datasets freesolv --splits random0 random1 random2
    python benchmarks/pretraining.py -o levers.json --folder bases \\
        --make plain="--masked-atoms 0" --make masked="" --make grown="--grow 8000 --masked-atoms 0 --epochs 17"

`--make NAME="OPTIONS"` runs `molattn pretrain OPTIONS` into the folder given, unless a base of that name is there, and
trains from it as well. Each training is the command that a user types, in a process of its own; further options are
handed to `molattn train`. Results are kept one by one: the same command goes on where it was stopped. Of ESOL
`random0` to `random9` and `scaffold` are the files of `datasets/splits`; of other sets `random3` is the split `random`
with seed 3, and `scaffold` that of its name.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import in_words, machine, markdown, save, saved

SPLITS = Path(__file__).parents[1] / "datasets" / "splits"
MOLATTN = [sys.executable, "-c", "from molattn.cli.main import main; main()"]


def run(arguments: list[str]) -> str:
    """What the command prints; the benchmark ends where it fails."""
    done = subprocess.run([*MOLATTN, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"molattn {shlex.join(arguments)}\n{done.stderr}")
    return done.stdout


def split_options(dataset: str, split: str, seed: int) -> list[str]:
    """The options of `molattn train` for one split."""
    file = SPLITS / f"{dataset}-{split}.csv"
    if file.is_file():
        return ["--splits-file", str(file), "--seed", str(seed)]
    if split.startswith("random"):
        # Split and weights have one seed: another seed of the weights would be another split.
        return ["--split", "random", "--seed", split.removeprefix("random")]
    return ["--split", split, "--seed", str(seed)]


def train(dataset: str, split: str, base: str, seed: int, options: list[str]) -> dict[str, Any]:
    """The validation error of one training, its best epoch and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = ["--dataset", dataset, *split_options(dataset, split, seed), "--base", base]
        wanted += ["-o", f"{folder}/run", "--json", "--quiet"]
        metrics = json.loads(run(["train", *wanted, *options]))
        env = json.loads((Path(folder) / "run" / "env.json").read_text())
    (target,) = [name for name in metrics["val"] if name != "mean"]
    measured = metrics["val"][target]
    name = next(iter(measured))
    found = {"metric": name, "val": measured[name], "best_epoch": metrics["best_epoch"]}
    return {**found, "seconds": env["training_seconds"]}


def main() -> None:
    """Pretrain the requested base models, train from each of them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=["esol"])
    parser.add_argument("--splits", nargs="+", default=["random0", "random1", "random2", "scaffold"])
    parser.add_argument("--bases", nargs="*", default=["none", "nci"])
    parser.add_argument("--make", action="append", default=[], metavar='NAME="OPTIONS"')
    parser.add_argument("--folder", type=Path, default=Path("bases-of-benchmark"))
    parser.add_argument("--auxiliary", type=float, nargs="+", default=[0.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments, options = parser.parse_known_args()
    bases = {name: name for name in arguments.bases}
    for text in arguments.make:
        name, _, wanted = text.partition("=")
        bases[f"{name} ({wanted or 'defaults'})"] = str(arguments.folder / name)
        if not (arguments.folder / name / "card.toml").is_file():
            print(f"molattn pretrain {wanted} -o {arguments.folder / name}", file=sys.stderr)
            resume = ["--resume"] if (arguments.folder / name / "checkpoint").is_dir() else []
            run(["pretrain", *shlex.split(wanted), "-o", str(arguments.folder / name), "-q", *resume])
    kept: dict[str, Any] = saved(arguments.output)
    where = machine(("torch", "rdkit", "molattn"))
    rows = []
    for dataset in arguments.datasets:
        for name, base in bases.items():
            for auxiliary in arguments.auxiliary:
                cells = []
                for split in arguments.splits:
                    values = []
                    for seed in arguments.seeds:
                        key = shlex.join([dataset, split, name, str(auxiliary), str(seed), *options])
                        if key not in kept:
                            more = ["--set", f"training.auxiliary={auxiliary}", *options]
                            kept[key] = train(dataset, split, base, seed, more)
                            save(arguments.output, "pretraining", vars(arguments) | {"options": options}, kept, where)
                            print(f"{key}: {kept[key]['val']:.3f}, {kept[key]['seconds']:.0f} s", file=sys.stderr)
                        values.append(kept[key]["val"])
                    cells.append(statistics.mean(values))
                shown = [f"{value:.3f}" for value in (*cells, statistics.mean(cells))]
                rows.append([dataset, name, f"{auxiliary:g}", *shown])
    print(markdown(["validation", "base", "auxiliary", *arguments.splits, "mean"], rows))
    print(f"\nSeeds of the weights {', '.join(map(str, arguments.seeds))}. {in_words(where)}")


if __name__ == "__main__":
    main()
