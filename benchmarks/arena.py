"""The arena of the field: TDC's 22 ADMET tasks and 20 targets of MoleculeACE, by their protocols.

    python benchmarks/arena.py DATA train --tasks hia_hou caco2_wang --seeds 1 2 3 4 5 --models molattn forest-morgan
    python benchmarks/arena.py DATA score --reason "the defaults of version 0.1"
    python benchmarks/arena.py DATA folds --question losses --options "" "--set training.ema=0" --tasks herg dili
    python benchmarks/arena.py --page docs/arena.md

DATA holds tdc/TASK/train_val.csv, tdc/TASK/test.csv and moleculeace/TARGET.csv.

`train` trains each model on each task with each seed. It gets a table with columns smiles, y and split, in which y of
the test molecules is empty, and its answers to them are kept in the folder of runs, with a record. `score` reads the
labels of the test molecules, counts that, and writes the scores of all trainings in the folder that have none; it alone
can read them. `folds` measures settings on the labelled molecules alone, and says what the rule of choice says of them,
which is in docs/arena.md; options are those of `molattn train`, or the name of another model.

What is there is not done again, so that each command goes on where it was stopped. No training starts after --hours,
nor when its question has taken the core-hours that `arena_budget.py` gives it; of `train` the question is the name of
the model, with its tag. Commands side by side must have different tasks or models. Peers run in environments of their
own, see `peers.py`.
"""

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
COMMANDS = ("train", "score", "folds")


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the tables; only the page goes without it")
    parser.add_argument("command", nargs="?", choices=COMMANDS)
    parser.add_argument("--tasks", nargs="+", default=[], help="all if none is named, the smallest first")
    parser.add_argument("--seeds", type=int, nargs="+", help="1 to 5; of folds 0")
    parser.add_argument("--models", nargs="+", default=["molattn"], help="of `contenders.py`")
    parser.add_argument("--options", nargs="+", default=[""], help="of `molattn train`, a line each; '' for none")
    parser.add_argument("--tag", default="", help="train: follows the model's name in the results; options need one")
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2, 3, 4], choices=range(5))
    parser.add_argument("--question", default="defaults", help="folds: whose core-hours, see `arena_budget.py`")
    parser.add_argument("--reason", default="", help="score: why the test labels are read")
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "arena", help="the folder of trainings")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of arena.csv and the others")
    parser.add_argument("--peers", type=Path, help="where the peers' environments lie")
    parser.add_argument("--hours", type=float, default=2.8, help="no training starts later than this after the start")
    parser.add_argument("--page", type=Path, help="where the tables are written, docs/arena.md")
    arguments = parser.parse_args(words)
    arguments.options = [options.strip() for options in arguments.options]
    if bool(arguments.data) != bool(arguments.command) or not (arguments.command or arguments.page):
        parser.error("give DATA and one of train, score and folds, or --page alone")
    if arguments.command == "score" and not arguments.reason.strip():
        parser.error("--reason says in the file of reads why test labels are read")
    if arguments.command == "train" and any(arguments.options) and not (arguments.tag and len(arguments.options) == 1):
        parser.error("train takes one line of --options, and a --tag to tell its runs from those of the defaults")
    return arguments


def train(arguments: argparse.Namespace) -> None:
    """The trainings that are missing, the smallest tasks first."""
    from arena_budget import SEEDS
    from arena_runs import contender, is_finished, records, with_tag
    from arena_runs import train as train_once
    from peers import FOLDER

    start, options = time.monotonic(), arguments.options[0]
    for model in arguments.models:
        contender(model, options)  # that a name is wrong is said before anything is trained
    for seed in arguments.seeds or SEEDS:
        for name in by_size(arguments.tasks):
            for model in arguments.models:
                label = with_tag(model, arguments.tag)
                if is_finished(arguments.runs, label, name, seed):
                    continue
                if is_late(start, arguments.hours):
                    return
                if is_spent(label, sum(r.seconds for r in records(arguments.runs) if r.model == label)):
                    continue
                peers = arguments.peers or FOLDER
                record = train_once(arguments.data, arguments.runs, name, model, seed, options, arguments.tag, peers)
                print(f"{name}, {label}, seed {seed}: {record.seconds:.0f} s of CPU", file=sys.stderr, flush=True)


