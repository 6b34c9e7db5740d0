"""A loaded model, and how it reads molecules: what predictions and explanations share."""

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import NO_GEOMETRY, Progress
from molattn.chem.molecule import CHUNK_SIZE as WORKER_CHUNK_SIZE
from molattn.chem.molecule import CHUNK_SIZE_3D as WORKER_CHUNK_SIZE_3D
from molattn.chem.workers import map_chunks
from molattn.errors import MolattnWarning, SmilesError, UsageError, short_repr
from molattn.explain.faithfulness_file import Summaries
from molattn.models.artifact import Artifact, save_artifact
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.descriptors import DescriptorStream, MoleculeRow
from molattn.models.tasks import Task


class BasePredictor:
    """A loaded model, and how it reads molecules.

    Args:
        artifact: the model.
        measured: what `molattn faithfulness` measured, by target and method.
        folder: the folder that the model was loaded from, if any.
    """

    def __init__(self, artifact: Artifact, measured: Summaries | None = None, folder: Path | None = None):
        self._artifact = artifact
        self._measured: Mapping[str, Mapping[str, str]] = measured or {}
        self.folder = folder
        c = artifact.conformers
        self.conformers = c if c is None or c.on_failure != "stop" else replace(c, on_failure="reject")
        self.targets, self.units = artifact.targets, artifact.units
        self.extra_columns = tuple(artifact.extra_columns())
        self.descriptors = () if artifact.descriptors is None else artifact.descriptors.provided

    @property
    def model(self) -> MoleculeModel:
        """The model itself, a torch module in evaluation mode; its outputs are standardised, not in units.

        Of an ensemble, the first; see `members`.
        """
        return self._artifact.model

    @property
    def task(self) -> Task:
        """What the targets are: regression, binary or multi-class, of molecules or of atoms."""
        return self._artifact.task

    @property
    def dim(self) -> int:
        """d, the length of a fingerprint.

        Raises:
            UsageError: a model of atoms, which has no fingerprint of a molecule.
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
        (read,) = self._read_list([smiles], descriptor_rows(descriptors, True))
        return read

    def _read_list(self, smiles: list[object], descriptors: Any) -> list[tuple[Molecule, np.ndarray | None]]:
        """Molecules with their descriptors; raises SmilesError at the first bad one, warns of a missing geometry."""
        found = []
        rows = DescriptorStream(self._artifact.descriptors, descriptors)
        for text, molecule, z in rows.join(smiles, self._read_molecules(smiles)):
            if isinstance(molecule, SmilesError):
                raise molecule
            for warning in molecule.warnings:
                if warning.startswith(NO_GEOMETRY):
                    warnings.warn(MolattnWarning(f"{short_repr(text)}: {warning}"), stacklevel=4)
            found.append((molecule, z))
        rows.check_end()
        return found

    def _iter_reads(
        self,
        smiles: Iterable[object],
        num_workers: int,
        progress: Callable[[int], None] | None,
        descriptors: DescriptorStream,
    ) -> Generator[list[MoleculeRow], None, None]:
        """Molecules with their descriptors, in order, in chunks; read as in training."""
        a = self._artifact
        reader = a.model.reader(
            add_hs=a.add_hs, max_atoms=a.max_atoms, conformers=self.conformers, standardize=a.standardize
        )
        size = WORKER_CHUNK_SIZE if self.conformers is None else WORKER_CHUNK_SIZE_3D
        done = 0
        with closing(map_chunks(smiles, descriptors.reader(reader), num_workers, size)) as chunks:
            for texts, outcomes in chunks:
                done += len(texts)
                if progress is not None:
                    progress(done)
                yield list(descriptors.join(texts, outcomes))
        descriptors.check_end()

    def _read_molecules(
        self, smiles: Iterable[object], num_workers: int = 0, progress: Progress | None = None
    ) -> Sequence[Molecule | SmilesError]:
        """The molecules, read as in training."""
        a = self._artifact
        return a.model.read(
            smiles,
            add_hs=a.add_hs,
            max_atoms=a.max_atoms,
            num_workers=num_workers,
            conformers=self.conformers,
            progress=progress,
            standardize=a.standardize,
        )


def descriptor_rows(descriptors: Any, single: bool) -> Any:
    """Rows of descriptors; with `single`, the k numbers of one molecule become its row."""
    if single and isinstance(descriptors, int | float | Sequence | np.ndarray) and np.ndim(descriptors) < 2:
        return [descriptors]
    return descriptors
