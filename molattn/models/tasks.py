"""What a target is - a number, yes or no, one of several classes; of a molecule or an atom - and what follows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from molattn.errors import InputError
from molattn.models.scaler import TargetScaler

ATOM = "atom-"
"""What the name of a task begins with where its targets are of atoms."""

SMALLEST_VARIANCE = 1e-6
"""What is added to the variance that a model answers, in squares of the standardised target."""


@dataclass(frozen=True)
class Answers:
    """What a model says of n molecules, or of n atoms, and T targets.

    Attributes:
        values: (n, T): the number in its unit, the probability of the positive class, or the place of the most
            probable class among the classes.
        more: (n, M): the standard deviations or the probabilities of every class that stand beside them.
    """

    values: np.ndarray
    more: np.ndarray


class Task(ABC):
    """What all targets of a run are.

    Attributes:
        kind: its name.
        losses: the losses that go with it; the first is its own.
        metrics: the metrics that are reported where none are asked for; the first is told epoch by epoch.
        baseline: the answer that needs no molecule, in words.
        always: the same, short.
        loss: what the model minimises.
        of_atoms: whether the targets are of atoms: n then counts the atoms of all molecules, one molecule after the
            other.
        classes: per target the names of its classes; empty where there are none.
    """

    kind: ClassVar[str]
    losses: ClassVar[tuple[str, ...]]
    metrics: ClassVar[tuple[str, ...]]
    baseline: ClassVar[str]
    always: ClassVar[str]
    loss: str
    of_atoms: bool = False
    classes: tuple[tuple[str, ...], ...] = ()

    @property
    def name(self) -> str:
        """What `--task-type` calls it."""
        return f"{ATOM if self.of_atoms else ''}{self.kind}"

    @abstractmethod
    def owners(self, num_targets: int) -> list[int]:
        """For each number that the model puts out, the target that it is about."""

    @abstractmethod
    def scaler(self, train: np.ndarray) -> TargetScaler:
        """How targets are scaled, from those of the training side, (n, T), and from nothing else."""

    @abstractmethod
    def answers(self, outputs: np.ndarray, scaler: TargetScaler) -> Answers:
        """What the outputs of a model, (n, outputs), mean."""

    @abstractmethod
    def guess(self, train: np.ndarray, n: int) -> Answers:
        """The baseline: what one answers n molecules or atoms who only knows the training targets."""

    def columns(self, targets: Sequence[str]) -> list[str]:  # noqa: ARG002
        """What the columns of `Answers.more` are called."""
        return []

    def scores(self, answers: Answers, t: int) -> np.ndarray:
        """What the metrics of target t read: (n,), or (n, classes)."""
        return answers.values[:, t]

    def array(self, answers: Answers) -> np.ndarray:
        """The answers as one array: (n, T), or (n, T, classes)."""
        return answers.values

    def named(self, value: float, t: int) -> float | str:  # noqa: ARG002
        """A value of target t as it stands in a table: a number, or the name of a class."""
        return float(value)

    def check(self, targets: np.ndarray, names: Sequence[str]) -> None:  # noqa: B027
        """Raises InputError where `targets`, (n, T), are not what this task says."""

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a model's config.json."""
        classes = {"classes": [list(c) for c in self.classes]} if self.classes else {}
        return {"kind": self.kind, "loss": self.loss, **classes, **({"of_atoms": True} if self.of_atoms else {})}


@dataclass(frozen=True)
class Regression(Task):
    """Numbers. With the loss "mve" the model also answers how far off it may be: a mean and a standard deviation."""

    kind = "regression"
    losses = ("mse", "mae", "huber", "mve")
    metrics = ("rmse", "mae", "r2")
    baseline = "the mean of the training targets"
    always = "the training mean"

    loss: str = "mse"
    of_atoms: bool = False

    @property
    def has_spread(self) -> bool:
        """Whether standard deviations stand beside the numbers."""
        return self.loss == "mve"

    def owners(self, num_targets: int) -> list[int]:
        return [*range(num_targets)] * (2 if self.has_spread else 1)

    def scaler(self, train: np.ndarray) -> TargetScaler:
        return TargetScaler.fit(train)

    def answers(self, outputs: np.ndarray, scaler: TargetScaler) -> Answers:
        num_targets = len(scaler.mean)
        values = scaler.unscale(outputs[:, :num_targets])
        # softplus; no columns are left without the loss "mve".
        variance = np.logaddexp(0.0, outputs[:, num_targets:].astype(np.float64)) + SMALLEST_VARIANCE
        return Answers(values, np.sqrt(variance) * np.array(scaler.std)[: variance.shape[1]])

    def guess(self, train: np.ndarray, n: int) -> Answers:
        scaler = TargetScaler.fit(train)
        spread = np.broadcast_to(np.array(scaler.std), (n, train.shape[1]))
        values = np.broadcast_to(np.array(scaler.mean), (n, train.shape[1]))
        return Answers(values, spread if self.has_spread else np.empty((n, 0)))

    def columns(self, targets: Sequence[str]) -> list[str]:
        return [f"{t}_std" for t in targets] if self.has_spread else []


