"""Compare base models and training from scratch: validation errors as a table, without test errors.

    python benchmarks/pretraining.py -o results.json                      # from scratch, and from molattn's base
    python benchmarks/pretraining.py -o results.json --auxiliary 0 0.3    # each with auxiliary targets too
    python benchmarks/pretraining.py -o results.json --datasets freesolv --splits random0 random1 random2
    python benchmarks/pretraining.py -o levers.json --folder bases \\
        --make plain="--masked-atoms 0" --make masked="" --make grown="--grow 8000 --masked-atoms 0 --epochs 17"

`--make NAME="OPTIONS"` runs `molattn pretrain OPTIONS` into the folder given, unless a base of that name is there, and
trains from it as well. Each training is the command that a user types, in a process of its own; further options are
passed to `molattn train`. Results are saved after each training: the same command resumes an interrupted one. For ESOL,
`random0` to `random9` and `scaffold` are the files in `datasets/splits`; for other data sets `random3` is the split
`random` with seed 3, and `scaffold` the split of that name.
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from commands import DATASETS, MOLATTN, run
from report import describe_machine, load_results, machine, markdown, save_results


def split_options(dataset: str, split: str, seed: int) -> list[str]:
    """The options of `molattn train` for one split."""
    file = DATASETS / "splits" / f"{dataset}-{split}.csv"
    if file.is_file():
        return ["--splits-file", str(file), "--seed", str(seed)]
    if split.startswith("random"):
        # The seed of the split is also that of the weights.
        return ["--split", "random", "--seed", split.removeprefix("random")]
    return ["--split", split, "--seed", str(seed)]


def train(dataset: str, split: str, base: str, seed: int, options: list[str]) -> dict[str, Any]:
    """The validation error of one training, its best epoch and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*MOLATTN, "train", "--dataset", dataset, *split_options(dataset, split, seed), "--base", base]
        command += ["-o", f"{folder}/run", "--json", "--quiet", *options]
        metrics = json.loads(run(command).stdout)
        env = json.loads((Path(folder) / "run" / "env.json").read_text())
    (target,) = [name for name in metrics["val"] if name != "mean"]
    name, value = next(iter(metrics["val"][target].items()))
    epoch, seconds = metrics["best_epoch"], env["training_seconds"]
    return {"metric": name, "val": value, "best_epoch": epoch, "seconds": seconds}


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
        name, _, settings = text.partition("=")
        folder = arguments.folder / name
        bases[f"{name} ({settings or 'defaults'})"] = str(folder)
        if not (folder / "card.toml").is_file():
            print(f"molattn pretrain {settings} -o {folder}", file=sys.stderr)
            resume = ["--resume"] if (folder / "checkpoint").is_dir() else []
            run([*MOLATTN, "pretrain", *shlex.split(settings), "-o", folder, "-q", *resume])
    results: dict[str, Any] = load_results(arguments.output)
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
                        if key not in results:
                            command = ["--set", f"training.auxiliary={auxiliary}", *options]
                            results[key] = train(dataset, split, base, seed, command)
                            settings = vars(arguments) | {"options": options}
                            save_results(arguments.output, "pretraining", settings, results, where)
                            print(f"{key}: {results[key]['val']:.3f}, {results[key]['seconds']:.0f} s", file=sys.stderr)
                        values.append(results[key]["val"])
                    cells.append(statistics.mean(values))
                shown = [f"{value:.3f}" for value in (*cells, statistics.mean(cells))]
                rows.append([dataset, name, f"{auxiliary:g}", *shown])
    print(markdown(["validation", "base", "auxiliary", *arguments.splits, "mean"], rows))
    print(f"\nSeeds of the weights {', '.join(map(str, arguments.seeds))}. {describe_machine(where)}")


if __name__ == "__main__":
    main()
