"""A loaded model, and how it reads molecules; without torch, which a model in ONNX does not need."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from molattn.chem.molecule import CHUNK_SIZE as WORKER_CHUNK_SIZE
from molattn.chem.molecule import CHUNK_SIZE_3D as WORKER_CHUNK_SIZE_3D
from molattn.chem.workers import map_chunks
from molattn.errors import UsageError
from molattn.explain.faithfulness_file import FaithfulnessSummaries
from molattn.inference.molecules import SmilesInput
from molattn.models.artifact import Artifact
from molattn.models.descriptor_stream import DescriptorStream, InputRow
from molattn.models.task import Task


class BasePredictor(ABC):
    """A loaded model, and how it reads molecules.

    Args:
        artifact: the model.
        faithfulness: one-line results of `molattn faithfulness`, by target and method.
        folder: the folder that the model was loaded from, if any.
        address: the address and commit of a model that was loaded from the hub; empty for others.

    Attributes:
        is_onnx: whether ONNX Runtime computes it.
    """

    is_onnx: ClassVar[bool] = False

    def __init__(
        self,
        artifact: Artifact,
        faithfulness: FaithfulnessSummaries | None = None,
        folder: Path | None = None,
        address: str = "",
    ):
        self._artifact = artifact
        self._faithfulness: FaithfulnessSummaries = faithfulness or {}
        self.folder, self.address = folder, address
        self.read_options = artifact.read_options
        conformers = self.read_options.conformers
        if conformers is not None and conformers.on_failure == "stop":
            self.read_options = replace(self.read_options, conformers=replace(conformers, on_failure="reject"))
        self.targets, self.units = artifact.targets, artifact.units
        self.extra_columns = tuple(artifact.extra_columns())
        self.descriptors = () if artifact.descriptors is None else artifact.descriptors.provided

    @abstractmethod
    def config_sha256(self) -> str:
        """A checksum of the model."""

    @property
    def precision(self) -> str:
        """The precision of predictions and embeddings: "32-true" or "bf16-mixed"."""
        return self._artifact.model.precision

    @property
    def accelerator(self) -> str:
        """The type of the device that it predicts on: "cpu", "cuda", ..."""
        return "cpu"

    def slow_reason(self) -> str:
        """Why the model runs slower than it could; empty if it does not."""
        return self._artifact.model.slow_reason()

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
        return self._artifact.embedding_dim

    def _descriptors_of(self, molecules: SmilesInput, descriptors: Any) -> Any:
        """Rows of descriptors: those that were passed, or else the columns of the data frame of the molecules."""
        if descriptors is None and self.descriptors:
            return molecules.frame
        return descriptor_rows(descriptors, molecules.single)

    def _read_rows(
        self,
        smiles: Iterable[object],
        num_workers: int,
        progress: Callable[[int], None] | None,
        descriptors: DescriptorStream,
    ) -> Generator[list[InputRow], None, None]:
        """A row for each SMILES, in order, in chunks; read as in training."""
        reader = self._artifact.model.reader(self.read_options)
        size = WORKER_CHUNK_SIZE if self.read_options.conformers is None else WORKER_CHUNK_SIZE_3D
        done = 0
        with closing(map_chunks(smiles, descriptors.reader(reader), num_workers, size)) as chunks:
            for smiles_of_chunk, molecules in chunks:
                done += len(smiles_of_chunk)
                if progress is not None:
                    progress(done)
                yield descriptors.join(smiles_of_chunk, molecules)
        descriptors.check_end()


def descriptor_rows(descriptors: Any, single: bool) -> Any:
    """Rows of descriptors; with `single`, the k numbers of one molecule are one row."""
    if single and hasattr(descriptors, "to_numpy") and not hasattr(descriptors, "columns"):
        descriptors = descriptors.to_numpy()  # a Series
    if single and isinstance(descriptors, int | float | np.number | Sequence | np.ndarray) and np.ndim(descriptors) < 2:
        return [descriptors]
    return descriptors
