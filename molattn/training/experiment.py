"""What a run learns from: molecules, their targets, and who is on which side of the split."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from molattn.data import CALIBRATION, Rejected, label_rows, offsets_of
from molattn.data.store.molecule_store import MoleculeStore
from molattn.models.scaler import DescriptorScaler
from molattn.models.tasks import REGRESSION, Task
from molattn.training.config import DataConfig
from molattn.training.labelled import Labelled


@dataclass(frozen=True)
class Experiment:
    """Molecules, targets and sides of the split, and what was left out.

    Attributes:
        data: the settings, with the columns that were found.
        name: of the data set: its card's, or the stem of its file.
        units: unit of each target, empty where unknown.
        sha256: of the table's bytes.
        smiles: of every row of the table, as written.
        labels: side of every row of the table; empty for a row that is left out.
        rows: (n,) rows of the table that can be used, ascending.
        molecules: those rows as the model reads them.
        targets: their targets, (N, T), NaN where missing: a row for each molecule, N = n, or where targets are of
            atoms one for each of its atoms, molecule by molecule, in the order of the SMILES.
        rejected: the rows that cannot be used, and why.
        warnings: what a user should know.
        task: what the targets are; of several classes they are places among them.
        taken: in one sentence, what the task was guessed to be; empty where it was said.
        weights: how much each of the n rows counts, (n,); None where no column says so.
        groups: what each of the n rows belongs to; None where no column says so.
        stored_in: the folder where the molecules were found, read before; None where they were read now.
        descriptors: (n, k) what stands beside each molecule, standardised; None where no column is asked for.
        descriptor_scaler: how it was, from the training molecules alone.
        offsets: (n + 1,) where the rows of targets of each molecule begin, and where the last end; None for one each.
    """

    data: DataConfig
    name: str
    units: tuple[str, ...]
    sha256: str
    smiles: list[str]
    labels: np.ndarray
    rows: np.ndarray
    molecules: MoleculeStore
    targets: np.ndarray
    rejected: list[Rejected]
    warnings: list[str]
    task: Task = REGRESSION
    taken: str = ""
    weights: np.ndarray | None = None
    groups: list[str] | None = None
    stored_in: Path | None = None
    descriptors: np.ndarray | None = None
    descriptor_scaler: DescriptorScaler | None = None
    offsets: np.ndarray | None = None

    def side(self, name: str) -> np.ndarray:
        """Which of the n molecules are on the side `name`, as indices."""
        return np.flatnonzero(self.labels[self.rows] == name)

    @property
    def has_calibration(self) -> bool:
        """Whether molecules are set aside for calibration."""
        return bool(len(self.side(CALIBRATION)))

    def targets_of(self, molecules: np.ndarray) -> np.ndarray:
        """Which rows of `targets` belong to some of the n molecules, as indices."""
        return molecules if self.offsets is None else label_rows(self.offsets, molecules)

    @property
    def standardized(self) -> list[tuple[int, str]]:
        """The rows whose molecule is read in another form than the table has it in, and that form's SMILES."""
        if not self.data.standardize:
            return []
        forms = zip(self.rows.tolist(), self.molecules.smiles, strict=True)
        return [(row, form) for row, form in forms if form != self.smiles[row]]

    def labelled(self, name: str) -> Labelled:
        """The molecules of one side with their targets."""
        chosen = self.side(name)
        weights = None if self.weights is None else self.weights[chosen]
        offsets = None if self.offsets is None else offsets_of(np.diff(self.offsets)[chosen])
        descriptors = None if self.descriptors is None else self.descriptors[chosen]
        targets = self.targets[self.targets_of(chosen)]
        return Labelled(self.molecules[chosen], targets, weights, offsets, descriptors)
