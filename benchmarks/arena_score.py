"""Scores of `arena.py`: the only code that reads labels of test molecules, and that counts each read.

Only the command `score` imports this module, inside its function; tests/benchmarks/test_arena.py tests that no training
can reach it. A training that has a score is not scored again, and a read is recorded before the labels are read.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from arena_runs import Record, finished_runs
from arena_statistics import bootstrap_interval
from arena_tasks import MOLECULEACE, MOLECULEACE_LABEL, TASKS, TDC, Task, read_table
from tables import append_rows, read_rows


def read_test_labels(data: Path, task: Task) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The labels of the m test molecules, and masks of the parts that are scored, all (m,).

    The part "all" has all molecules; "cliffs", only for MoleculeACE, those on an activity cliff.
    """
    if task.group == TDC:
        y = np.array([float(row["Y"]) for row in read_table(data / TDC / task.name / "test.csv")])
        return y, {"all": np.ones(len(y), dtype=bool)}
    rows = [row for row in read_table(data / MOLECULEACE / f"{task.name}.csv") if row["split"] == "test"]
    y = np.array([float(row[MOLECULEACE_LABEL]) for row in rows])
    return y, {"all": np.ones(len(y), dtype=bool), "cliffs": np.array([row["cliff_mol"] == "1" for row in rows])}


def score(data: Path, runs: Path, reason: str, results: Path, reads: Path) -> list[Record]:
    """Score the finished trainings without a score: append rows of results, and a row for each read.

    Args:
        data: the folder of the data.
        runs: the folder of the trainings.
        reason: why the labels are read, for the file of reads.
        results, reads: CSV files that are appended to.

    Returns: the trainings that were scored.
    """
    done = {(row["task"], row["model"], int(row["seed"])) for row in read_rows(results)}
    scored = []
    for record, predictions in finished_runs(runs):
        if (record.task, record.model, record.seed) in done:
            continue
        task = TASKS[record.task]
        key = {"task": task.name, "model": record.model, "seed": record.seed}
        append_rows(reads, [{"date": f"{datetime.now(UTC):%Y-%m-%d}", **key, "reason": reason, "count": 1}])
        rows = []
        y, parts = read_test_labels(data, task)
        for part, mask in parts.items():
            value, lower, upper = bootstrap_interval(task.metric, y[mask], predictions[mask])
            row = {**key, "part": part, "metric": task.metric}
            row |= {name: f"{x:.5g}" for name, x in (("score", value), ("lower", lower), ("upper", upper))}
            row |= {"train": record.train, "val": record.val, "test": int(mask.sum()), "both_sides": record.both_sides}
            row |= {"unreadable": record.unreadable, "seconds": record.seconds, "options": record.options}
            rows.append(row | {"version": record.version, "machine": record.machine})
        append_rows(results, rows)
        scored.append(record)
    return scored
