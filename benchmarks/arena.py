"""The benchmarks of the field: TDC's 22 ADMET tasks and 20 targets of MoleculeACE, by their protocols.

    python benchmarks/arena.py DATA train --tasks hia_hou caco2_wang --seeds 1 2 3 4 5 --models molattn forest-morgan
    python benchmarks/arena.py DATA score --reason "the defaults of version 0.1"
    python benchmarks/arena.py DATA folds --question losses --options "" "--set training.ema=0" --tasks herg dili
    python benchmarks/arena.py DATA intervals
    python benchmarks/arena.py --page docs/arena.md

DATA has the files tdc/TASK/train_val.csv, tdc/TASK/test.csv and moleculeace/TARGET.csv.

`train` trains each model on each task with each seed. The model gets a table with columns smiles, y and split, in which
y of the test molecules is empty; its predictions of them are written to the folder of runs, with a record. `score`
reads the labels of the test molecules, counts the read, and writes the scores of all trainings in the folder that have
none; no other command can read these labels. `folds` compares settings on the labeled molecules alone by the decision
rule in docs/arena.md; options are those of `molattn train`, or the name of another model. `intervals` measures the 90%
intervals of regression tasks in the same folds.

A training that is the same with other options gets their row: with `--target-transform none` where no target transform
is recognized, as for classes, and with the base model that is the default for that many molecules. Finished trainings
are not repeated, so that an interrupted command can be resumed. No training starts after --hours, or after the
core-hours in `arena_budget.py` of its question are spent; for `train` the question is the name of the model with its
tag. Concurrent commands must have different tasks or models. Models of other projects run in environments of their
own, see `peers.py`.
"""

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
COMMANDS = ("train", "score", "folds", "intervals")


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the data; not needed for --page")
    parser.add_argument("command", nargs="?", choices=COMMANDS)
    parser.add_argument("--tasks", nargs="+", default=[], help="default: all, the smallest first")
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 1 to 5; for folds 0")
    parser.add_argument("--models", nargs="+", default=["molattn"], help="names in `compared_models.py`")
    parser.add_argument("--options", nargs="+", default=[""], help="options of `molattn train`, quoted; '' for none")
    parser.add_argument("--tag", default="", help="train: appended to the name of the model; required with --options")
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2, 3, 4], choices=range(5))
    parser.add_argument("--question", default="defaults", help="folds: a question in `arena_budget.py`")
    parser.add_argument("--reason", default="", help="score: why the test labels are read")
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "arena", help="the folder of trainings")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of arena.csv and the others")
    parser.add_argument("--peers", type=Path, help="the folder with the environments of other projects")
    parser.add_argument("--hours", type=float, default=2.8, help="no training starts later than this")
    parser.add_argument("--page", type=Path, help="the Markdown file to write, docs/arena.md")
    arguments = parser.parse_args(words)
    arguments.options = [options.strip() for options in arguments.options]
    if bool(arguments.data) != bool(arguments.command) or not (arguments.command or arguments.page):
        parser.error("give DATA and one of train, score, folds and intervals, or --page alone")
    if arguments.command == "score" and not arguments.reason.strip():
        parser.error("score requires --reason: why the test labels are read")
    if arguments.command == "train" and any(arguments.options) and not (arguments.tag and len(arguments.options) == 1):
        parser.error("train accepts --options once, with a --tag to distinguish the runs from those of the defaults")
    return arguments


def train(arguments: argparse.Namespace) -> None:
    """Make the missing trainings, the smallest tasks first."""
    from arena_budget import SEEDS
    from arena_runs import find_model, is_finished, records, tagged_name
    from arena_runs import train as train_once
    from peers import FOLDER

    start, options = time.monotonic(), arguments.options[0]
    for model in arguments.models:
        find_model(model, options)  # raises an error before anything is trained
    for seed in arguments.seeds or SEEDS:
        for name in tasks_by_size(arguments.tasks):
            for model in arguments.models:
                label = tagged_name(model, arguments.tag)
                if is_finished(arguments.runs, label, name, seed):
                    continue
                if is_time_over(start, arguments.hours):
                    return
                if is_budget_spent(label, sum(r.seconds for r in records(arguments.runs) if r.model == label)):
                    continue
                peers = arguments.peers or FOLDER
                record = train_once(arguments.data, arguments.runs, name, model, seed, options, arguments.tag, peers)
                print(f"{name}, {label}, seed {seed}: {record.seconds:.0f} s of CPU", file=sys.stderr, flush=True)


