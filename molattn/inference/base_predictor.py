"""A loaded model: reading molecules, the options of a prediction, and the prediction of batches with these options."""

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import NO_GEOMETRY, Progress, morgan_bits
from molattn.chem.molecule import CHUNK_SIZE as WORKER_CHUNK_SIZE
from molattn.chem.molecule import CHUNK_SIZE_3D as WORKER_CHUNK_SIZE_3D
from molattn.chem.workers import map_chunks
from molattn.errors import MolattnWarning, SmilesError, UsageError, short_repr
from molattn.explain.faithfulness_file import Summaries
from molattn.inference.rows import RowValues, Value
from molattn.models.artifact import Artifact, save_artifact
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.calibration import (
    NONE,
    check_level,
    prediction_sets,
    resolve_calibration_method,
)
from molattn.models.descriptors import DescriptorStream, InputRow
from molattn.models.predict import compute_embeddings
from molattn.models.predictions import Predictions
from molattn.models.tasks import Regression, Task
from molattn.models.uncertainty import resolve_uncertainty_method


class BasePredictor:
    """A loaded model, and how it reads molecules.

    Args:
        artifact: the model.
        measured: the results of `molattn faithfulness`, in words, by target and method.
        folder: the folder that the model was loaded from, if any.
    """

    def __init__(self, artifact: Artifact, measured: Summaries | None = None, folder: Path | None = None):
        self._artifact = artifact
        self._measured: Mapping[str, Mapping[str, str]] = measured or {}
        self.folder = folder
        options, c = artifact.read_options, artifact.read_options.conformers
        if c is not None and c.on_failure == "stop":
            options = replace(options, conformers=replace(c, on_failure="reject"))
        self.read_options = options
        self.targets, self.units = artifact.targets, artifact.units
        self.extra_columns = tuple(artifact.extra_columns())
        self.descriptors = () if artifact.descriptors is None else artifact.descriptors.provided

    @property
    def model(self) -> MoleculeModel:
        """The model itself, a torch module in evaluation mode, with raw outputs: standardised values, logits, ...

        For an ensemble, its first model; see `members`.
        """
        return self._artifact.model

    @property
    def task(self) -> Task:
        """What the targets are: regression, binary or multi-class, of molecules or of atoms."""
        return self._artifact.task

    @property
    def dim(self) -> int:
        """d, the length of a learned embedding.

        Raises:
            UsageError: a model of atoms, which has no embedding of a molecule.
        """
        if self.task.of_atoms:
            raise UsageError(
                f"the model answers for atoms ({', '.join(self.targets)}): it has no vector of a molecule to embed"
            )
        return self._artifact.model.head.in_features

    def save(self, folder: str | Path) -> None:
        """Write the model as `model.safetensors` and `config.json`, which `load` and the commands read."""
        save_artifact(folder, self._artifact)

    def model_sha256(self) -> str:
        """SHA-256 of the model's `config.json`, which holds the checksum of its weights."""
        if self.folder is not None:
            return hashlib.sha256((self.folder / "config.json").read_bytes()).hexdigest()
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            return hashlib.sha256((Path(folder) / "config.json").read_bytes()).hexdigest()

    def _read_one(self, smiles: str, descriptors: Any) -> tuple[Molecule, np.ndarray | None]:
        """The molecule of one SMILES and its descriptors; raises SmilesError."""
        (found,) = self._read_list([smiles], descriptor_rows(descriptors, True))
        return found

    def _read_list(self, smiles: list[object], descriptors: Any) -> list[tuple[Molecule, np.ndarray | None]]:
        """Molecules with their descriptors; raises SmilesError at the first bad one, warns of missing 3D geometries."""
        found = []
        stream = DescriptorStream(self._artifact.descriptors, descriptors)
        for row in stream.join(smiles, self._read_molecules(smiles)):
            if isinstance(row.molecule, SmilesError):
                raise row.molecule
            for warning in row.molecule.warnings:
                if warning.startswith(NO_GEOMETRY):
                    warnings.warn(MolattnWarning(f"{short_repr(row.smiles)}: {warning}"), stacklevel=4)
            found.append((row.molecule, row.descriptors))
        stream.check_end()
        return found

    def _read_rows(
        self,
        smiles: Iterable[object],
        num_workers: int,
        progress: Callable[[int], None] | None,
        descriptors: DescriptorStream,
    ) -> Generator[list[InputRow], None, None]:
        """A row for each SMILES, in order, in chunks; read as in training."""
        reader = self.model.reader(self.read_options)
        size = WORKER_CHUNK_SIZE if self.read_options.conformers is None else WORKER_CHUNK_SIZE_3D
        done = 0
        with closing(map_chunks(smiles, descriptors.reader(reader), num_workers, size)) as chunks:
            for of_chunk, molecules in chunks:
                done += len(of_chunk)
                if progress is not None:
                    progress(done)
                yield descriptors.join(of_chunk, molecules)
        descriptors.check_end()

    def _read_molecules(
        self, smiles: Iterable[object], num_workers: int = 0, progress: Progress | None = None
    ) -> Sequence[Molecule | SmilesError]:
        """The molecules, read as in training."""
        return self.model.read(smiles, self.read_options, num_workers, progress)


