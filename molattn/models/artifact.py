"""A fitted model with everything that is needed to use it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from molattn.chem import DEFAULT_READ_OPTIONS, ReadOptions
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.blended_trees import BlendedTrees
from molattn.models.calibration import Calibration, apply_calibration, prediction_intervals
from molattn.models.molecule import Molecule
from molattn.models.predictions import NONE, Predictions
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.task import Task, prior_predictions
from molattn.models.tasks import REGRESSION, Regression
from molattn.models.uncertainty import predict_with_uncertainty, resolve_uncertainty_method

if TYPE_CHECKING:
    from molattn.models.base import MoleculeModel


@dataclass(frozen=True)
class Artifact:
    """A fitted model and everything that is needed to use it.

    Attributes:
        model: in evaluation mode.
        scaler: converts the model's outputs to the units of the targets.
        targets: T names.
        units: T units, empty where unknown.
        read_options: how molecules are read, as in training.
        task: what the model's outputs mean.
        descriptors: the names and the scaling of the descriptors that the model reads; None if it reads none.
        other_models: the other models of an ensemble, of which `model` is the first.
        uncertainty_method: how standard deviations are computed, one of
            `molattn.models.uncertainty.uncertainty_methods()`.
        dropout_passes: the number of passes of the uncertainty method "dropout".
        calibration: the scores for prediction intervals and sets; None for an uncalibrated model.
        domain: the applicability domain; None if the model has none.
        trees: boosted trees whose predictions are averaged with those of the models; None for none.
        class_priors: see `Task.class_priors`; empty for regression, and for models that were saved without them.
    """

    model: "MoleculeModel"
    scaler: TargetScaler
    targets: tuple[str, ...]
    units: tuple[str, ...]
    read_options: ReadOptions = DEFAULT_READ_OPTIONS
    task: Task = REGRESSION
    descriptors: DescriptorScaler | None = None
    other_models: "tuple[MoleculeModel, ...]" = ()
    uncertainty_method: str = ""
    dropout_passes: int = 10
    calibration: Calibration | None = None
    domain: ApplicabilityDomain | None = None
    trees: BlendedTrees | None = None
    class_priors: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self):
        if not self.uncertainty_method:
            object.__setattr__(
                self, "uncertainty_method", resolve_uncertainty_method("", self.task, len(self.models), 0.0)
            )

    @property
    def models(self) -> "tuple[MoleculeModel, ...]":
        """All models of the ensemble, or the single model."""
        return (self.model, *self.other_models)

    @property
    def embedding_dim(self) -> int:
        """The length of an embedding, descriptors included: see `embed`."""
        return self.model.head.in_features

    def extra_columns(self, uncertainty_method: str = "") -> list[str]:
        """The names of the columns of `Predictions.extra_values`, with the default uncertainty method or another."""
        has_std = (uncertainty_method or self.uncertainty_method) != NONE
        return [*self.task.distribution_columns(self.targets), *(f"{t}_std" for t in self.targets if has_std)]

    def predict(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        uncertainty_method: str = "",
        failures: dict[int, str] | None = None,
        with_distances: bool = False,
    ) -> Predictions:
        """Predictions before calibration, of the transformed targets; pass them to `apply_calibration`.

        See `molattn.models.uncertainty.predict_with_uncertainty`. With `with_distances` they have a `distance`, if the
        model has an applicability domain.
        """
        predictions = self.predict_attention(molecules, descriptors, uncertainty_method, failures, with_distances)
        if self.trees is None or not len(molecules):
            return predictions
        features = self.trees.features(molecules, failures)
        return self.trees.combine(self.task, self.scaler, predictions, features)

    def predict_attention(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        uncertainty_method: str = "",
        failures: dict[int, str] | None = None,
        with_distances: bool = False,
    ) -> Predictions:
        """As `predict`, without the trees."""
        method = uncertainty_method or self.uncertainty_method
        domain = self.domain if with_distances else None
        return predict_with_uncertainty(
            self.models, self.task, self.scaler, molecules, method, self.dropout_passes, descriptors, failures, domain
        )

    def embed(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        failures: dict[int, str] | None = None,
    ) -> np.ndarray:
        """The embeddings of the first model: see `molattn.models.predict.compute_embeddings`."""
        from molattn.models.predict import compute_embeddings  # imports torch

        return compute_embeddings(self.model, molecules, descriptors=descriptors, failures=failures)

    def predict_for_intervals(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        failures: dict[int, str] | None = None,
    ) -> Predictions:
        """As `predict`, with the distances of molecules that the intervals of a model without std depend on."""
        with_distances = isinstance(self.task, Regression) and self.uncertainty_method == NONE
        return self.predict(molecules, descriptors, failures=failures, with_distances=with_distances)

    def resolve_uncertainty(self, requested: str) -> str:
        """The uncertainty method of this name: see `molattn.models.uncertainty.resolve_uncertainty_method`.

        Raises:
            UsageError: an unknown method, or one that this model does not support.
        """
        return resolve_uncertainty_method(requested, self.task, len(self.models), self.model.config.dropout)

    @property
    def calibration_method(self) -> str:
        """The default calibration method."""
        return NONE if self.calibration is None else self.calibration.method

    def apply_calibration(self, predictions: Predictions, method: str = "") -> Predictions:
        """The predictions of `predict`, calibrated and in the units of the targets.

        See `molattn.models.calibration.apply_calibration` and `TargetScaler.inverse_transform`.
        """
        if self.calibration is not None:
            method = method or self.calibration.method
            predictions = apply_calibration(predictions, self.task, self.calibration, method)
        return self.scaler.inverse_transform(predictions)

    def baseline_predictions(self, n: int) -> Predictions | None:
        """The baseline for n molecules or atoms: the training mean, or the class priors.

        For a target with a transform it is the mean of the transformed target, converted to the unit of the target.
        None if the class priors were not saved with the model.
        """
        if isinstance(self.task, Regression):
            return self.scaler.inverse_transform(self.task.baseline_predictions(np.array([self.scaler.mean]), n))
        return prior_predictions(self.task, self.class_priors, n) if self.class_priors else None

    def prediction_intervals(
        self, predictions: Predictions, level: float, method: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Intervals in the units of the targets, from `predict`; see `molattn.models.calibration.prediction_intervals`.

        Raises:
            UsageError: as there.
            TypeError: the targets are classes.
        """
        if not isinstance(self.task, Regression):
            raise TypeError("classes have prediction sets, not intervals")
        calibration = None if method == NONE else self.calibration
        bounds = prediction_intervals(predictions, self.task, level, calibration, method)
        return self.scaler.inverse_transform_bounds(*bounds)
