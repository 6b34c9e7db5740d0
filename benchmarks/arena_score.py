"""The seal of the test labels of `arena.py`: the only code that reads them, which counts every time that it does.

Only the command that scores imports this module, inside its function; tests/benchmarks/test_arena.py holds that no
training can reach it. A training that has its score is not scored again, and a read is written down before the labels
are opened.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from arena_runs import Record, finished
from arena_statistics import bootstrap
from arena_tasks import ACE_LABEL, MOLECULEACE, TASKS, TDC, Task, rows_of
from report import append_row, read_rows

CLIFFS = "cliffs"
"""The test molecules of MoleculeACE that are on an activity cliff; `ALL` are all of them."""

ALL = "all"


def sealed_labels(data: Path, task: Task) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The labels of the test molecules, and which of them: by a name, (m,) booleans over the test rows and the labels.

    The labels are those of all rows; of MoleculeACE there are two parts.
    """
    if task.group == TDC:
        y = np.array([float(row["Y"]) for row in rows_of(data / TDC / task.name / "test.csv")])
        return {ALL: (np.ones(len(y), dtype=bool), y)}
    rows = [row for row in rows_of(data / MOLECULEACE / f"{task.name}.csv") if row["split"] == "test"]
    y = np.array([float(row[ACE_LABEL]) for row in rows])
    cliffs = np.array([row["cliff_mol"] == "1" for row in rows])
    return {ALL: (np.ones(len(y), dtype=bool), y), CLIFFS: (cliffs, y)}


def score(data: Path, runs: Path, reason: str, results: Path, reads: Path) -> list[Record]:
    """Score the finished trainings that have no score yet: a row of results for each, and a line for each read.

    Args:
        data: the folder of the arena.
        runs: the folder of the trainings.
        reason: why the labels are read, for the file of reads.
        results, reads: CSV files, which grow.

    Returns: the trainings that were scored.
    """
    done = {(row["task"], row["model"], int(row["seed"])) for row in read_rows(results)}
    scored = []
    for record, answers in finished(runs):
        if (record.task, record.model, record.seed) in done:
            continue
        task = TASKS[record.task]
        line = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "task": task.name, "model": record.model, "seed": record.seed}
        append_row(reads, line | {"reason": reason, "count": 1})
        rows = []
        for part, (own, y) in sealed_labels(data, task).items():
            value, lower, upper = bootstrap(task.metric, y[own], answers[own])
            row = {"task": task.name, "model": record.model, "seed": record.seed, "part": part, "metric": task.metric}
            row |= {name: f"{x:.5g}" for name, x in (("score", value), ("lower", lower), ("upper", upper))}
            row |= {"train": record.train, "val": record.val, "test": int(own.sum()), "both_sides": record.both_sides}
            row |= {"unreadable": record.unreadable, "seconds": record.seconds, "options": record.options}
            rows.append(row | {"version": record.version, "machine": record.machine})
        for row in rows:
            append_row(results, row)
        scored.append(record)
    return scored
