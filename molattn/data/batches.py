"""Batches: molecules padded to one size, and which molecules go together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from molattn.chem import MoleculeGraph, SmilesTokens


@runtime_checkable
class Batch(Protocol):
    """What training and prediction need to know of a batch, whatever the molecules in it are made of."""

    @property
    def targets(self) -> Tensor | None:
        """(b, T), or (N, T) of all atoms, NaN where a label is missing; None in prediction."""
        ...

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        ...


@dataclass(frozen=True)
class MoleculeBatch:
    """b molecules padded to n atoms each; the codes are those of `MoleculeGraph`, as bytes.

    Attributes:
        atom_codes: (b, n, F).
        bond_codes: (b, n, n).
        path_lengths: (b, n, n).
        mask: (b, n) True where there is an atom.
        targets: (b, T), or (N, T) of all atoms, molecule by molecule, NaN where a label is missing; None in prediction.
        distances: (b, n, n) float32 in angstrom, inf between fragments; None where the molecules have none.
    """

    atom_codes: Tensor
    bond_codes: Tensor
    path_lengths: Tensor
    mask: Tensor
    targets: Tensor | None = None
    distances: Tensor | None = None

    def __len__(self) -> int:
        return len(self.mask)

    def to(self, device: torch.device | str) -> "MoleculeBatch":
        """The same batch on another device."""
        moved = {name: x.to(device) for name, x in vars(self).items() if x is not None}
        return replace(self, **moved)


def collate(molecules: Sequence[MoleculeGraph], targets: np.ndarray | None = None) -> MoleculeBatch:
    """One batch of `molecules`, in order, padded with zeros to the largest; `targets` is (b, T), (N, T) or None.

    Raises:
        ValueError: some of the molecules have distances and others have none.
    """
    b, n = len(molecules), max(m.num_atoms for m in molecules)
    atoms = np.zeros((b, n, molecules[0].atom_codes.shape[1]), dtype=np.uint8)
    bonds = np.zeros((b, n, n), dtype=np.uint8)
    paths = np.zeros((b, n, n), dtype=np.uint8)
    mask = np.zeros((b, n), dtype=bool)
    distances = _distances(molecules, n)
    for i, m in enumerate(molecules):
        k = m.num_atoms
        atoms[i, :k] = m.atom_codes
        bonds[i, :k, :k] = m.bond_codes
        paths[i, :k, :k] = m.path_lengths
        mask[i, :k] = True
    return MoleculeBatch(
        atom_codes=torch.from_numpy(atoms),
        bond_codes=torch.from_numpy(bonds),
        path_lengths=torch.from_numpy(paths),
        mask=torch.from_numpy(mask),
        targets=_labels(targets),
        distances=distances,
    )


def _distances(molecules: Sequence[MoleculeGraph], n: int) -> Tensor | None:
    """(b, n, n), or None where no molecule has distances."""
    known = [m.distances for m in molecules if m.distances is not None]
    if not known:
        return None
    if len(known) < len(molecules):
        raise ValueError(
            f"{len(known)} of {len(molecules)} molecules have distances: read all of one batch with conformers, or none"
        )
    distances = np.zeros((len(molecules), n, n), dtype=np.float32)
    for i, d in enumerate(known):
        distances[i, : len(d), : len(d)] = d
    return torch.from_numpy(distances)


@dataclass(frozen=True)
class TokenBatch:
    """b rows of tokens padded to n each; the codes are those of `SmilesTokens`.

    Attributes:
        codes: (b, n) bytes, 0 where there is no token.
        targets: (b, T), NaN where a label is missing; None in prediction.
    """

    codes: Tensor
    targets: Tensor | None = None

    def to(self, device: torch.device | str) -> "TokenBatch":
        """The same batch on another device."""
        return TokenBatch(self.codes.to(device), None if self.targets is None else self.targets.to(device))


def collate_tokens(molecules: Sequence[SmilesTokens], targets: np.ndarray | None = None) -> TokenBatch:
    """One batch of token rows, in order, padded with zeros to the longest; `targets` is (b, T) or None."""
    codes = np.zeros((len(molecules), max(m.size for m in molecules)), dtype=np.uint8)
    for i, m in enumerate(molecules):
        codes[i, : m.size] = m.codes
    return TokenBatch(torch.from_numpy(codes), _labels(targets))


def _labels(targets: np.ndarray | None) -> Tensor | None:
    return None if targets is None else torch.from_numpy(np.asarray(targets, dtype=np.float64))


class SizeBuckets:
    """Random batches of molecules of like size: the padding costs n^2, so size matters as much as chance.

    Every epoch shuffles all molecules, sorts runs of `pool` batches by size, cuts them into batches and shuffles
    those. The same seed gives the same batches, epoch by epoch.

    Args:
        sizes: atoms, or tokens, of each molecule.
        batch_size: molecules in a batch; the last may have fewer.
        seed: of the shuffles.
        pool: batches sorted together; 1 leaves the batches to chance alone.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int, pool: int = 8):
        self.sizes, self.batch_size, self.seed, self.pool = np.asarray(sizes), batch_size, seed, pool
        self.epoch = 0

    def __len__(self) -> int:
        return -(-len(self.sizes) // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Called by the training loop before each epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(len(self.sizes))
        step = self.batch_size * self.pool
        runs = [order[i : i + step] for i in range(0, len(order), step)]
        order = np.concatenate([run[np.argsort(self.sizes[run], kind="stable")] for run in runs])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for i in rng.permutation(len(batches)):
            yield batches[i].tolist()


def batches_by_size(sizes: Sequence[int], batch_size: int) -> list[np.ndarray]:
    """Which molecules to predict together: indices sorted by size, cut into batches."""
    order = np.argsort(np.asarray(sizes), kind="stable")
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
