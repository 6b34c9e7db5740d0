"""Active learning in retrospect: what `molattn select` gains over a random choice.

    python benchmarks/active_learning.py datasets/esol.csv --target log_solubility -o active.json
    python benchmarks/active_learning.py TABLE.csv --target Y --start 200 --batch 200 --rounds 5 --seeds 3

A fifth of the molecules, drawn at random, are for the test. Of the others `--start` are labelled at first, and their
labels are known; each round trains an ensemble of three models on what is labelled (`molattn train`), measures the test
error (`molattn evaluate`), and labels `--batch` more molecules, chosen by one strategy (`molattn select`) or at random.
All strategies begin with the same molecules and the same test, seed by seed. The table has the test RMSE of each round,
mean over the seeds, and the mean difference to the random choice over all rounds but the first, with its standard error
over the seeds. Resumable: finished pairs of seed and strategy are saved in a file next to the output.
"""

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from commands import MOLATTN, run
from report import describe_machine, machine, markdown, save_results

STRATEGIES = ("random", "uncertainty", "diverse")


def write(path: Path, header: list[str], rows: list[list[str]]) -> Path:
    """Write a table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def read(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a CSV."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def learn(table: Path, folder: Path, strategy: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, float]]:
    """The number of labelled molecules and the test error, round by round."""
    header, rows = read(table)
    header = [*header, "row"]
    rows = [[*row, str(i)] for i, row in enumerate(rows)]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows)).tolist()
    test, rest = order[: len(rows) // 5], order[len(rows) // 5 :]
    labelled, pool = rest[: arguments.start], rest[arguments.start :]
    test_table = write(folder / "held_out.csv", header, [rows[i] for i in test])
    history = []
    for number in range(arguments.rounds + 1):
        output = folder / f"round_{number}"
        train_table = write(folder / "train.csv", header, [rows[i] for i in labelled])
        train = ["train", train_table, "--target-columns", arguments.target, "-o", output, "--ensemble-size", 3]
        split = ["--split-sizes", "0.8", "0.1", "0.1", "--seed", seed, "--quiet", "--accelerator", "cpu"]
        run([*MOLATTN, *train, *split, *arguments.options])
        evaluate = [*MOLATTN, "evaluate", output, test_table, "--json", "--quiet"]
        metrics = json.loads(run(evaluate).stdout)["targets"][arguments.target]
        history.append({"labelled": len(labelled), "rmse": metrics["rmse"]})
        print(f"seed {seed}, {strategy}: {history[-1]}", file=sys.stderr)
        if number == arguments.rounds:
            break
        if strategy == "random":
            chosen = pool[: arguments.batch]
        else:
            pool_table = write(folder / "pool.csv", header, [rows[i] for i in pool])
            select = ["select", output, pool_table, "-n", arguments.batch, "--strategy", strategy]
            run([*MOLATTN, *select, "-o", folder / "next.csv", "--force", "--quiet"])
            chosen_header, chosen_rows = read(folder / "next.csv")
            chosen = [int(row[chosen_header.index("row")]) for row in chosen_rows]
        labelled, pool = [*labelled, *chosen], [i for i in pool if i not in set(chosen)]
    return history


def main() -> None:
    """Learn with every strategy and seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--start", type=int, default=100)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, required=True, help="all results as JSON")
    arguments, arguments.options = parser.parse_known_args()
    partial = arguments.output.with_suffix(".partial.json")
    found = json.loads(partial.read_text()) if partial.exists() else {}
    for seed in range(arguments.seeds):
        for strategy in arguments.strategies:
            if (key := f"{strategy} {seed}") not in found:
                with tempfile.TemporaryDirectory() as folder:
                    found[key] = learn(arguments.table, Path(folder), strategy, seed, arguments)
                partial.write_text(json.dumps(found, indent=1))
    errors = {
        strategy: np.array([[r["rmse"] for r in found[f"{strategy} {seed}"]] for seed in range(arguments.seeds)])
        for strategy in arguments.strategies
    }
    labelled = [r["labelled"] for r in found[f"{arguments.strategies[0]} 0"]]
    rows = []
    for strategy, values in errors.items():
        difference = "-"
        if strategy != "random" and "random" in errors:
            by_seed = (values - errors["random"])[:, 1:].mean(1)
            difference = f"{by_seed.mean():+.3f} ± {by_seed.std(ddof=1) / np.sqrt(len(by_seed)):.3f}"
        rows.append([strategy, *(f"{value:.3f}" for value in values.mean(0)), difference])
    print(markdown(["labelled", *map(str, labelled), "minus random"], rows))
    where = machine(("torch", "rdkit"), 1)
    print(f"\n{arguments.seeds} seeds, ensembles of three. {describe_machine(where)}")
    settings = {k: v for k, v in vars(arguments).items() if k not in ("output", "table")} | {
        "table": arguments.table.name
    }
    save_results(arguments.output, "active_learning", settings, found, where)


if __name__ == "__main__":
    main()
