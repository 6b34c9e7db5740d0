"""Related properties learned together, in folds of the labeled molecules of TDC's tasks.

    python benchmarks/related_tasks.py DATA --folds 0 1 2 3 4
    python benchmarks/related_tasks.py --page docs/results/related_tasks.md

DATA has the files tdc/TASK/train_val.csv. For each task of a group, one model is trained on a table with a column for
each task of the group. The molecules of the task have the split of a fold of `arena.py folds`, those of the other tasks
are training molecules; molecules of the fold that is held out are left out of all of them, by the connectivity of the
InChIKey. The score is that of the task in the held-out fold, and is compared with that of `arena.py folds` for a model
of the task alone. Both start from the base model `nci`, the default for so few molecules. Trainings that are in the
file of results are not repeated. No test molecule is read.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from arena_runs import NO_DISTILLATION, cpu_seconds, fold_labels_of, model_version
from arena_statistics import differences, mean_standardized_difference, metric_value
from arena_tasks import TASKS, read_task
from commands import MOLATTN, run
from report import describe_machine, machine, markdown
from tables import append_rows, read_column, read_rows, write_rows

from molattn.chem import inchi_key
from molattn.training.metrics import METRICS

RESULTS = Path(__file__).parent / "results" / "related_tasks.csv"
ALONE = RESULTS.with_name("arena_folds.csv")
TOGETHER = "together"
GROUPS = {
    "pharmacokinetics": (
        "half_life_obach",
        "vdss_lombardo",
        "clearance_hepatocyte_az",
        "clearance_microsome_az",
    ),
    "substrates of CYPs": (
        "cyp2d6_substrate_carbonmangels",
        "cyp2c9_substrate_carbonmangels",
        "cyp3a4_substrate_carbonmangels",
    ),
}

INTRODUCTION = """# Related properties learned together

Made by `python benchmarks/related_tasks.py --page docs/results/related_tasks.md`; the help of the command describes the
protocol. Two groups of tasks, pharmacokinetics and substrates of CYPs: one model with a target for each task of a
group, trained on the molecules of all, against a model of the task alone, in held-out folds of TDC's tasks. The
improvement is that of the metric of the leaderboard, the mean over folds: positive is better. The interval is that of
the t distribution, with the variance of Nadeau and Bengio (2003). The last columns are numbers of training molecules.
"""


def group_of(name: str) -> tuple[str, ...]:
    """The tasks of the group of a task, that task first."""
    (group,) = (tasks for tasks in GROUPS.values() if name in tasks)
    return (name, *(other for other in group if other != name))


def table_of(data: Path, name: str, fold: int) -> tuple[list[list[object]], np.ndarray]:
    """The rows smiles, split and a label for each task of the group, and the fold's split of the molecules of the task.

    The rows of the task come first. Labels of its held-out molecules are replaced by the first label of the others,
    because a table needs some; the metrics of the run are not read.
    """
    labeled, labels = read_task(data, name), fold_labels_of(data, name, fold)
    names, held_out = group_of(name), labels == "test"
    blanks: list[object] = [""] * (len(names) - 1)
    shown = np.where(held_out, labeled.y[~held_out][0], labeled.y)
    rows = [[s, label, y, *blanks] for s, label, y in zip(labeled.smiles, labels, shown.tolist(), strict=True)]
    excluded = {_connectivity(labeled.smiles[i]) for i in np.flatnonzero(held_out)}
    for k, other in enumerate(names[1:]):
        others = read_task(data, other)
        for smiles, y in zip(others.smiles, others.y.tolist(), strict=True):
            if _connectivity(smiles) not in excluded:
                rows.append([smiles, "train", "", *(y if j == k else "" for j in range(len(names) - 1))])
    return rows, labels


def _connectivity(smiles: str) -> str:
    """The first block of the InChIKey; the SMILES where RDKit cannot compute one."""
    return inchi_key(smiles).split("-")[0] or smiles


def train_together(data: Path, name: str, fold: int, seed: int) -> dict[str, object]:
    """Train a model of the group of a task, and score it on the task's held-out fold: a row of results."""
    start, (rows, labels), task = cpu_seconds(), table_of(data, name, fold), TASKS[name]
    names = group_of(name)
    with tempfile.TemporaryDirectory() as folder:
        table, output = Path(folder) / "table.csv", Path(folder) / "run"
        write_rows(table, ["smiles", "split", *names], rows)
        columns = ["--smiles-column", "smiles", "--target-columns", *names, "--split-column", "split"]
        options = ["--base", "nci", *NO_DISTILLATION.split(), "--seed", seed]
        run([*MOLATTN, "train", table, *columns, *options, "--quiet", "-o", output])
        predictions = read_column(output / "predictions.csv", f"{name}_pred")[: len(labels)]
    held_out = labels == "test"
    return {
        "task": name,
        "options": TOGETHER,
        "fold": fold,
        "seed": seed,
        "metric": task.metric,
        "score": f"{metric_value(task.metric, read_task(data, name).y[held_out], predictions[held_out]):.5g}",
        "train": int((labels == "train").sum()),
        "all": sum(row[1] == "train" for row in rows),
        "held": int(held_out.sum()),
        "seconds": round(cpu_seconds() - start, 1),
        "version": model_version("molattn"),
        "machine": describe_machine(machine()),
    }


