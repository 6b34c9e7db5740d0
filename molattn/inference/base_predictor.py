"""A loaded model: reading molecules, the options of a prediction, and the prediction of batches with these options."""

import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import NO_GEOMETRY, Progress, morgan_bits
from molattn.chem.molecule import CHUNK_SIZE as WORKER_CHUNK_SIZE
from molattn.chem.molecule import CHUNK_SIZE_3D as WORKER_CHUNK_SIZE_3D
from molattn.chem.workers import map_chunks
from molattn.data.files import file_sha256
from molattn.data.tables.writers import NewColumn
from molattn.errors import MolattnWarning, SmilesError, UsageError, short_repr
from molattn.explain.faithfulness_file import Summaries
from molattn.inference.molecules import Molecules
from molattn.inference.rows import RowValues, Value
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import save_artifact
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.calibration import check_level, prediction_sets, resolve_calibration_method
from molattn.models.descriptor_stream import DescriptorStream, InputRow
from molattn.models.predict import compute_embeddings
from molattn.models.predictions import NONE, Predictions
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.models.uncertainty import resolve_uncertainty_method


class BasePredictor:
    """A loaded model, and how it reads molecules.

    Args:
        artifact: the model.
        faithfulness: one-line results of `molattn faithfulness`, by target and method.
        folder: the folder that the model was loaded from, if any.
    """

    def __init__(self, artifact: Artifact, faithfulness: Summaries | None = None, folder: Path | None = None):
        self._artifact = artifact
        self._faithfulness: Summaries = faithfulness or {}
        self.folder = folder
        self.read_options = artifact.read_options
        conformers = self.read_options.conformers
        if conformers is not None and conformers.on_failure == "stop":
            self.read_options = replace(self.read_options, conformers=replace(conformers, on_failure="reject"))
        self.targets, self.units = artifact.targets, artifact.units
        self.extra_columns = tuple(artifact.extra_columns())
        self.descriptors = () if artifact.descriptors is None else artifact.descriptors.provided

    @property
    def model(self) -> MoleculeModel:
        """The model itself, a torch module in evaluation mode, with raw outputs: standardized values, logits, ...

        For an ensemble, its first model; see `members`.
        """
        return self._artifact.model

    @property
    def task(self) -> Task:
        """The task: regression, binary or multiclass classification, of molecules or of atoms."""
        return self._artifact.task

    @property
    def dim(self) -> int:
        """d, the length of a learned embedding.

        Raises:
            UsageError: an atom-level model, which has no embedding of a molecule.
        """
        if self.task.atom_level:
            raise UsageError(
                f"the model predicts atom-level targets ({', '.join(self.targets)}): it has no embedding of a molecule"
            )
        return self._artifact.model.head.in_features

    def save(self, folder: str | Path) -> None:
        """Write the model as `model.safetensors` and `config.json`, which `load` and the commands read."""
        save_artifact(folder, self._artifact)

    def model_sha256(self) -> str:
        """SHA-256 of the model's `config.json`, which holds the checksum of its weights."""
        if self.folder is not None:
            return file_sha256(self.folder / "config.json")
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            return file_sha256(Path(folder) / "config.json")

    def _descriptors_of(self, molecules: Molecules, descriptors: Any) -> Any:
        """Rows of descriptors: those that were passed, or else the columns of the data frame of the molecules."""
        if descriptors is None and self.descriptors:
            return molecules.frame
        return descriptor_rows(descriptors, molecules.single)

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
            for smiles_of_chunk, molecules in chunks:
                done += len(smiles_of_chunk)
                if progress is not None:
                    progress(done)
                yield descriptors.join(smiles_of_chunk, molecules)
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


DOMAIN_COLUMNS = (
    NewColumn("embedding_distance", "float64"),
    NewColumn("tanimoto_nearest", "float64"),
    NewColumn("out_of_domain", "string"),
)
"""The columns of the applicability domain."""


@dataclass(frozen=True)
class PredictionOptions:
    """What is computed in addition to the predictions.

    Attributes:
        interval: level of prediction intervals, or of prediction sets of classes; None for neither.
        uncertainty_method: how standard deviations are computed; the model's default when empty.
        calibration_method: one of `molattn.models.calibration.CALIBRATION_METHODS`; the model's default when empty.
        applicability: whether to add the `DOMAIN_COLUMNS`, how far each molecule is from the training molecules.
    """

    interval: float | None = None
    uncertainty_method: str = ""
    calibration_method: str = ""
    applicability: bool = False


DEFAULT_OPTIONS = PredictionOptions()
"""Only the outputs of the model."""


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
        self.uncertainty = a.uncertainty_method
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
        if (
            self.calibration != NONE
            and a.calibration is not None
            and self.uncertainty != a.calibration.uncertainty_method
        ):
            if options.interval is not None or options.calibration_method:
                raise UsageError(
                    f"the model was calibrated with the uncertainty method {a.calibration.uncertainty_method}, not "
                    f"{self.uncertainty}: leave uncertainty_method out, or set --calibration-method none "
                    "(calibration_method='none')"
                )
            self.calibration = NONE
        self.columns = [NewColumn(name, "float64") for name in a.extra_columns(self.uncertainty)]
        if options.interval is not None:
            self._check_interval(options.interval)
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

    def _check_interval(self, level: float) -> None:
        a = self.artifact
        check_level(level)
        if a.task.atom_level:
            raise UsageError("intervals apply only to molecule-level targets, and those of the model are atom-level")
        if self.calibration == NONE and not self.options.calibration_method:
            raise UsageError(
                "the model has no calibration: train with --calibration-size 0.1, or add --calibration-method none "
                "(calibration_method='none') for uncalibrated intervals, which may be far too narrow"
            )
        # A dummy prediction, which raises the error if there are too few calibration molecules for the level.
        zeros = np.zeros((1, len(a.targets)))
        std = None if self.uncertainty == NONE else zeros
        distribution = np.full((1, len(a.task.distribution_columns(a.targets))), 0.5)
        self._intervals_or_sets(Predictions(zeros, distribution, std), level)

    def predict(self, molecules: Sequence[Molecule], z: np.ndarray | None, failures: dict[int, str]) -> list[RowValues]:
        """Predictions and extra values of each molecule, or of each atom for an atom-level model.

        Args:
            molecules: n molecules.
            z: (n, k), their standardized descriptors; None if the model reads none.
            failures: receives, by index, why a molecule has no prediction: it is too large for the memory, or the
                model's output is not finite.
        """
        a, task = self.artifact, self.artifact.task
        # Values that overflow are reported as failures, not as NumPy's warnings.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            raw = a.predict(molecules, z, self.uncertainty, failures)
            calibrated = a.apply_calibration(raw, self.calibration)
            extra: list[list[Any]] = calibrated.extra_values.tolist()
            if self.options.interval is not None:
                intervals = self._intervals_or_sets(raw, self.options.interval)
                extra = [row + new for row, new in zip(extra, intervals, strict=True)]
            if self.options.applicability and a.domain is not None and len(molecules):
                bits = morgan_bits([m.smiles for m in molecules], max_atoms=a.read_options.max_atoms)
                vectors = compute_embeddings(a.model, molecules, descriptors=z, failures=failures)
                distances, similarities, out_of_domain = a.domain.measure(vectors, bits)
                columns = zip(distances.tolist(), similarities.tolist(), out_of_domain, strict=True)
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
