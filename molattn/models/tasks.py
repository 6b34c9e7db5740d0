"""Tasks: regression, binary and multiclass classification, of molecules or of atoms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from molattn.errors import InputError, short_repr
from molattn.models.loss_functions import DEFAULT_ALPHA
from molattn.models.losses import losses_of
from molattn.models.names import ATOM_PREFIX
from molattn.models.predictions import Predictions, empty_distribution
from molattn.models.scaler import TargetScaler
from molattn.models.target_transform import TargetTransform
from molattn.models.task import Task
from molattn.plugins import VARIABLE


@dataclass(frozen=True)
class Regression(Task):
    """Numbers, and with some losses their standard deviation or their quantiles alpha / 2 and 1 - alpha / 2."""

    kind = "regression"
    metrics = ("rmse", "mae", "r2", "spearman")
    baseline = "the mean of the training targets"
    baseline_label = "the training mean"

    loss: str = "mse"
    atom_level: bool = False
    alpha: float = DEFAULT_ALPHA

    def target_of_output(self, num_targets: int) -> list[int]:
        return [*range(num_targets)] * self.loss_function.outputs

    def fit_scaler(self, train: np.ndarray, transforms: Sequence[TargetTransform | None] = ()) -> TargetScaler:
        return replace(TargetScaler.fit(train), transforms=tuple(transforms))

    def decode(self, outputs: np.ndarray, scaler: TargetScaler) -> Predictions:
        scale = np.array(scaler.std)
        first, *others = np.split(outputs.astype(np.float64), outputs.shape[1] // len(scale), 1)
        values = scaler.unscale(first)
        if self.loss_function.spread is None:
            return Predictions(values, empty_distribution(len(values)))
        spread = self.loss_function.spread(others, scale, self.alpha)
        quantiles = empty_distribution(len(values))
        if spread.half_widths is not None:
            below, above = spread.half_widths
            quantiles = np.concatenate([values - below, values + above], 1)
        return Predictions(values, quantiles, spread.std, spread.epistemic_share)

    def baseline_predictions(self, train: np.ndarray, n: int) -> Predictions:
        scaler = TargetScaler.fit(train)

        def rows(numbers: Sequence[float] | np.ndarray) -> np.ndarray:
            return np.broadcast_to(np.asarray(numbers), (n, len(numbers)))

        distribution = empty_distribution(n)
        if self.loss_function.has_quantiles:
            distribution = rows(np.nanquantile(train, [self.alpha / 2, 1 - self.alpha / 2], axis=0).ravel())
        return Predictions(rows(scaler.mean), distribution, rows(scaler.std) if self.has_std else None)

    def distribution_columns(self, targets: Sequence[str]) -> list[str]:
        if not self.loss_function.has_quantiles:
            return []
        return [f"{t}_q{100 * p:g}" for p in (self.alpha / 2, 1 - self.alpha / 2) for t in targets]

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({"alpha": self.alpha} if self.loss_function.has_quantiles else {})


@dataclass(frozen=True)
class Binary(Task):
    """Two classes, 0 and 1; the model predicts the probability of 1, the positive class.

    Its `classes` are the names of the negative and the positive class of each target; empty for 0 and 1.
    """

    kind = "binary"
    metrics = ("auroc", "auprc", "mcc", "accuracy", "f1")
    baseline = "the share of the positive class among the training targets"
    baseline_label = "the training share"

    loss: str = "bce"
    atom_level: bool = False
    classes: tuple[tuple[str, ...], ...] = ()

    def target_of_output(self, num_targets: int) -> list[int]:
        return [*range(num_targets)] * (self.loss_function.outputs or 2)

    def decode(self, outputs: np.ndarray, scaler: TargetScaler) -> Predictions:
        n, targets = len(outputs), len(scaler.mean)
        by_target = outputs.astype(np.float64).reshape(n, outputs.shape[1] // targets, targets).swapaxes(1, 2)
        p, std = _probabilities(self, by_target)
        return Predictions(p[..., 1], empty_distribution(len(outputs)), None if std is None else std[..., 1])

    def class_priors(self, train: np.ndarray) -> tuple[tuple[float, ...], ...]:
        return tuple((1 - share, share) for share in TargetScaler.fit(train).mean)

    def probabilities(self, predictions: Predictions, t: int) -> np.ndarray:
        return np.stack([1 - predictions.values[:, t], predictions.values[:, t]], 1)

    def class_names(self, t: int) -> tuple[str, ...]:
        return self.classes[t] if self.classes else ("0", "1")

    def with_probabilities(self, probabilities: Sequence[np.ndarray], std: np.ndarray | None = None) -> Predictions:
        values = np.stack([p[:, 1] for p in probabilities], 1)
        return Predictions(values, empty_distribution(len(values)), std)

    def check(self, targets: np.ndarray, names: Sequence[str]) -> None:
        for name, column in zip(names, targets.T, strict=True):
            other = column[np.isfinite(column) & ~np.isin(column, (0.0, 1.0))]
            if len(other):
                raise InputError(
                    f"column {name!r} holds {other[0]:g}, and a binary target is 0 or 1: write those, or choose "
                    f"--task-type {ATOM_PREFIX if self.atom_level else ''}regression or multiclass"
                )


@dataclass(frozen=True)
class Multiclass(Task):
    """One of several classes; the model predicts the probability of each. Targets are indices of classes."""

    kind = "multiclass"
    metrics = ("accuracy", "mcc", "f1", "auroc")
    baseline = "the shares of the classes among the training targets"
    baseline_label = "the training shares"

    loss: str = "cross-entropy"
    classes: tuple[tuple[str, ...], ...] = ()
    atom_level: bool = False

    def target_of_output(self, num_targets: int) -> list[int]:  # noqa: ARG002
        return [t for t, names in enumerate(self.classes) for _ in names]

    def decode(self, outputs: np.ndarray, scaler: TargetScaler) -> Predictions:  # noqa: ARG002
        outputs = outputs.astype(np.float64)
        decoded = [_probabilities(self, outputs[:, self._slice(t)]) for t in range(len(self.classes))]
        predicted_std = [std[np.arange(len(p)), p.argmax(1)] for p, std in decoded if std is not None]
        return self.with_probabilities([p for p, _ in decoded], np.stack(predicted_std, 1) if predicted_std else None)

    def class_priors(self, train: np.ndarray) -> tuple[tuple[float, ...], ...]:
        labels = [y[np.isfinite(y)].astype(int) for y in train.T]
        counts = [np.bincount(y, minlength=len(names)) for y, names in zip(labels, self.classes, strict=True)]
        return tuple(tuple((count / count.sum()).tolist()) for count in counts)

    def distribution_columns(self, targets: Sequence[str]) -> list[str]:
        return [f"{t}_prob_{c}" for t, names in zip(targets, self.classes, strict=True) for c in names]

    def scores(self, predictions: Predictions, t: int) -> np.ndarray:
        return predictions.distribution[:, self._slice(t)]

    def probabilities(self, predictions: Predictions, t: int) -> np.ndarray:
        return self.scores(predictions, t)

    def class_names(self, t: int) -> tuple[str, ...]:
        return self.classes[t]

    def ensemble_mean(self, members: Sequence[Predictions]) -> Predictions:
        p = np.mean([m.distribution for m in members], 0)
        return self.with_probabilities([p[:, self._slice(t)] for t in range(len(self.classes))])

    def member_values(self, member: Predictions, mean: Predictions) -> np.ndarray:
        first = np.array([self._slice(t).start for t in range(len(self.classes))])
        return np.take_along_axis(member.distribution, first + mean.values.astype(int), 1)

    def to_array(self, predictions: Predictions) -> np.ndarray:
        """(n, T, C), C the largest number of classes; zero where a target has fewer."""
        result = np.zeros((len(predictions.distribution), len(self.classes), max(map(len, self.classes))))
        for t, names in enumerate(self.classes):
            result[:, t, : len(names)] = self.scores(predictions, t)
        return result

    def table_value(self, value: float, t: int) -> str:
        return self.classes[t][int(value)]

    def _slice(self, t: int) -> slice:
        start = sum(map(len, self.classes[:t]))
        return slice(start, start + len(self.classes[t]))

    def with_probabilities(self, probabilities: Sequence[np.ndarray], std: np.ndarray | None = None) -> Predictions:
        values = np.stack([p.argmax(1) for p in probabilities], 1).astype(np.float64)
        return Predictions(values, np.concatenate(probabilities, 1), std)


def _probabilities(task: Task, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The probabilities of the classes and their standard deviations, (..., C), from (..., outputs of a target)."""
    decode = task.loss_function.probabilities
    assert decode is not None
    return decode(outputs)


REGRESSION = Regression()
"""The default task."""

TASKS: dict[str, type[Regression] | type[Binary] | type[Multiclass]] = {
    task.kind: task for task in (Regression, Binary, Multiclass)
}


def task_from_dict(settings: Mapping[str, Any]) -> Task:
    """The task that `Task.to_dict` wrote.

    Raises:
        InputError: an unknown kind or loss.
    """
    settings = dict(settings)
    kind = settings.pop("kind")
    if kind not in TASKS or settings.get("loss") not in losses_of(kind):
        raise InputError(
            f"the model's task is {short_repr(kind)} with loss {short_repr(settings.get('loss'))}: upgrade molattn to "
            f"read it, or install the plugin that defines it, see {VARIABLE}"
        )
    if "classes" in settings:
        settings["classes"] = tuple(map(tuple, settings["classes"]))
    return TASKS[kind](**settings)
