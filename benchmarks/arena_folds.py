"""What settings are worth in `arena.py`, on folds of the labelled molecules of its tasks; no test table is of use here.

A fold is cut as in `epoch_choice.py`: by scaffold of a TDC task, by molecule of a MoleculeACE target; 70% of the
labelled molecules train, 10% validate, 20% are held out. The contender gets no label of the latter.
"""

from pathlib import Path

import numpy as np
from arena_runs import answers_of, contender, version_of
from arena_statistics import score_of
from arena_tasks import TASKS, TDC, Known, known
from contenders import ARENA
from epoch_choice import sides
from peers import FOLDER
from report import in_words, machine


def of_options(options: str) -> tuple[str, str]:
    """The model and its options: the name of a contender is itself, and anything else are options of molattn."""
    return (options, "") if options in ARENA else ("molattn", options)


def fold_row(data: Path, name: str, options: str, fold: int, seed: int, peers: Path = FOLDER) -> dict[str, object]:
    """One training without a fold, and the score of its answers to the molecules of that fold."""
    task, given = TASKS[name], known(data, name)
    labels = sides(list(given.smiles), "scaffold" if task.group == TDC else "random", fold)
    held, own = labels == "test", labels != "test"
    smiles = np.array(given.smiles, dtype=object)
    seen = Known(tuple(smiles[own]), given.y[own], tuple(smiles[held]))
    model, settings = of_options(options)
    answers, seconds = answers_of(task, seed, seen, labels[own], seen.test, contender(model, settings), peers)
    return {
        "task": name,
        "options": options,
        "fold": fold,
        "seed": seed,
        "metric": task.metric,
        "score": f"{score_of(task.metric, given.y[held], answers):.5g}",
        "train": int((labels == "train").sum()),
        "held": int(held.sum()),
        "seconds": round(seconds, 1),
        "version": version_of(model),
        "machine": in_words(machine()),
    }