def folds(arguments: argparse.Namespace) -> None:
    """The trainings in folds that are missing; then the table of the options beside the first of them."""
    from arena_folds import fold_row
    from arena_page import table_of_options
    from peers import FOLDER
    from report import append_row, read_rows

    start, path, question = time.monotonic(), arguments.results / "arena_folds.csv", arguments.question
    rows = read_rows(path)
    done = {(row["task"], row["options"], int(row["fold"]), int(row["seed"])) for row in rows}
    wanted = [
        (name, options, fold, seed)
        for seed in arguments.seeds or [0]
        for fold in arguments.folds
        for name in by_size(arguments.tasks)
        for options in arguments.options
    ]
    for name, options, fold, seed in wanted:
        if (name, options, fold, seed) in done:
            continue
        spent = sum(float(row["seconds"]) for row in read_rows(path) if row["question"] == question)
        if is_late(start, arguments.hours) or is_spent(question, spent):
            break
        found = fold_row(arguments.data, name, options, fold, seed, arguments.peers or FOLDER)
        append_row(path, {"question": question, **found})
        print(f"{name}, {options!r}, fold {fold}: {found['seconds']} s of CPU", file=sys.stderr, flush=True)
    first, *others = arguments.options
    if others:
        print(table_of_options(read_rows(path), others, first))


def score(arguments: argparse.Namespace) -> None:
    """The scores that are missing: the one function that imports what reads test labels."""
    from arena_seal import score as score_finished

    results, reads = arguments.results / "arena.csv", arguments.results / "arena_reads.csv"
    for record in score_finished(arguments.data, arguments.runs, arguments.reason, results, reads):
        print(f"{record.task}, {record.model}, seed {record.seed}: one read of its test labels", file=sys.stderr)


def by_size(tasks: list[str]) -> list[str]:
    """The tasks, all if none is named, the smallest first.

    Raises:
        UsageError: there is no such task.
    """
    from arena_tasks import TASKS

    from molattn.errors import UsageError

    if unknown := [name for name in tasks if name not in TASKS]:
        raise UsageError(f"there is no task {unknown[0]!r} in the arena: choose among {', '.join(TASKS)}")
    return sorted(tasks or TASKS, key=lambda name: TASKS[name].molecules)


def is_late(start: float, hours: float) -> bool:
    """Whether so many hours are over since the start, in seconds of the monotonic clock; says so."""
    late = time.monotonic() - start >= 3600 * hours
    if late:
        print(f"{hours:g} hours are over: the same command goes on from here", file=sys.stderr)
    return late


def is_spent(question: str, seconds: float) -> bool:
    """Whether a question has taken its core-hours, given the seconds of CPU time that it took; says so."""
    from arena_budget import limit_of

    spent = seconds >= limit_of(question)
    if spent:
        print(f"{question}: the core-hours of benchmarks/arena_budget.py are spent", file=sys.stderr)
    return spent


def write_page(arguments: argparse.Namespace) -> None:
    """The page, from the files of results."""
    from arena_page import page
    from report import read_rows

    names = ("arena.csv", "arena_reads.csv", "arena_folds.csv")
    text = page(*(read_rows(arguments.results / name) for name in names))
    arguments.page.write_text(text, encoding="utf-8")
    print(arguments.page)


def main(words: list[str] | None = None) -> None:
    """Do what is missing; then write the page."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    arguments = parsed(words)
    if arguments.command:
        {"train": train, "score": score, "folds": folds}[arguments.command](arguments)
    if arguments.page:
        write_page(arguments)


if __name__ == "__main__":
    from molattn.errors import MolattnError

    try:
        main()
    except MolattnError as error:
        sys.exit(f"error: {error}")
