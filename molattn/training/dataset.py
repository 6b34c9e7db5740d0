"""The molecules, targets and split of a run, and batches of labelled molecules for training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from molattn.data import CALIBRATION, RejectedRow, label_rows, offsets_from_counts
from molattn.data.store.batches import Batch
from molattn.data.store.molecule_store import MoleculeStore, select_molecules
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.scaler import DescriptorScaler
from molattn.models.target_transform import TargetTransform, transform_bounds, transform_targets
from molattn.models.task import Task
from molattn.models.tasks import REGRESSION
from molattn.training.config import DataConfig


class StepInputs(NamedTuple):
    """The inputs of a step of training or validation.

    Attributes:
        batch: the molecules, with their targets.
        weights: of the rows of targets, (b,) or (N,); None for equal weights.
        auxiliary_targets: (b, A), or None.
        num_molecules: the number of molecules requested; 0 for a rank that has none of this batch.
        bounds: (b, T, 2), as in `LabelledMolecules`; None without bounds.
    """

    batch: Batch
    weights: Tensor | None
    auxiliary_targets: Tensor | None
    num_molecules: int
    bounds: Tensor | None = None


@dataclass(frozen=True)
class LabelledMolecules:
    """Molecules as a model reads them, and their targets.

    Attributes:
        molecules: n of them.
        targets: (n, T), after their transforms and before the scaler, NaN where a label is missing; (N, T) for targets
            of atoms, molecule by molecule.
        weights: (n,) the weight of each molecule in the loss, and of all its atoms; None for equal weights. Metrics do
            not use them.
        offsets: (n + 1,) row pointers for atom-level targets: molecule i has the rows offsets[i] to offsets[i + 1] of
            `targets`; None for one row per molecule.
        descriptors: (n, k) extra descriptors of each molecule, standardized, or None.
        auxiliary_targets: (n, A) targets of an auxiliary objective, standardized, NaN where missing, or None.
        bounds: (n, T, 2) lower and upper bounds of censored targets, on the same scale as `targets`, where these are
            NaN; NaN where there is no bound. None if no target has bounds.
    """

    molecules: Sequence[Molecule]
    targets: np.ndarray
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None
    descriptors: np.ndarray | None = None
    auxiliary_targets: np.ndarray | None = None
    bounds: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.molecules)

    def targets_of(self, molecules: Sequence[int]) -> np.ndarray:
        """The targets of some molecules, in that order, (b, T) or (N, T)."""
        return self.targets[list(molecules) if self.offsets is None else label_rows(self.offsets, molecules)]

    def weights_of(self, molecules: Sequence[int]) -> np.ndarray | None:
        """The weight of each row of `targets_of`; None for equal weights."""
        if self.weights is None:
            return None
        weights = np.asarray(self.weights, np.float64)[list(molecules)]
        return weights if self.offsets is None else np.repeat(weights, np.diff(self.offsets)[list(molecules)])


@dataclass(frozen=True)
class DuplicateRow:
    """A row of a molecule that was in several rows, after these were merged.

    Attributes:
        row: of the table.
        molecule: its canonical SMILES.
        values: the T labels in this row, NaN where missing.
        labels: the T merged labels of the molecule; empty if it was left out.
        merged_into: the row of the table that was kept for the molecule; None if the molecule was left out.
    """

    row: int
    molecule: str
    values: tuple[float, ...]
    labels: tuple[float, ...]
    merged_into: int | None


@dataclass(frozen=True)
class PreparedDataset:
    """The molecules, targets and split of a run, and the rows that were rejected.

    Attributes:
        config: the settings, with the columns that were found.
        name: of the data set, from its card, or the stem of its file name.
        units: unit of each target, empty where unknown.
        sha256: of the table's bytes.
        smiles: of every row of the table, as written.
        split_labels: "train", "val", "test" or "cal" for every row of the table; empty for a rejected row.
        rows: (n,) rows of the table that can be used, ascending.
        molecules: those rows as the model reads them.
        targets: their targets, (N, T), NaN where missing: a row for each molecule, N = n, or for atom-level targets a
            row for each of its atoms, molecule by molecule, in the order of the SMILES.
        rejected: the rows that cannot be used, and why.
        warnings: messages for the user.
        task: the task; multiclass targets are class indices.
        task_message: a sentence on which task was inferred; empty if the task type was configured.
        weights: the weight of each of the n rows, (n,); None without a weight column.
        groups: the group of each of the n rows; None without a group column.
        cache_folder: the folder from which the molecules were loaded; None if this run read them from SMILES.
        descriptors: (n, k) extra descriptors of each molecule, standardized, or None.
        descriptor_scaler: the scaler of `descriptors`, fitted to the training molecules.
        offsets: (n + 1,) row pointers, as in `LabelledMolecules`; None for one row per molecule.
        bounds: (n, T, 2) lower and upper bounds of censored targets, which are NaN in `targets`; NaN where there is no
            bound. None if no target has bounds.
        transforms: the transform of each target, fitted to the training molecules, None for none; empty if no target
            has one.
        transform_reasons: for each target with the setting "auto", what was recognized and why.
        duplicates: how the rows of molecules in several rows were merged; empty if rows are not merged.
        lines: where each row of the table starts in its source, in `line_kind`.
        line_kind: "line", "record" or "row".
    """

    config: DataConfig
    name: str
    units: tuple[str, ...]
    sha256: str
    smiles: list[str]
    split_labels: np.ndarray
    rows: np.ndarray
    molecules: MoleculeStore
    targets: np.ndarray
    rejected: list[RejectedRow]
    warnings: list[str]
    task: Task = REGRESSION
    task_message: str = ""
    weights: np.ndarray | None = None
    groups: list[str] | None = None
    cache_folder: Path | None = None
    descriptors: np.ndarray | None = None
    descriptor_scaler: DescriptorScaler | None = None
    offsets: np.ndarray | None = None
    bounds: np.ndarray | None = None
    transforms: tuple[TargetTransform | None, ...] = ()
    transform_reasons: tuple[str, ...] = ()
    duplicates: tuple[DuplicateRow, ...] = ()
    lines: Sequence[int] = ()
    line_kind: str = "line"

    @property
    def merged_rows(self) -> dict[int, int]:
        """{merged row: the row that it was merged into}, rows of the table."""
        return {r.row: r.merged_into for r in self.duplicates if r.merged_into is not None and r.merged_into != r.row}

    def line(self, i: int) -> int:
        """The place of molecule i, of the n, in the source of the table, in `line_kind`."""
        return self.lines[int(self.rows[i])]

    def location(self, i: int) -> str:
        """The place of molecule i in words, such as `line 5`."""
        return f"{self.line_kind} {self.line(i)}"

    def indices(self, split: str) -> np.ndarray:
        """The indices of the molecules, among the n, that have the split label `split`."""
        return np.flatnonzero(self.split_labels[self.rows] == split)

    @property
    def has_calibration(self) -> bool:
        """Whether there is a calibration split."""
        return bool(len(self.indices(CALIBRATION)))

    def target_rows(self, molecules: np.ndarray) -> np.ndarray:
        """The indices of the rows of `targets` that belong to some of the n molecules."""
        return molecules if self.offsets is None else label_rows(self.offsets, molecules)

    @property
    def standardized(self) -> list[tuple[int, str]]:
        """The rows whose molecule was changed by standardization, with the SMILES of the standard form."""
        if not self.config.standardize:
            return []
        forms = zip(self.rows.tolist(), self.molecules.smiles, strict=True)
        return [(row, form) for row, form in forms if form != self.smiles[row]]

    def subset(self, split: str) -> LabelledMolecules:
        """The molecules with the split label `split`, and their targets after the transforms."""
        indices = self.indices(split)
        weights = None if self.weights is None else self.weights[indices]
        offsets = None if self.offsets is None else offsets_from_counts(np.diff(self.offsets)[indices])
        descriptors = None if self.descriptors is None else self.descriptors[indices]
        targets = transform_targets(self.transforms, self.targets[self.target_rows(indices)])
        bounds = None if self.bounds is None else transform_bounds(self.transforms, self.bounds[indices])
        return LabelledMolecules(self.molecules[indices], targets, weights, offsets, descriptors, bounds=bounds)


def weighted_labels(y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """(n,) which rows a model of one target is fitted to: those with a label, and of them those with a weight above 0.

    If none has, all with a label.
    """
    labelled = np.isfinite(y)
    weighted = labelled if weights is None else labelled & (weights > 0)
    return weighted if weighted.any() else labelled


class RowIndices(Dataset[int]):
    """A dataset whose items are the row indices, for a collate function that looks the rows up itself."""

    def __init__(self, data: LabelledMolecules):
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> int:
        return row


def collate_rows(model: MoleculeModel, data: LabelledMolecules, rows: Sequence[int]) -> Batch:
    """The molecules `rows`, in that order, in one batch."""
    descriptors = None if data.descriptors is None else data.descriptors[list(rows)]
    return model.collate(select_molecules(data.molecules, rows), data.targets_of(rows), descriptors)


def collate_step(model: MoleculeModel, data: LabelledMolecules, rows: Sequence[int]) -> StepInputs:
    """A batch of the molecules `rows`, with their weights and auxiliary targets.

    A model cannot process an empty batch: without rows it gets the first molecule, with weight 0.
    """
    requested = len(rows)
    rows = rows if requested else [0]
    weights = data.weights_of(rows) if requested else np.zeros(len(data.targets_of(rows)))
    auxiliary = data.auxiliary_targets
    auxiliary = None if auxiliary is None else torch.from_numpy(auxiliary[list(rows)].astype(np.float32))
    bounds = None if data.bounds is None else torch.from_numpy(data.bounds[list(rows)])
    weights = None if weights is None else torch.from_numpy(weights)
    return StepInputs(collate_rows(model, data, rows), weights, auxiliary, requested, bounds)
