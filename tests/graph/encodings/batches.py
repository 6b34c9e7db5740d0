"""Batches of real molecules with random distances, and ways to change them."""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from molattn.chem import BOND_FEATURES, BOND_SIZE, featurize, unpack_bond
from molattn.data.store.batches import collate
from tests.graph.graphs import F64

PARTS = torch.from_numpy(unpack_bond(range(BOND_SIZE)))
SIZES = [f.size for f in BOND_FEATURES]

SMILES = (
    "C1CC2CCC1C2C(=O)O",
    "C",
    "[Na+].[Cl-]",
    "CC(=O)[O-].[NH4+]",
    "c1ccc2ccccc2c1",
    "[H][H]",
    "C12C3C4C1C5C2C3C45",  # cubane: six shortest paths along its longest diagonal
    "[NH3]->[Pt](Cl)Cl",  # a dative bond, which has two codes
    "C/C=C/C#N",
)


@dataclass(frozen=True)
class Padded:
    """Molecules padded to one size."""

    atom_codes: Tensor
    bond_codes: Tensor
    path_lengths: Tensor
    mask: Tensor
    distances: Tensor | None

    def replace(self, **changes):
        return replace(self, **changes)

    def __getitem__(self, rows):
        """Some of the molecules, with the same padding."""
        return Padded(**{name: x[rows] for name, x in _tensors(self).items()})

    def to(self, device):
        return Padded(**{name: x.to(device) for name, x in _tensors(self).items()})


def _tensors(batch):
    return {f.name: getattr(batch, f.name) for f in fields(batch)}


def batch_of(*smiles, seed=0):
    """A batch of these molecules, at random distances in each fragment: symmetric, 0 to 12 angstrom, float64."""
    molecules = collate(featurize(smiles))
    d = 12 * torch.rand(molecules.path_lengths.shape, generator=torch.Generator().manual_seed(seed), dtype=F64)
    d = (d + d.mT) / 2
    real = molecules.mask.unsqueeze(-1) & molecules.mask.unsqueeze(-2)
    d[molecules.path_lengths == 0] = 0.0
    d[molecules.path_lengths == 255] = torch.inf
    d[~real] = 0.0
    return Padded(molecules.atom_codes, molecules.bond_codes, molecules.path_lengths, molecules.mask, d)


def garbled(batch):
    """The same molecules with garbage in the padding."""
    real = batch.mask.unsqueeze(-1) & batch.mask.unsqueeze(-2)
    return batch.replace(
        atom_codes=batch.atom_codes.masked_fill(~batch.mask.unsqueeze(-1), 255),
        bond_codes=batch.bond_codes.masked_fill(~real, 255),
        path_lengths=batch.path_lengths.masked_fill(~real, 1),
        distances=batch.distances.masked_fill(~real, torch.nan),
    )


def single(batch, k):
    """Molecule k as a batch of its own, without padding."""
    n = int(batch.mask[k].sum())
    return Padded(
        batch.atom_codes[k : k + 1, :n],
        batch.bond_codes[k : k + 1, :n, :n],
        batch.path_lengths[k : k + 1, :n, :n],
        batch.mask[k : k + 1, :n],
        batch.distances[k : k + 1, :n, :n],
    )


def reordered(batch, order):
    """The same molecules with their atoms, padding included, in another order: atom k is the former atom order[k]."""
    return Padded(
        batch.atom_codes[:, order],
        batch.bond_codes[:, order][:, :, order],
        batch.path_lengths[:, order][:, :, order],
        batch.mask[:, order],
        batch.distances[:, order][:, :, order],
    )


def num_atoms(batch, k):
    """The number of atoms of molecule k."""
    return int(batch.mask[k].sum())
