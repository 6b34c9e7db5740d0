"""The compute budget of `arena.py`, planned before it is spent: core-hours for each question."""

from collections.abc import Sequence
from dataclasses import dataclass

from arena_tasks import MOLECULEACE, TDC, tasks_of

from molattn.errors import UsageError

COSTS = {
    "molattn": (8.0, 16.0),
    "molattn with-trees": (14.0, 25.0),
    "forest-morgan": (3.0, 40.0),
    "catboost": (25.0, 40.0),
    "chemprop": (20.0, 70.0),
    "chemprop-rdkit": (20.0, 80.0),
}
"""CPU seconds of one training: for the start, and for each 1,000 training molecules."""

SEEDS = (1, 2, 3, 4, 5)
FOLDS = 5
FOLD_SHARE = 0.7
"""Share of the labeled molecules that are trained on in a fold."""


@dataclass(frozen=True)
class Question:
    """What is measured, and its budget.

    Attributes:
        name: the value of `--question`; for the protocols, the name of the model.
        description: in words.
        trainings: the number of trainings, in words.
        hours: core-hours; no training starts after they are spent.
    """

    name: str
    description: str
    trainings: str
    hours: float


def _seconds(model: str, molecules: float) -> float:
    """CPU seconds of one training on that many molecules."""
    start, per_thousand = COSTS[model]
    return start + per_thousand * molecules / 1000


def _protocol(model: str, description: str) -> Question:
    """All tasks with five seeds."""
    shares = {TDC: 0.875, MOLECULEACE: 0.9}
    seconds = sum(_seconds(model, share * t.molecules) for group, share in shares.items() for t in tasks_of(group))
    return Question(model, description, "42 tasks x 5 seeds", len(SEEDS) * seconds / 3600)


def _folds(name: str, description: str, settings: int, model: str = "molattn", factor: float = 1.0) -> Question:
    """Settings on all folds of TDC's tasks with one seed; a training takes `factor` times as long as by default."""
    seconds = sum(_seconds(model, FOLD_SHARE * task.molecules) for task in tasks_of(TDC))
    trainings = f"22 tasks x 5 folds x {settings} setting{'s' if settings > 1 else ''}"
    return Question(name, description, trainings, settings * factor * FOLDS * seconds / 3600)


QUESTIONS: Sequence[Question] = (
    _protocol("molattn", "the default settings by the protocols of both groups"),
    _protocol("molattn with-trees", "boosted trees added to the network: `--with-trees`"),
    _protocol("forest-morgan", "a random forest on counts of Morgan fingerprints"),
    _protocol("catboost", "CatBoost with the settings of MapLight"),
    _protocol("chemprop", "chemprop with its default settings"),
    _protocol("chemprop-rdkit", "chemprop with RDKit's descriptors"),
    _folds("defaults", "the default settings, with which the settings below are compared", 1),
    _folds("averages", "an average over five seeds, or over snapshots of one training", 2, factor=3.0),
    _folds("base", "the base model frozen, or frozen for the first epochs", 2),
    _folds("drug-like", "a base of width 128 that has seen 77,080 molecules of ChEMBL", 1, factor=3.0),
    Question("large-base", "that base for 1,500 training molecules or more", "those of drug-like and defaults", 0.1),
    _folds("losses", "the loss: MAE, or a ranking loss", 2),
    _folds("transforms", "the logarithm, or ranks, of the target", 2),
    _folds("morgan", "counts of Morgan fingerprints in addition to the descriptors", 1),
    _folds("tasks", "multitask training with another task", 1, factor=2.0),
    _folds("distillation", "a second network that learns from a teacher, for few molecules", 1),
    Question("intervals", "90% intervals of regression tasks, by the default settings", "9 tasks x 5 folds", 1.2),
    _folds("trees", "boosted trees added to the network: `--with-trees`", 1, model="molattn with-trees"),
)
"""All questions. The choice of the epoch was measured before: see docs/epochs.md."""


def max_seconds(name: str) -> float:
    """The budget of a question in CPU seconds.

    Raises:
        UsageError: there is no such question.
    """
    for question in QUESTIONS:
        if question.name == name:
            return 3600 * question.hours
    known = ", ".join(question.name for question in QUESTIONS)
    raise UsageError(
        f"there is no question {name!r} in benchmarks/arena_budget.py: add its budget first, or choose among {known}"
    )