def page(rows: Sequence[Mapping[str, str]], alone: Sequence[Mapping[str, str]]) -> str:
    """The page: a row for each task, group by group, and the mean standardized difference."""
    found = differences([*alone, *rows], TOGETHER, NO_DISTILLATION)
    cells = []
    for name in (name for names in GROUPS.values() for name in names if name in found):
        own, d = [row for row in rows if row["task"] == name], found[name]
        molecules = (f"{statistics.mean(int(row[column]) for row in own):,.0f}" for column in ("train", "all"))
        score, metric = statistics.mean(float(row["score"]) for row in own), METRICS[own[0]["metric"]].label
        cells.append([name, metric, f"{d.mean:+.3f}", d.format_interval(), f"{score:.3f}", len(d.values), *molecules])
    head = ["task", "metric", "improvement", "95% interval", "together", "folds", "its molecules", "all"]
    usable = [d for d in found.values() if d.std > 0]
    mean = "{:+.2f} ({:+.2f} to {:+.2f})".format(*mean_standardized_difference(usable)) if usable else "unknown"
    parts = [INTRODUCTION, markdown(head, cells)]
    parts += [f"\nMean over tasks, in standard deviations over folds of the score of the task alone: {mean}.", ""]
    return "\n".join([*parts, *dict.fromkeys(row["machine"] for row in rows)]) + "\n"


def main(words: list[str] | None = None) -> None:
    """Make the missing trainings; then write the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = [name for names in GROUPS.values() for name in names]
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the data; not needed for --page")
    parser.add_argument("--tasks", nargs="+", default=everything, choices=everything)
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2, 3, 4], choices=range(5))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("--page", type=Path, help="the Markdown file to write, docs/results/related_tasks.md")
    arguments = parser.parse_args(words)
    if not (arguments.data or arguments.page):
        parser.error("give DATA or --page")
    for fold in arguments.folds if arguments.data else ():
        for name in arguments.tasks:
            key = (name, str(fold), str(arguments.seed))
            if key in {(row["task"], row["fold"], row["seed"]) for row in read_rows(arguments.results)}:
                continue
            row = train_together(arguments.data, name, fold, arguments.seed)
            append_rows(arguments.results, [row])
            print(f"{name}, fold {fold}: {row['score']}", file=sys.stderr, flush=True)
    if arguments.page:
        arguments.page.write_text(page(read_rows(arguments.results), read_rows(ALONE)), encoding="utf-8")
        print(arguments.page)


if __name__ == "__main__":
    main()
