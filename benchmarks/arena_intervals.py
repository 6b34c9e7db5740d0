"""The 90% conformal intervals of the default model on the tasks of `arena.py`, in folds of the labeled molecules.

A fold is held out by scaffold, so that its molecules differ from those of calibration, which are a random tenth of the
training molecules: intervals are guaranteed for molecules like those of calibration, and this measures what remains of
the guarantee for others. No test molecule of a task is read.
"""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from arena_runs import cpu_seconds, fold_labels_of, model_version
from arena_tasks import TASKS, TDC, read_task, tasks_of
from commands import MOLATTN, run
from report import describe_machine, machine, markdown
from tables import read_rows, write_rows

from molattn.errors import UsageError

LEVEL = 0.9
CALIBRATION_SIZE = 0.1
REGRESSION_TASKS = tuple(task.name for task in tasks_of(TDC) if task.task_type == "regression")


def check_regression(names: Sequence[str]) -> None:
    """Raise UsageError for a task of TDC whose labels are classes, or another task."""
    if unknown := [name for name in names if name not in REGRESSION_TASKS]:
        raise UsageError(f"{unknown[0]!r} has no intervals: choose among {', '.join(REGRESSION_TASKS)}")


def measure(data: Path, name: str, fold: int, seed: int) -> dict[str, object]:
    """Train without a fold of the labeled molecules, and count those of the fold in their intervals: a row of results.

    The columns are the numbers of training and held-out molecules; the share of the latter in their intervals; the mean
    width, divided by the standard deviation of their labels; and both numbers for those that are marked as unlike the
    training molecules.
    """
    start, task_data = cpu_seconds(), read_task(data, name)
    labels = fold_labels_of(data, name, fold)
    rows = [*zip(task_data.smiles, task_data.y.tolist(), labels, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        table = write_rows(Path(folder) / "table.csv", ["smiles", "y", "split"], rows)
        held_out = [row for row in rows if row[2] == "test"]
        queries = write_rows(Path(folder) / "held_out.csv", ["smiles", "y", "split"], held_out)
        trained, answers = Path(folder) / "run", Path(folder) / "answers.csv"
        columns = ("--smiles-column", "smiles", "--target-columns", "y", "--split-column", "split")
        options = ("--calibration-size", CALIBRATION_SIZE, "--seed", seed, "--quiet")
        run([*MOLATTN, "train", table, *columns, *options, "-o", trained])
        question = ("--smiles-column", "smiles", "--interval", LEVEL, "--applicability")
        run([*MOLATTN, "predict", trained, queries, *question, "-o", answers])
        found = read_rows(answers)
    y, lower, upper = (np.array([float(row[column]) for row in found]) for column in ("y", "y_lower", "y_upper"))
    is_inside = (lower <= y) & (y <= upper)
    is_unlike = np.array([row["out_of_domain"] != "no" for row in found])
    return {
        "task": name,
        "fold": fold,
        "seed": seed,
        "train": int((labels == "train").sum()),
        "held": len(found),
        "inside": f"{is_inside.mean():.4f}",
        "width": f"{(upper - lower).mean() / y.std():.3f}",
        "unlike": int(is_unlike.sum()),
        "unlike_inside": f"{is_inside[is_unlike].mean():.4f}" if is_unlike.any() else "",
        "seconds": round(cpu_seconds() - start, 1),
        "version": model_version("molattn"),
        "machine": describe_machine(machine()),
    }


def section(rows: Sequence[Mapping[str, str]]) -> str:
    """The section of the page: a row for each task, the mean over its folds, and the mean over tasks."""
    parts = ["## Intervals\n"]
    if not rows:
        parts.append("No intervals have been measured yet.")
        return "\n".join(parts)
    parts += [
        f"The share of held-out molecules whose label is in the {LEVEL:.0%} conformal interval, in folds of train_val",
        f"by scaffold; a random {CALIBRATION_SIZE:.0%} of the training molecules is for calibration. The mean width is",
        "divided by the standard deviation of the held-out labels. Molecules marked as unlike those of training are",
        "also counted by themselves (`molattn predict --interval 0.9 --applicability`).\n",
    ]
    by_task: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        by_task[row["task"]].append(row)
    table, means = [], []
    for name in sorted(by_task, key=lambda name: TASKS[name].molecules):
        own = by_task[name]
        inside, held = [float(row["inside"]) for row in own], [int(row["held"]) for row in own]
        unlike = [(float(row["unlike_inside"]), int(row["unlike"])) for row in own if int(row["unlike"])]
        total = sum(n for _, n in unlike)
        means.append(statistics.mean(inside))
        table.append(
            [
                name,
                len(own),
                sum(held),
                f"{means[-1]:.1%}",
                f"{min(inside):.1%} to {max(inside):.1%}",
                f"{statistics.mean(float(row['width']) for row in own):.2f}",
                f"{total / sum(held):.0%}",
                f"{sum(share * n for share, n in unlike) / total:.1%}" if total else "",
            ]
        )
    columns = ["task", "folds", "molecules", "in the interval", "over folds", "width", "marked as unlike"]
    parts.append(markdown([*columns, "of these in the interval"], table))
    parts.append(f"\nMean over {len(means)} tasks: {statistics.mean(means):.1%}.")
    return "\n".join(parts)
