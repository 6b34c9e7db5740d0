"""What a model predicts with given options: the check of the options, the extra columns, and the values of batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from molattn.chem import morgan_bits
from molattn.data.tables.writers import NewColumn
from molattn.errors import UsageError
from molattn.inference.options import DEFAULT_OPTIONS, PredictionOptions
from molattn.inference.rows import RowValues, Value
from molattn.models.artifact import Artifact
from molattn.models.calibration import NONE, check_level, prediction_sets, resolve_calibration_method
from molattn.models.molecule import Molecule
from molattn.models.predictions import Predictions
from molattn.models.tasks import Regression

DOMAIN_COLUMNS = (
    NewColumn("embedding_distance", "float64"),
    NewColumn("tanimoto_nearest", "float64"),
    NewColumn("out_of_domain", "string"),
)
"""The columns of the applicability domain."""


class PredictionPlan:
    """What a model and options compute for batches of molecules; checked before the first molecule is read.

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
        self.uncertainty = a.uncertainty_method
        if options.uncertainty_method:
            self.uncertainty = a.resolve_uncertainty(options.uncertainty_method)
        self.calibration = a.calibration_method
        if options.calibration_method:
            self.calibration = resolve_calibration_method(options.calibration_method, task)
            if options.calibration_method != NONE and a.calibration is None:
                raise UsageError(
                    f"the model was trained without calibration molecules, which {options.calibration_method} needs: "
                    "train with --calibration-size 0.1"
                )
        if (
            self.calibration != NONE
            and a.calibration is not None
            and self.uncertainty != a.calibration.uncertainty_method
        ):
            if options.level is not None or options.calibration_method:
                raise UsageError(
                    f"the model was calibrated with the uncertainty method {a.calibration.uncertainty_method}, not "
                    f"{self.uncertainty}: leave uncertainty_method out, or set --calibration-method none "
                    "(calibration_method='none')"
                )
            self.calibration = NONE
        self.columns = [NewColumn(name, "float64") for name in a.extra_columns(self.uncertainty)]
        if options.level is not None:
            self._check_level(options.level)
            if isinstance(task, Regression):
                self.columns += [NewColumn(f"{t}_{end}", "float64") for t in a.targets for end in ("lower", "upper")]
            else:
                self.columns += [NewColumn(f"{t}_set", "list<string>") for t in a.targets]
        if options.applicability:
            if a.domain is None:
                raise UsageError(
                    "the model keeps no training molecules to compare with: train it again, without "
                    "training.domain_size=0 and on targets of molecules"
                )
            self.columns += DOMAIN_COLUMNS

    @property
    def needs_distances(self) -> bool:
        """Whether the intervals or other columns depend on the distances of molecules to the training molecules."""
        calibration, options = self.artifact.calibration, self.options
        if options.level is not None and calibration is not None and calibration.needs_distances(self.calibration):
            return True
        return options.applicability

    def _check_level(self, level: float) -> None:
        a = self.artifact
        check_level(level)
        if a.task.atom_level:
            raise UsageError("intervals apply only to targets of molecules, and the model predicts targets of atoms")
        if self.calibration == NONE and not self.options.calibration_method:
            is_bare = isinstance(a.task, Regression) and self.uncertainty == NONE
            if is_bare and not a.task.loss_function.has_quantiles:
                raise UsageError(
                    "the model has no calibration, and no standard deviations for uncalibrated intervals: train with "
                    "--calibration-size 0.1"
                )
            raise UsageError(
                "the model has no calibration: train with --calibration-size 0.1, or add --calibration-method none "
                "(calibration_method='none') for uncalibrated intervals, which may be far too narrow"
            )
        # A dummy prediction, which raises the error if there are too few calibration molecules for the level.
        zeros, distance = np.zeros((1, len(a.targets))), np.zeros(1)
        std = None if self.uncertainty == NONE else zeros
        distribution = np.full((1, len(a.task.distribution_columns(a.targets))), 0.5)
        self._intervals_or_sets(Predictions(zeros, distribution, std, distance=distance), level)

    def predict(self, molecules: Sequence[Molecule], z: np.ndarray | None, failures: dict[int, str]) -> list[RowValues]:
        """Predictions and extra values of each molecule, or of each atom for a model of atoms.

        Args:
            molecules: n molecules.
            z: (n, k), their standardized descriptors; None if the model reads none.
            failures: receives, by index, why a molecule has no prediction: it is too large for the memory, or the
                model's output is not finite.
        """
        a, task = self.artifact, self.artifact.task
        # Values that overflow are reported as failures, not as NumPy's warnings.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            raw = a.predict(molecules, z, self.uncertainty, failures, with_distances=self.needs_distances)
            calibrated = a.apply_calibration(raw, self.calibration)
            extra: list[list[Any]] = calibrated.extra_values.tolist()
            if self.options.level is not None:
                intervals = self._intervals_or_sets(raw, self.options.level)
                extra = [row + new for row, new in zip(extra, intervals, strict=True)]
            if self.options.applicability and a.domain is not None and raw.distance is not None:
                bits = morgan_bits([m.smiles for m in molecules], max_atoms=a.read_options.max_atoms)
                similarities = a.domain.similarities(bits)
                flags = a.domain.flags(raw.distance, similarities)
                columns = zip(raw.distance.tolist(), similarities.tolist(), flags, strict=True)
                extra = [row + list(new) for row, new in zip(extra, columns, strict=True)]
            values = (tuple(task.table_value(v, t) for t, v in enumerate(row)) for row in calibrated.values.tolist())
            return [(row, tuple(others)) for row, others in zip(values, extra, strict=True)]

    def _intervals_or_sets(self, raw: Predictions, level: float) -> list[list[Value]]:
        """From uncalibrated predictions: each molecule's interval ends, target by target, or its sets of classes."""
        a, task = self.artifact, self.artifact.task
        calibration = None if self.calibration == NONE else a.calibration
        if isinstance(task, Regression):
            lower, upper = a.prediction_intervals(raw, level, self.calibration)
            return np.stack([lower, upper], 2).reshape(len(lower), 2 * len(a.targets)).tolist()
        calibrated = raw if calibration is None else a.apply_calibration(raw, self.calibration)
        masks = prediction_sets(calibrated, task, level, calibration, self.calibration)
        names = [task.class_names(t) for t in range(len(a.targets))]
        return [
            [tuple(c for c, within in zip(names[t], mask[i], strict=True) if within) for t, mask in enumerate(masks)]
            for i in range(len(raw.values))
        ]
