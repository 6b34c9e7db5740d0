"""The interface of tasks: what the outputs of a model mean, and how its predictions are read."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from molattn.models.losses import LOSSES, Loss
from molattn.models.names import ATOM_PREFIX
from molattn.models.predictions import NONE, Predictions
from molattn.models.scaler import TargetScaler
from molattn.models.target_transform import TargetTransform


class Task(ABC):
    """The kind of prediction that all targets of a run share.

    Attributes:
        kind: its name.
        metrics: the metrics that are reported by default; the first is reported after each epoch.
        baseline: a description of the baseline, a constant prediction, of targets without a transform.
        baseline_label: a shorter description of it.
        loss: the name of the loss that the model minimizes, in `molattn.models.losses.LOSSES`.
        atom_level: whether the targets are atom-level. If so, n counts all atoms, molecule by molecule.
        classes: for each target the names of its classes; empty for regression, and for the classes 0 and 1.
    """

    kind: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]
    baseline: ClassVar[str]
    baseline_label: ClassVar[str]
    loss: str
    atom_level: bool = False
    classes: tuple[tuple[str, ...], ...] = ()

    @property
    def name(self) -> str:
        """Its name in `--task-type`."""
        return f"{ATOM_PREFIX if self.atom_level else ''}{self.kind}"

    @abstractmethod
    def target_of_output(self, num_targets: int) -> list[int]:
        """For each output of the model, the index of its target."""

    def num_outputs(self, num_targets: int) -> int:
        """The number of outputs of the model."""
        return len(self.target_of_output(num_targets))

    def fit_scaler(self, train: np.ndarray, transforms: Sequence[TargetTransform | None] = ()) -> TargetScaler:
        """The scaler of the targets, fitted to the training targets only; the identity for classes.

        Args:
            train: (n, T), transformed.
            transforms: of each target, None for none; empty if no target has one.
        """
        return replace(TargetScaler.identity(train.shape[1]), transforms=tuple(transforms))

    @abstractmethod
    def decode(self, outputs: np.ndarray, scaler: TargetScaler) -> Predictions:
        """The predictions from the outputs of a model, (n, outputs)."""

    def baseline_predictions(self, train: np.ndarray, n: int) -> Predictions:
        """The baseline for n molecules or atoms, from the training targets alone."""
        return prior_predictions(self, self.class_priors(train), n)

    def class_priors(self, train: np.ndarray) -> tuple[tuple[float, ...], ...]:  # noqa: ARG002
        """For each target the share of each class among its training labels, (n, T); empty for regression."""
        return ()

    def distribution_columns(self, targets: Sequence[str]) -> list[str]:  # noqa: ARG002
        """The names of the columns of `Predictions.distribution`."""
        return []

    @property
    def loss_function(self) -> Loss:
        """The loss that the model minimizes."""
        return LOSSES[self.loss]

    @property
    def has_std(self) -> bool:
        """Whether a single model of this loss predicts a standard deviation as well."""
        return self.uncertainty_method != NONE

    @property
    def uncertainty_method(self) -> str:
        """The default uncertainty method of the loss, as in `--uncertainty-method`; "none" for none."""
        return next(iter(self.loss_function.uncertainty_methods), NONE)

    def ensemble_mean(self, members: Sequence[Predictions]) -> Predictions:
        """The mean of the predictions of several models, without standard deviations."""
        return Predictions(np.mean([m.values for m in members], 0), np.mean([m.distribution for m in members], 0))

    def member_values(self, member: Predictions, mean: Predictions) -> np.ndarray:  # noqa: ARG002
        """(n, T), the values of one ensemble member from which the variance over the ensemble is computed.

        For several classes: the probability that `member` gives to the class that the ensemble predicts, `mean.values`.
        """
        return member.values

    def probabilities(self, predictions: Predictions, t: int) -> np.ndarray:  # noqa: ARG002
        """The probability of every class of target t, (n, classes).

        Raises:
            TypeError: the task is regression.
        """
        raise TypeError("regression has no classes")

    def class_names(self, t: int) -> tuple[str, ...]:  # noqa: ARG002
        """The names of the classes of target t, in the order of `probabilities`; empty for regression."""
        return ()

    def with_probabilities(self, probabilities: Sequence[np.ndarray], std: np.ndarray | None = None) -> Predictions:  # noqa: ARG002
        """The predictions that have these `probabilities`: one array, (n, classes), for each target.

        Raises:
            TypeError: the task is regression.
        """
        raise TypeError("regression has no classes")

    def scores(self, predictions: Predictions, t: int) -> np.ndarray:
        """The input of the metrics of target t: (n,), or (n, classes)."""
        return predictions.values[:, t]

    def to_array(self, predictions: Predictions) -> np.ndarray:
        """The predictions as one array: (n, T), or (n, T, classes)."""
        return predictions.values

    def table_value(self, value: float, t: int) -> float | str:  # noqa: ARG002
        """A value of target t as written to a table: a number, or the name of a class."""
        return float(value)

    def check(self, targets: np.ndarray, names: Sequence[str]) -> None:  # noqa: B027
        """Raise InputError unless `targets`, (n, T), are valid for this task."""

    def to_dict(self) -> dict[str, Any]:
        """The task as it is written to a model's `config.json`."""
        classes = {"classes": [list(c) for c in self.classes]} if self.classes else {}
        return {"kind": self.kind, "loss": self.loss, "atom_level": self.atom_level, **classes}


def prior_predictions(task: Task, class_priors: Sequence[Sequence[float]], n: int) -> Predictions:
    """The baseline of classification for n molecules or atoms: the probability of each class is its prior."""
    probabilities = [np.broadcast_to(np.array(priors), (n, len(priors))) for priors in class_priors]
    # The standard deviation is that of the predicted class, for two classes that of the positive one, which is equal.
    largest = np.stack([p.max(1) for p in probabilities], 1)
    return task.with_probabilities(probabilities, np.sqrt(largest * (1 - largest)) if task.has_std else None)
