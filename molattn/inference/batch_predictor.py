"""Options of a prediction, such as intervals and the applicability domain, and predictions of a batch with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.chem import morgan_bits
from molattn.errors import UsageError
from molattn.inference.rows import RowValues, Value
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.calibration import (
    NONE,
    check_level,
    prediction_intervals,
    prediction_sets,
    resolve_calibration_method,
)
from molattn.models.predict import embed_molecules
from molattn.models.predictions import Predictions
from molattn.models.tasks import Regression
from molattn.models.uncertainty import resolve_uncertainty_method

DOMAIN_COLUMNS = ("embedding_distance", "tanimoto_nearest", "unlike_training")


@dataclass(frozen=True)
class PredictionOptions:
    """What is computed in addition to the predictions.

    Attributes:
        interval: level of prediction intervals, or of prediction sets of classes; None for neither.
        uncertainty_method: how standard deviations are computed; the model's default when empty.
        calibration_method: how the calibration molecules are used; the model's default when empty.
        applicability: whether to measure how unlike the training molecules each molecule is.
    """

    interval: float | None = None
    uncertainty_method: str = ""
    calibration_method: str = ""
    applicability: bool = False


DEFAULT_OPTIONS = PredictionOptions()
"""The model's own outputs alone."""


@dataclass(frozen=True)
class ExtraColumn:
    """A column in addition to the predictions; `kind` is that of a `NewColumn`."""

    name: str
    kind: str = "float64"


class BatchPredictor:
    """Predicts batches of molecules with the given options, which are validated before the first molecule is read.

    Args:
        artifact: the model.
        options: what to compute.

    Attributes:
        columns: the columns in addition to the predictions.

    Raises:
        UsageError: the model does not support an option; the message says how to train one that does.
    """

    def __init__(self, artifact: Artifact, options: PredictionOptions = DEFAULT_OPTIONS):
        self.artifact, self.options = artifact, options
        a, task = artifact, artifact.task
        self.uncertainty = a.uncertainty
        if options.uncertainty_method:
            dropout = a.model.config.dropout
            self.uncertainty = resolve_uncertainty_method(options.uncertainty_method, task, len(a.models), dropout)
        self.calibration = a.calibration_method
        if options.calibration_method:
            if options.calibration_method != NONE and a.calibration is None:
                raise UsageError(
                    f"the model was trained without calibration molecules, which {options.calibration_method} needs: "
                    "train with --calibration-size 0.1"
                )
            self.calibration = resolve_calibration_method(options.calibration_method, task)
        if self.calibration != NONE and a.calibration is not None and self.uncertainty != a.calibration.uncertainty:
            if options.interval is not None or options.calibration_method:
                raise UsageError(
                    f"the model was calibrated with the uncertainty method {a.calibration.uncertainty}, not "
                    f"{self.uncertainty}: leave --uncertainty-method out, or add --calibration-method none"
                )
            self.calibration = NONE
        self.columns = [ExtraColumn(name) for name in a.extra_columns(self.uncertainty)]
        if options.interval is not None:
            self._check_interval(options.interval)
            if isinstance(task, Regression):
                self.columns += [ExtraColumn(f"{t}_{end}") for t in a.targets for end in ("lower", "upper")]
            else:
                self.columns += [ExtraColumn(f"{t}_set", "list<string>") for t in a.targets]
        if options.applicability:
            if a.domain is None:
                raise UsageError(
                    "the model keeps no training molecules to compare with: train it again, without "
                    "training.domain_size=0 and on targets of molecules"
                )
            kinds = ("float64", "float64", "string")
            self.columns += [ExtraColumn(*column) for column in zip(DOMAIN_COLUMNS, kinds, strict=True)]

    def _check_interval(self, level: float) -> None:
        a = self.artifact
        check_level(level)
        if a.task.of_atoms:
            raise UsageError("intervals are of molecules, and the model answers for atoms: leave --interval out")
        if self.calibration == NONE and not self.options.calibration_method:
            raise UsageError(
                "the model has no calibration: train with --calibration-size 0.1, or add --calibration-method none for "
                "what the model itself believes, which may be far too narrow"
            )
        # A made-up prediction raises the error if there are too few calibration molecules for the level.
        one = np.zeros((1, len(a.targets)))
        spread = None if self.uncertainty == NONE else one
        distribution = np.full((1, len(a.task.distribution_columns(a.targets))), 0.5)
        self._intervals_or_sets(Predictions(one, distribution, spread), level)

    def predict(self, molecules: Sequence[Molecule], z: np.ndarray | None, failures: dict[int, str]) -> list[RowValues]:
        """Predictions and extra values of each molecule, or of each atom for a model of atoms.

        Args:
            molecules: n molecules.
            z: (n, k), their standardised descriptors; None for a model without.
            failures: receives, by index, why a molecule has no prediction: it is too large for the memory, or the
                model's output is not finite.
        """
        # Values that overflow are reported as failures, not as NumPy's warnings.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._predict(molecules, z, failures)

    def _predict(
        self, molecules: Sequence[Molecule], z: np.ndarray | None, failures: dict[int, str]
    ) -> list[RowValues]:
        a, task = self.artifact, self.artifact.task
        raw = a.predict(molecules, z, self.uncertainty, failures)
        calibrated = raw if self.calibration == NONE else a.apply_calibration(raw, self.calibration)
        extra: list[list[Any]] = calibrated.extra_values.tolist()
        if self.options.interval is not None:
            ends = self._intervals_or_sets(raw, self.options.interval)
            extra = [row + new for row, new in zip(extra, ends, strict=True)]
        if self.options.applicability and a.domain is not None and len(molecules):
            bits = morgan_bits([m.smiles for m in molecules], max_atoms=a.max_atoms)
            vectors = embed_molecules(a.model, molecules, descriptors=z, failures=failures)
            distances, similarities, unlike = a.domain.measure(vectors, bits)
            measured = zip(distances.tolist(), similarities.tolist(), unlike, strict=True)
            extra = [row + list(new) for row, new in zip(extra, measured, strict=True)]
        values = (tuple(task.table_value(v, t) for t, v in enumerate(row)) for row in calibrated.values.tolist())
        return [(row, tuple(more)) for row, more in zip(values, extra, strict=True)]

    def _intervals_or_sets(self, raw: Predictions, level: float) -> list[list[Value]]:
        """From uncalibrated predictions: each molecule's interval ends, target by target, or its sets of classes."""
        a, task = self.artifact, self.artifact.task
        calibration = None if self.calibration == NONE else a.calibration
        if isinstance(task, Regression):
            lower, upper = prediction_intervals(raw, task, level, calibration, self.calibration)
            return np.stack([lower, upper], 2).reshape(len(lower), 2 * len(a.targets)).tolist()
        calibrated = raw if calibration is None else a.apply_calibration(raw, self.calibration)
        masks = prediction_sets(calibrated, task, level, calibration, self.calibration)
        names = [task.class_names(t) for t in range(len(a.targets))]
        return [
            [tuple(c for c, within in zip(names[t], mask[i], strict=True) if within) for t, mask in enumerate(masks)]
            for i in range(len(raw.values))
        ]