@dataclass(frozen=True)
class Binary(Task):
    """Yes or no, 1 or 0; the model answers the probability of 1."""

    kind = "binary"
    losses = ("bce",)
    metrics = ("auroc", "auprc", "mcc", "accuracy", "f1")
    baseline = "the share of ones among the training targets"
    always = "the training share"

    loss: str = "bce"
    of_atoms: bool = False

    def owners(self, num_targets: int) -> list[int]:
        return [*range(num_targets)]

    def scaler(self, train: np.ndarray) -> TargetScaler:
        return TargetScaler.none(train.shape[1])

    def answers(self, outputs: np.ndarray, scaler: TargetScaler) -> Answers:  # noqa: ARG002
        # The logistic function, without an overflow on either side.
        values = np.exp(-np.logaddexp(0.0, -outputs.astype(np.float64)))
        return Answers(values, np.empty((len(outputs), 0)))

    def guess(self, train: np.ndarray, n: int) -> Answers:
        share = np.array(TargetScaler.fit(train).mean)
        return Answers(np.broadcast_to(share, (n, train.shape[1])), np.empty((n, 0)))

    def check(self, targets: np.ndarray, names: Sequence[str]) -> None:
        for name, column in zip(names, targets.T, strict=True):
            other = column[np.isfinite(column) & ~np.isin(column, (0.0, 1.0))]
            if len(other):
                raise InputError(
                    f"column {name!r} holds {other[0]:g}, and a binary target is 0 or 1: write those, or choose "
                    f"--task-type {ATOM if self.of_atoms else ''}regression or multiclass"
                )


@dataclass(frozen=True)
class Multiclass(Task):
    """One of several classes; the model answers the probability of each. Targets are places among the classes."""

    kind = "multiclass"
    losses = ("cross-entropy",)
    metrics = ("accuracy", "mcc", "f1", "auroc")
    baseline = "the shares of the classes among the training targets"
    always = "the training shares"

    loss: str = "cross-entropy"
    classes: tuple[tuple[str, ...], ...] = ()
    of_atoms: bool = False

    def owners(self, num_targets: int) -> list[int]:  # noqa: ARG002
        return [t for t, names in enumerate(self.classes) for _ in names]

    def scaler(self, train: np.ndarray) -> TargetScaler:
        return TargetScaler.none(train.shape[1])

    def answers(self, outputs: np.ndarray, scaler: TargetScaler) -> Answers:  # noqa: ARG002
        outputs = outputs.astype(np.float64)
        parts = [outputs[:, self._of(t)] for t in range(len(self.classes))]
        powers = [np.exp(x - x.max(1, keepdims=True)) for x in parts]
        return self._from([p / p.sum(1, keepdims=True) for p in powers])

    def guess(self, train: np.ndarray, n: int) -> Answers:
        shares = []
        for t, names in enumerate(self.classes):
            known = train[np.isfinite(train[:, t]), t].astype(int)
            counts = np.bincount(known, minlength=len(names))
            shares.append(np.broadcast_to(counts / counts.sum(), (n, len(names))))
        return self._from(shares)

    def columns(self, targets: Sequence[str]) -> list[str]:
        return [f"{t}_prob_{c}" for t, names in zip(targets, self.classes, strict=True) for c in names]

    def scores(self, answers: Answers, t: int) -> np.ndarray:
        return answers.more[:, self._of(t)]

    def array(self, answers: Answers) -> np.ndarray:
        """(n, T, most classes), zero where a target has fewer."""
        filled = np.zeros((len(answers.more), len(self.classes), max(map(len, self.classes))))
        for t, names in enumerate(self.classes):
            filled[:, t, : len(names)] = self.scores(answers, t)
        return filled

    def named(self, value: float, t: int) -> str:
        return self.classes[t][int(value)]

    def _of(self, t: int) -> slice:
        start = sum(map(len, self.classes[:t]))
        return slice(start, start + len(self.classes[t]))

    @staticmethod
    def _from(probabilities: Sequence[np.ndarray]) -> Answers:
        values = np.stack([p.argmax(1) for p in probabilities], 1).astype(np.float64)
        return Answers(values, np.concatenate(probabilities, 1))


REGRESSION = Regression()
"""What a run is where nothing else is said."""

TASKS: dict[str, type[Regression] | type[Binary] | type[Multiclass]] = {
    task.kind: task for task in (Regression, Binary, Multiclass)
}

TASK_TYPES = (*TASKS, *(f"{ATOM}{kind}" for kind in TASKS))
"""What `--task-type` takes."""


def task_from(settings: Mapping[str, Any]) -> Task:
    """The task that `Task.to_dict` wrote.

    Raises:
        InputError: a kind or a loss that does not exist here.
    """
    settings = dict(settings)
    kind = settings.pop("kind")
    if kind not in TASKS or settings.get("loss") not in TASKS[kind].losses:
        raise InputError(f"the model's task is {kind!r} with loss {settings.get('loss')!r}: upgrade molattn to read it")
    if "classes" in settings:
        settings["classes"] = tuple(map(tuple, settings["classes"]))
    return TASKS[kind](**settings)
