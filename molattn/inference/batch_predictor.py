"""What can be asked for beside predictions: standard deviations, intervals or sets, and what is unlike training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.chem import morgan_bits
from molattn.errors import UsageError
from molattn.inference.rows import Said, Value
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
class Beside:
    """What is asked for.

    Attributes:
        interval: the level of intervals, or of sets of classes; None for neither.
        uncertainty_method: how standard deviations are made; the model's own way when empty.
        calibration_method: what is made of the calibration molecules; the model's own choice when empty.
        applicability: whether to say how unlike the training molecules each one is.
    """

    interval: float | None = None
    uncertainty_method: str = ""
    calibration_method: str = ""
    applicability: bool = False


PLAIN = Beside()
"""Nothing but what the model says by itself."""


@dataclass(frozen=True)
class BesideColumn:
    """A column that stands beside the predictions; `kind` is that of a `NewColumn`."""

    name: str
    kind: str = "float64"


class Asked:
    """What a model answers to `beside`, checked before the first molecule is read.

    Args:
        artifact: the model.
        beside: what is asked for.

    Attributes:
        columns: of what stands beside the predictions.

    Raises:
        UsageError: what the model cannot answer, and how to train one that can.
    """

    def __init__(self, artifact: Artifact, beside: Beside = PLAIN):
        self.artifact, self.beside = artifact, beside
        a, task = artifact, artifact.task
        self.uncertainty = a.uncertainty
        if beside.uncertainty_method:
            dropout = a.model.config.dropout
            self.uncertainty = resolve_uncertainty_method(beside.uncertainty_method, task, len(a.models), dropout)
        self.calibration = a.calibration_method
        if beside.calibration_method:
            if beside.calibration_method != NONE and a.calibration is None:
                raise UsageError(
                    f"the model was trained without calibration molecules, which {beside.calibration_method} needs: "
                    "train with --calibration-size 0.1"
                )
            self.calibration = resolve_calibration_method(beside.calibration_method, task)
        if self.calibration != NONE and a.calibration is not None and self.uncertainty != a.calibration.uncertainty:
            if beside.interval is not None or beside.calibration_method:
                raise UsageError(
                    f"the model was calibrated with the uncertainty method {a.calibration.uncertainty}, not "
                    f"{self.uncertainty}: leave --uncertainty-method out, or add --calibration-method none"
                )
            self.calibration = NONE
        self.columns = [BesideColumn(name) for name in a.extra_columns(self.uncertainty)]
        if beside.interval is not None:
            self._check_interval(beside.interval)
            if isinstance(task, Regression):
                self.columns += [BesideColumn(f"{t}_{end}") for t in a.targets for end in ("lower", "upper")]
            else:
                self.columns += [BesideColumn(f"{t}_set", "list<string>") for t in a.targets]
        if beside.applicability:
            if a.domain is None:
                raise UsageError(
                    "the model keeps no training molecules to compare with: train it again, without "
                    "training.domain_size=0 and on targets of molecules"
                )
            kinds = ("float64", "float64", "string")
            self.columns += [BesideColumn(*column) for column in zip(DOMAIN_COLUMNS, kinds, strict=True)]

    def _check_interval(self, level: float) -> None:
        a = self.artifact
        check_level(level)
        if a.task.of_atoms:
            raise UsageError("intervals are of molecules, and the model answers for atoms: leave --interval out")
        if self.calibration == NONE and not self.beside.calibration_method:
            raise UsageError(
                "the model has no calibration: train with --calibration-size 0.1, or add --calibration-method none for "
                "what the model itself believes, which may be far too narrow"
            )
        # Whether the calibration molecules are enough is found on an answer of nothing.
        one = np.zeros((1, len(a.targets)))
        spread = None if self.uncertainty == NONE else one
        own = np.full((1, len(a.task.distribution_columns(a.targets))), 0.5)
        self.ends(Predictions(one, own, spread), level)

    def said(self, molecules: Sequence[Molecule], z: np.ndarray | None, refused: dict[int, str]) -> list[Said]:
        """The values of each molecule, or of each of its atoms, and what stands beside them.

        `refused` gets, by their places, why nothing is said of some: they are too large for the memory, or what the
        model answers is not finite.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what overflows is refused, not warned of
            return self._said(molecules, z, refused)

    def _said(self, molecules: Sequence[Molecule], z: np.ndarray | None, refused: dict[int, str]) -> list[Said]:
        a, task = self.artifact, self.artifact.task
        raw = a.predict(molecules, z, self.uncertainty, refused)
        answers = raw if self.calibration == NONE else a.apply_calibration(raw, self.calibration)
        beside: list[list[Any]] = answers.extra_values.tolist()
        if self.beside.interval is not None:
            beside = [old + new for old, new in zip(beside, self.ends(raw, self.beside.interval), strict=True)]
        if self.beside.applicability and a.domain is not None and len(molecules):
            bits = morgan_bits([m.smiles for m in molecules], max_atoms=a.max_atoms)
            found = a.domain.measure(embed_molecules(a.model, molecules, descriptors=z, failures=refused), bits)
            rows = zip(found[0].tolist(), found[1].tolist(), found[2], strict=True)
            beside = [old + list(row) for old, row in zip(beside, rows, strict=True)]
        values = (tuple(task.table_value(v, t) for t, v in enumerate(row)) for row in answers.values.tolist())
        return [(said, tuple(more)) for said, more in zip(values, beside, strict=True)]

    def ends(self, raw: Predictions, level: float) -> list[list[Value]]:
        """The ends of the intervals of each molecule, target by target, or its sets of classes; before calibration."""
        a, task = self.artifact, self.artifact.task
        calibration = None if self.calibration == NONE else a.calibration
        if isinstance(task, Regression):
            lower, upper = prediction_intervals(raw, task, level, calibration, self.calibration)
            return np.stack([lower, upper], 2).reshape(len(lower), 2 * len(a.targets)).tolist()
        answers = raw if calibration is None else a.apply_calibration(raw, self.calibration)
        chosen = prediction_sets(answers, task, level, calibration, self.calibration)
        labels = [task.class_names(t) for t in range(len(a.targets))]
        return [
            [tuple(c for c, within in zip(labels[t], part[i], strict=True) if within) for t, part in enumerate(chosen)]
            for i in range(len(raw.values))
        ]
