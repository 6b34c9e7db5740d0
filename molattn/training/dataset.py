"""Labelled molecules, and batches of them as a training takes its steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from molattn.data.store.batches import Batch
from molattn.data.store.molecule_store import chosen
from molattn.data.tables.atom_lists import label_rows
from molattn.models.base import Molecule, MoleculeModel

# A batch; what its rows of targets count, (b,) or (N,), None for all alike; what a companion learns, (b, A) or None;
# how many molecules are asked for.
Step = tuple[Batch, Tensor | None, Tensor | None, int]


@dataclass(frozen=True)
class Labelled:
    """Molecules as a model reads them, and their targets, (n, T) in units, NaN where a label is missing.

    `weights`, (n,), say how much each molecule counts in the loss; None for all alike. No metric reads them.
    `offsets`, (n + 1,), say where the rows of targets of each molecule begin, and where the last end, where they are of
    atoms: then targets are (N, T), and each atom counts as its molecule does. None for one row each.
    `descriptors`, (n, k), stand beside each molecule, standardised; None where there are none.
    `beside`, (n, A), is what a companion of the model learns of each molecule, standardised, NaN where missing.
    """

    molecules: Sequence[Molecule]
    targets: np.ndarray
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None
    descriptors: np.ndarray | None = None
    beside: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.molecules)

    def targets_of(self, molecules: Sequence[int]) -> np.ndarray:
        """The targets of some molecules, in that order, (b, T) or (N, T)."""
        return self.targets[list(molecules) if self.offsets is None else label_rows(self.offsets, molecules)]

    def weights_of(self, molecules: Sequence[int]) -> np.ndarray | None:
        """How much each row of `targets_of` counts; None for all alike."""
        if self.weights is None:
            return None
        weights = np.asarray(self.weights, np.float64)[list(molecules)]
        return weights if self.offsets is None else np.repeat(weights, np.diff(self.offsets)[list(molecules)])


class Rows(Dataset[int]):
    """A dataset that hands its collate function the row numbers themselves."""

    def __init__(self, data: Labelled):
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> int:
        return row


def batch_of(model: MoleculeModel, data: Labelled, rows: Sequence[int]) -> Batch:
    """The molecules `rows`, in that order, in one batch."""
    descriptors = None if data.descriptors is None else data.descriptors[list(rows)]
    return model.collate(chosen(data.molecules, rows), data.targets_of(rows), descriptors)


def step_of(model: MoleculeModel, data: Labelled, rows: Sequence[int]) -> Step:
    """A batch, the weights of its rows of targets, and what stands beside its molecules.

    A model cannot read no molecule at all: in the place of none stands the first, which counts nothing.
    """
    asked = len(rows)
    rows = rows if asked else [0]
    weights = data.weights_of(rows) if asked else np.zeros(len(data.targets_of(rows)))
    beside = None if data.beside is None else torch.from_numpy(data.beside[list(rows)].astype(np.float32))
    return batch_of(model, data, rows), None if weights is None else torch.from_numpy(weights), beside, asked
