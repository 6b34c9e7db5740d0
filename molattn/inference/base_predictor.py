"""A loaded model, and how it reads molecules."""

import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from molattn.chem import NO_GEOMETRY, Progress
from molattn.chem.molecule import CHUNK_SIZE as WORKER_CHUNK_SIZE
from molattn.chem.molecule import CHUNK_SIZE_3D as WORKER_CHUNK_SIZE_3D
from molattn.chem.workers import map_chunks
from molattn.data.files import file_sha256
from molattn.errors import MolattnWarning, SmilesError, UsageError, short_repr
from molattn.explain.faithfulness_file import FaithfulnessSummaries
from molattn.inference.molecules import SmilesInput
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import save_artifact
from molattn.models.base import MoleculeModel
from molattn.models.descriptor_stream import DescriptorStream, InputRow
from molattn.models.device import check_precision, resolve_device
from molattn.models.molecule import Molecule
from molattn.models.task import Task

P = TypeVar("P", bound="BasePredictor")


class BasePredictor:
    """A loaded model, and how it reads molecules.

    Args:
        artifact: the model.
        faithfulness: one-line results of `molattn faithfulness`, by target and method.
        folder: the folder that the model was loaded from, if any.
    """

    def __init__(
        self, artifact: Artifact, faithfulness: FaithfulnessSummaries | None = None, folder: Path | None = None
    ):
        self._artifact = artifact
        self._faithfulness: FaithfulnessSummaries = faithfulness or {}
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
    def device(self) -> torch.device:
        """The device that it predicts on."""
        return self.model.head.weight.device

    def to(self: P, device: str | torch.device, precision: str = "32-true") -> P:
        """Move the model to a device, in place, as `torch.nn.Module.to` does; returns the predictor itself.

        Args:
            device: "cpu"; "gpu" or one of torch's names, such as "cuda:1"; "auto" for a GPU if there is one.
            precision: "32-true", float32; or "bf16-mixed", automatic mixed precision with bfloat16 of predictions and
                embeddings, with some three significant digits. Attention maps and attributions have float32 always.

        Raises:
            UsageError: there is no such device, on this machine or at all; an unknown precision.

        >>> from molattn import MolAttentionRegressor
        >>> smiles, boiling_points = ["CO", "CCO", "CCCO", "CCCCO"], [65, 78, 97, 118]
        >>> model = MolAttentionRegressor(hidden_dim=8, num_layers=1, epochs=1).fit(smiles, boiling_points)
        >>> model.predictor_.to("auto").predict("CCO").shape
        ()
        """
        check_precision(precision)
        place = resolve_device(device)
        for model in self._artifact.models:
            model.to(place)
            model.precision = precision
        return self

    @property
    def task(self) -> Task:
        """The task: regression, binary or multiclass classification, of molecules or of atoms."""
        return self._artifact.task

    @property
    def embedding_dim(self) -> int:
        """d, the length of a learned embedding, descriptors included.

        Raises:
            UsageError: an atom-level model, which has no embedding of a molecule.
        """
        if self.task.atom_level:
            raise UsageError(
                f"the model predicts atom-level targets ({', '.join(self.targets)}): it has no embedding of a molecule"
            )
        return self._artifact.model.head.in_features

    def save(self, folder: str | Path) -> None:
        """Write the model as `model.safetensors` and `config.json`, which `load` and the commands read.

        Args:
            folder: created if it does not exist; a model in it is replaced atomically.

        Raises:
            OSError: the folder or a file cannot be written.
        """
        save_artifact(folder, self._artifact)

    def config_sha256(self) -> str:
        """SHA-256 of the model's `config.json`, which holds the checksum of its weights."""
        if self.folder is not None:
            return file_sha256(self.folder / "config.json")
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            return file_sha256(Path(folder) / "config.json")

    def _descriptors_of(self, molecules: SmilesInput, descriptors: Any) -> Any:
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
