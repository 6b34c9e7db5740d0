"""What a target is - a number, yes or no, one of several classes; of a molecule or an atom - and what follows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from molattn.errors import InputError
from molattn.models.answers import Answers, nothing
from molattn.models.distributions import dirichlet, evidential, half_widths, normal, normal_quantile
from molattn.models.scaler import TargetScaler

ATOM = "atom-"
"""What the name of a task begins with where its targets are of atoms."""


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

    def columns(self, targets: Sequence[str], spread: bool = False) -> list[str]:
        """What the columns of `Answers.more` are called; with a standard deviation if there is a `spread`."""
        return [*self.own_columns(targets), *(f"{t}_std" for t in targets if spread or self.has_spread)]

    def own_columns(self, targets: Sequence[str]) -> list[str]:  # noqa: ARG002
        """What the columns of `Answers.own` are called."""
        return []

    @property
    def has_spread(self) -> bool:
        """Whether a single model of this loss answers a standard deviation, too."""
        return self.loss in _OF_LOSS

    @property
    def method(self) -> str:
        """What `--uncertainty-method` calls the one that the loss brings; "none" for none."""
        return _OF_LOSS.get(self.loss, "none")

    def mixed(self, parts: Sequence[Answers]) -> Answers:
        """The answers of several models as those of one, their mean; without standard deviations."""
        return Answers(np.mean([p.values for p in parts], 0), np.mean([p.own for p in parts], 0))

    def followed(self, part: Answers, mean: Answers) -> np.ndarray:  # noqa: ARG002
        """(n, T), the number of one model that its like are compared with: the one that stands in `mean.values`."""
        return part.values

    def probabilities(self, answers: Answers, t: int) -> np.ndarray:  # noqa: ARG002
        """The probability of every class of target t, (n, classes).

        Raises:
            TypeError: the targets are numbers.
        """
        raise TypeError("numbers have no classes")

    def labels(self, t: int) -> tuple[str, ...]:  # noqa: ARG002
        """The names of the classes of target t, in the order of `probabilities`."""
        return ()

    def with_probabilities(self, parts: Sequence[np.ndarray], std: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """The answers whose `probabilities` are `parts`, one for each target.

        Raises:
            TypeError: the targets are numbers.
        """
        raise TypeError("numbers have no classes")

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
    """Numbers, and with some losses how far off they may be.

    With "mve" and "evidential" the model also answers a standard deviation, with "quantile" the quantiles alpha / 2
    and 1 - alpha / 2 beside the median; see `molattn.models.distributions`.
    """

    kind = "regression"
    losses = ("mse", "mae", "huber", "mve", "evidential", "quantile")
    metrics = ("rmse", "mae", "r2")
    baseline = "the mean of the training targets"
    always = "the training mean"

    loss: str = "mse"
    of_atoms: bool = False
    alpha: float = 0.1

    def owners(self, num_targets: int) -> list[int]:
        return [*range(num_targets)] * {"mve": 2, "evidential": 4, "quantile": 3}.get(self.loss, 1)

    def scaler(self, train: np.ndarray) -> TargetScaler:
        return TargetScaler.fit(train)

    def answers(self, outputs: np.ndarray, scaler: TargetScaler) -> Answers:
        unit = np.array(scaler.std)
        first, *others = np.split(outputs.astype(np.float64), outputs.shape[1] // len(unit), 1)
        values = scaler.unscale(first)
        if self.loss == "mve":
            return Answers(values, nothing(values), unit * normal(*others))
        if self.loss == "evidential":
            noise, ignorance = evidential(*others)
            return Answers(values, nothing(values), unit * np.sqrt(noise + ignorance), ignorance / (noise + ignorance))
        if self.loss == "quantile":
            below, above = (unit * width for width in half_widths(*others))
            std = (below + above) / (2 * normal_quantile(1 - self.alpha / 2))
            return Answers(values, np.concatenate([values - below, values + above], 1), std)
        return Answers(values, nothing(values))

    def guess(self, train: np.ndarray, n: int) -> Answers:
        scaler = TargetScaler.fit(train)

        def rows(numbers: Sequence[float] | np.ndarray) -> np.ndarray:
            return np.broadcast_to(np.asarray(numbers), (n, len(numbers)))

        own = nothing(rows(scaler.mean))
        if self.loss == "quantile":
            own = rows(np.nanquantile(train, [self.alpha / 2, 1 - self.alpha / 2], axis=0).ravel())
        return Answers(rows(scaler.mean), own, rows(scaler.std) if self.has_spread else None)

    def own_columns(self, targets: Sequence[str]) -> list[str]:
        if self.loss != "quantile":
            return []
        return [f"{t}_q{100 * p:g}" for p in (self.alpha / 2, 1 - self.alpha / 2) for t in targets]

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({"alpha": self.alpha} if self.loss == "quantile" else {})


@dataclass(frozen=True)
class Binary(Task):
    """Yes or no, 1 or 0; the model answers the probability of 1.

    With the loss "dirichlet" it answers evidence for 0 and for 1; see `molattn.models.distributions.dirichlet`.
    """

    kind = "binary"
    losses = ("bce", "dirichlet")
    metrics = ("auroc", "auprc", "mcc", "accuracy", "f1")
    baseline = "the share of ones among the training targets"
    always = "the training share"

    loss: str = "bce"
    of_atoms: bool = False

    def owners(self, num_targets: int) -> list[int]:
        return [*range(num_targets)] * (2 if self.has_spread else 1)

    def scaler(self, train: np.ndarray) -> TargetScaler:
        return TargetScaler.none(train.shape[1])

    def answers(self, outputs: np.ndarray, scaler: TargetScaler) -> Answers:
        outputs = outputs.astype(np.float64)
        if self.has_spread:
            pairs = outputs.reshape(len(outputs), 2, len(scaler.mean)).swapaxes(1, 2)
            p, std = dirichlet(pairs)
            return Answers(p[..., 1], np.empty((len(outputs), 0)), std[..., 1])
        # The logistic function, without an overflow on either side.
        values = np.exp(-np.logaddexp(0.0, -outputs))
        return Answers(values, nothing(values))

    def guess(self, train: np.ndarray, n: int) -> Answers:
        share = np.broadcast_to(np.array(TargetScaler.fit(train).mean), (n, train.shape[1]))
        return Answers(share, nothing(share), np.sqrt(share * (1 - share)) if self.has_spread else None)

    def probabilities(self, answers: Answers, t: int) -> np.ndarray:
        return np.stack([1 - answers.values[:, t], answers.values[:, t]], 1)

    def labels(self, t: int) -> tuple[str, ...]:  # noqa: ARG002
        return ("0", "1")

    def with_probabilities(self, parts: Sequence[np.ndarray], std: np.ndarray | None = None) -> Answers:
        values = np.stack([p[:, 1] for p in parts], 1)
        return Answers(values, nothing(values), std)

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
    """One of several classes; the model answers the probability of each. Targets are places among the classes.

    With the loss "dirichlet" it answers evidence for each; see `molattn.models.distributions.dirichlet`.
    """

    kind = "multiclass"
    losses = ("cross-entropy", "dirichlet")
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
        if self.has_spread:
            found = [dirichlet(part) for part in parts]
            chosen = [std[np.arange(len(p)), p.argmax(1)] for p, std in found]
            return self.with_probabilities([p for p, _ in found], np.stack(chosen, 1))
        powers = [np.exp(x - x.max(1, keepdims=True)) for x in parts]
        return self.with_probabilities([p / p.sum(1, keepdims=True) for p in powers])

    def guess(self, train: np.ndarray, n: int) -> Answers:
        shares = []
        for t, names in enumerate(self.classes):
            known = train[np.isfinite(train[:, t]), t].astype(int)
            counts = np.bincount(known, minlength=len(names))
            shares.append(np.broadcast_to(counts / counts.sum(), (n, len(names))))
        largest = np.stack([share.max(1) for share in shares], 1)
        return self.with_probabilities(shares, np.sqrt(largest * (1 - largest)) if self.has_spread else None)

    def own_columns(self, targets: Sequence[str]) -> list[str]:
        return [f"{t}_prob_{c}" for t, names in zip(targets, self.classes, strict=True) for c in names]

    def scores(self, answers: Answers, t: int) -> np.ndarray:
        return answers.own[:, self._of(t)]

    def probabilities(self, answers: Answers, t: int) -> np.ndarray:
        return self.scores(answers, t)

    def labels(self, t: int) -> tuple[str, ...]:
        return self.classes[t]

    def mixed(self, parts: Sequence[Answers]) -> Answers:
        own = np.mean([p.own for p in parts], 0)
        return self.with_probabilities([own[:, self._of(t)] for t in range(len(self.classes))])

    def followed(self, part: Answers, mean: Answers) -> np.ndarray:
        first = np.array([self._of(t).start for t in range(len(self.classes))])
        return np.take_along_axis(part.own, first + mean.values.astype(int), 1)

    def array(self, answers: Answers) -> np.ndarray:
        """(n, T, most classes), zero where a target has fewer."""
        filled = np.zeros((len(answers.own), len(self.classes), max(map(len, self.classes))))
        for t, names in enumerate(self.classes):
            filled[:, t, : len(names)] = self.scores(answers, t)
        return filled

    def named(self, value: float, t: int) -> str:
        return self.classes[t][int(value)]

    def _of(self, t: int) -> slice:
        start = sum(map(len, self.classes[:t]))
        return slice(start, start + len(self.classes[t]))

    def with_probabilities(self, parts: Sequence[np.ndarray], std: np.ndarray | None = None) -> Answers:
        values = np.stack([p.argmax(1) for p in parts], 1).astype(np.float64)
        return Answers(values, np.concatenate(parts, 1), std)


_OF_LOSS = {
    "mve": "mve",
    "evidential": "evidential-total",
    "quantile": "quantile-regression",
    "dirichlet": "dirichlet",
}
"""The losses that bring a standard deviation, and what the method of uncertainty is called that they are."""

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