def descriptor_rows(descriptors: Any, single: bool) -> Any:
    """Rows of descriptors; with `single`, the k numbers of one molecule are one row."""
    if single and isinstance(descriptors, int | float | Sequence | np.ndarray) and np.ndim(descriptors) < 2:
        return [descriptors]
    return descriptors


DOMAIN_COLUMNS = ("embedding_distance", "tanimoto_nearest", "out_of_domain")


@dataclass(frozen=True)
class PredictionOptions:
    """What is computed in addition to the predictions.

    Attributes:
        interval: level of prediction intervals, or of prediction sets of classes; None for neither.
        uncertainty_method: how standard deviations are computed; the model's default when empty.
        calibration_method: one of `molattn.models.calibration.CALIBRATION_METHODS`; the model's default when empty.
        applicability: whether to measure how far each molecule is from the training molecules.
    """

    interval: float | None = None
    uncertainty_method: str = ""
    calibration_method: str = ""
    applicability: bool = False


DEFAULT_OPTIONS = PredictionOptions()
"""Only the outputs of the model."""


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
        # A dummy prediction, which raises the error if there are too few calibration molecules for the level.
        one = np.zeros((1, len(a.targets)))
        spread = None if self.uncertainty == NONE else one
        distribution = np.full((1, len(a.task.distribution_columns(a.targets))), 0.5)
        self._intervals_or_sets(Predictions(one, distribution, spread), level)

    def predict(self, molecules: Sequence[Molecule], z: np.ndarray | None, failures: dict[int, str]) -> list[RowValues]:
        """Predictions and extra values of each molecule, or of each atom for a model of atoms.

        Args:
            molecules: n molecules.
            z: (n, k), their standardised descriptors; None if the model reads none.
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
        calibrated = a.apply_calibration(raw, self.calibration)
        extra: list[list[Any]] = calibrated.extra_values.tolist()
        if self.options.interval is not None:
            ends = self._intervals_or_sets(raw, self.options.interval)
            extra = [row + new for row, new in zip(extra, ends, strict=True)]
        if self.options.applicability and a.domain is not None and len(molecules):
            bits = morgan_bits([m.smiles for m in molecules], max_atoms=a.read_options.max_atoms)
            vectors = compute_embeddings(a.model, molecules, descriptors=z, failures=failures)
            distances, similarities, flags = a.domain.measure(vectors, bits)
            measured = zip(distances.tolist(), similarities.tolist(), flags, strict=True)
            extra = [row + list(new) for row, new in zip(extra, measured, strict=True)]
        values = (tuple(task.table_value(v, t) for t, v in enumerate(row)) for row in calibrated.values.tolist())
        return [(row, tuple(more)) for row, more in zip(values, extra, strict=True)]

    def _intervals_or_sets(self, raw: Predictions, level: float) -> list[list[Value]]:
        """From uncalibrated predictions: the ends of each molecule's intervals, by target, or its sets of classes."""
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
