"""The compute of `arena.py`, written down before it is spent: core-hours for each question, and where it stops."""

from collections.abc import Sequence
from dataclasses import dataclass

from arena_tasks import MOLECULEACE, TDC, tasks_of

from molattn.errors import UsageError

COSTS = {
    "molattn": (8.0, 16.0),
    "forest-morgan": (3.0, 40.0),
    "catboost": (25.0, 40.0),
    "chemprop": (20.0, 70.0),
    "chemprop-rdkit": (20.0, 80.0),
}
"""CPU seconds of one training: for its start, and for each 1,000 molecules trained on."""

SEEDS = (1, 2, 3, 4, 5)
FOLDS = 5
FOLD_SHARE = 0.7
"""Of the labelled molecules, trained on in a fold."""


def seconds_of(model: str, molecules: float) -> float:
    """CPU seconds of one training on so many molecules."""
    start, per_thousand = COSTS[model]
    return start + per_thousand * molecules / 1000


def hours_of_protocol(model: str) -> float:
    """Core-hours of all tasks with five seeds."""
    shares = {TDC: 0.875, MOLECULEACE: 0.9}
    seconds = sum(seconds_of(model, share * t.molecules) for group, share in shares.items() for t in tasks_of(group))
    return len(SEEDS) * seconds / 3600


def hours_of_folds(settings: int, model: str = "molattn", times: float = 1.0) -> float:
    """Core-hours of settings on all folds of TDC's tasks with one seed; one training takes `times` as long as usual."""
    seconds = sum(seconds_of(model, FOLD_SHARE * task.molecules) for task in tasks_of(TDC))
    return settings * times * FOLDS * seconds / 3600


@dataclass(frozen=True)
class Question:
    """What is asked, and what it may cost.

    Attributes:
        name: as `--question` has it; of a protocol the name of its model.
        what: in words.
        runs: how many trainings of what.
        hours: core-hours; no training starts beyond them.
    """

    name: str
    what: str
    runs: str
    hours: float


def _of_protocol(model: str, what: str) -> Question:
    return Question(model, what, "42 tasks x 5 seeds", hours_of_protocol(model))


def _of_folds(name: str, what: str, settings: int, model: str = "molattn", times: float = 1.0) -> Question:
    text = f"22 tasks x 5 folds x {settings} setting{'s' if settings > 1 else ''}"
    return Question(name, what, text, hours_of_folds(settings, model, times))


QUESTIONS: Sequence[Question] = (
    _of_protocol("molattn", "the defaults by the protocols of both groups"),
    _of_protocol("forest-morgan", "a random forest on counts of Morgan fingerprints"),
    _of_protocol("catboost", "CatBoost as MapLight sets it up"),
    _of_protocol("chemprop", "chemprop at its defaults"),
    _of_protocol("chemprop-rdkit", "chemprop with RDKit's descriptors"),
    _of_folds("defaults", "the defaults, which the settings below are compared to", 1),
    _of_folds("averages", "an average over five seeds, or over snapshots of one training", 2, times=3.0),
    _of_folds("base", "the base model frozen, or thawed after some epochs", 2),
    _of_folds("losses", "the loss: MAE, or ranks", 2),
    _of_folds("transforms", "the logarithm, or ranks, of the target", 2),
    _of_folds("morgan", "counts of Morgan fingerprints beside the descriptors", 1),
    _of_folds("tasks", "another task learned together", 1, times=2.0),
    _of_folds("trees", "trees on the same molecules, and their average with the network", 1, model="catboost"),
)
"""All questions; which epoch to keep was asked before, see docs/epochs.md."""


def limit_of(name: str) -> float:
    """CPU seconds that a question may take.

    Raises:
        UsageError: there is no such question.
    """
    for question in QUESTIONS:
        if question.name == name:
            return 3600 * question.hours
    known = ", ".join(question.name for question in QUESTIONS)
    raise UsageError(
        f"there is no question {name!r} in benchmarks/arena_budget.py: write down what it may cost first; "
        f"there are {known}"
    )