def folds(arguments: argparse.Namespace) -> None:
    """Make the missing trainings in folds; then print the comparison of the options with the first of them."""
    from arena_page import table_of_options
    from arena_runs import train_fold
    from peers import FOLDER
    from tables import append_rows, read_rows

    start, path, question = time.monotonic(), arguments.results / "arena_folds.csv", arguments.question
    done = {(row["task"], row["options"], int(row["fold"]), int(row["seed"])) for row in read_rows(path)}
    requested = [
        (name, options, fold, seed)
        for seed in arguments.seeds or [0]
        for fold in arguments.folds
        for name in tasks_by_size(arguments.tasks)
        for options in arguments.options
    ]
    for name, options, fold, seed in requested:
        if (name, options, fold, seed) in done:
            continue
        seconds = sum(float(row["seconds"]) for row in read_rows(path) if row["question"] == question)
        if is_time_over(start, arguments.hours) or is_budget_spent(question, seconds):
            break
        row = row_of_same_training(arguments.data, read_rows(path), name, options, fold, seed)
        row = row or train_fold(arguments.data, name, options, fold, seed, arguments.peers or FOLDER)
        append_rows(path, [{"question": question, **row}])
        print(f"{name}, {options!r}, fold {fold}: {row['seconds']} s of CPU", file=sys.stderr, flush=True)
    reference, *others = arguments.options
    if others:
        print(table_of_options(read_rows(path), others, reference))


def intervals(arguments: argparse.Namespace) -> None:
    """Make the missing measurements of intervals in folds, the smallest tasks first."""
    from arena_intervals import REGRESSION_TASKS, check_regression, measure
    from tables import append_rows, read_rows

    check_regression(arguments.tasks)
    start, path = time.monotonic(), arguments.results / "arena_intervals.csv"
    for seed in arguments.seeds or [0]:
        for fold in arguments.folds:
            for name in tasks_by_size(arguments.tasks or list(REGRESSION_TASKS)):
                rows = read_rows(path)
                if any((r["task"], r["fold"], r["seed"]) == (name, str(fold), str(seed)) for r in rows):
                    continue
                if is_time_over(start, arguments.hours):
                    return
                if is_budget_spent("intervals", sum(float(r["seconds"]) for r in rows)):
                    return
                row = measure(arguments.data, name, fold, seed)
                append_rows(path, [row])
                print(f"{name}, fold {fold}: {row['inside']} inside, {row['seconds']} s of CPU", file=sys.stderr)


def row_of_same_training(
    data: Path, rows: list[dict[str, str]], task: str, options: str, fold: int, seed: int
) -> dict[str, object] | None:
    """The row of the same training with other options, without further seconds; None if there is no such row."""
    from arena_runs import defaults_of_fold, explicit_options

    found = [r for r in rows if (r["task"], r["fold"], r["seed"]) == (task, str(fold), str(seed))]
    if not found:
        return None
    facts = defaults_of_fold(data, task, fold)
    for row in found:
        if explicit_options(row["options"], *facts) == explicit_options(options, *facts):
            copied: dict[str, object] = {name: value for name, value in row.items() if name != "question"}
            return {**copied, "options": options, "seconds": 0}
    return None


def score(arguments: argparse.Namespace) -> None:
    """Write the missing scores: the only function that imports code that reads test labels."""
    from arena_score import score as score_finished_runs

    results, reads = arguments.results / "arena.csv", arguments.results / "arena_reads.csv"
    for record in score_finished_runs(arguments.data, arguments.runs, arguments.reason, results, reads):
        print(f"{record.task}, {record.model}, seed {record.seed}: one read of its test labels", file=sys.stderr)


def tasks_by_size(names: list[str]) -> list[str]:
    """The tasks, all by default, the smallest first.

    Raises:
        UsageError: there is no such task.
    """
    from arena_tasks import TASKS

    from molattn.errors import UsageError

    if unknown := [name for name in names if name not in TASKS]:
        raise UsageError(f"there is no task {unknown[0]!r}: choose among {', '.join(TASKS)}")
    return sorted(names or TASKS, key=lambda name: TASKS[name].molecules)


def is_time_over(start: float, hours: float) -> bool:
    """Whether that many hours have passed since `start`, in seconds of the monotonic clock; prints a message."""
    is_over = time.monotonic() - start >= 3600 * hours
    if is_over:
        print(f"{hours:g} hours are over: run the same command again to continue", file=sys.stderr)
    return is_over


def is_budget_spent(question: str, seconds: float) -> bool:
    """Whether a question has used its core-hours, given its CPU seconds so far; prints a message."""
    from arena_budget import max_seconds

    is_spent = seconds >= max_seconds(question)
    if is_spent:
        print(f"{question}: the core-hours in benchmarks/arena_budget.py are spent", file=sys.stderr)
    return is_spent


def write_page(arguments: argparse.Namespace) -> None:
    """Write the page from the files of results."""
    from arena_page import page
    from tables import read_rows

    names = ("arena.csv", "arena_reads.csv", "arena_folds.csv", "arena_intervals.csv")
    text = page(*(read_rows(arguments.results / name) for name in names))
    arguments.page.write_text(text, encoding="utf-8")
    print(arguments.page)


def main(words: list[str] | None = None) -> None:
    """Run the command, then write the page if requested."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    arguments = parse_arguments(words)
    if arguments.command:
        {"train": train, "score": score, "folds": folds, "intervals": intervals}[arguments.command](arguments)
    if arguments.page:
        write_page(arguments)


if __name__ == "__main__":
    from molattn.errors import MolattnError

    try:
        main()
    except MolattnError as error:
        sys.exit(f"error: {error}")
