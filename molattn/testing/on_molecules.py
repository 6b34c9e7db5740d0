"""Models of molecules, and the molecules they are tried on."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.chem import Conformers
from molattn.testing.failure import TOLERANCE, assert_same
from molattn.testing.subject import Answers, of_parameters

SMILES = ("C", "CCO", "c1ccccc1O", "[Na+].[Cl-]", "CC(=O)Nc1ccc(O)cc1", "N#Cc1ccccc1", "O=C(O)C1CC1")
"""The molecules that a model of molecules is tried on: one atom, two fragments, rings that tie."""


@dataclass(frozen=True, eq=False)
class OnMolecules:
    """A model of molecules, which has some numbers beside each of them where it reads descriptors."""

    module: Any
    molecules: tuple[Any, ...]
    beside: np.ndarray
    extra: tuple[Any, ...] = ()
    dirty: bool = False

    @property
    def dtype(self) -> torch.dtype:
        return next(self.module.parameters()).dtype

    @property
    def sizes(self) -> list[int]:
        return [m.size for m in self.molecules]

    def answers(self) -> Answers:
        batch, b = self._batch(), len(self.molecules)
        with torch.no_grad():
            outputs = self.module(batch)
            again, weights = self.module.attention(batch)
        assert_same([again], [outputs], TOLERANCE[self.dtype], "asking for the attention changes the answer")
        weights = weights.flatten(1, 2)[:b]
        n = weights.shape[-1]
        widest = max(m.size for m in (*self.molecules, *self.extra))
        # A virtual node stands behind the others.
        mask = torch.stack([(torch.arange(n) < m.size) | (torch.arange(n) >= widest) for m in self.molecules])
        return Answers(None, outputs[:b], weights, mask, None)

    def _batch(self) -> Any:
        rows = {}
        if self.beside.size:
            nothing = np.zeros((len(self.extra), self.beside.shape[1]))
            rows = {"descriptors": np.concatenate([self.beside, nothing])}
        batch = self.module.collate([*self.molecules, *self.extra], **rows)
        if self.dirty:
            nobody = ~batch.mask
            pairs = nobody.unsqueeze(-1) | nobody.unsqueeze(-2)
            filled = {
                "atom_codes": batch.atom_codes.masked_fill(nobody.unsqueeze(-1), 1),
                "bond_codes": batch.bond_codes.masked_fill(pairs, 3),
                "path_lengths": batch.path_lengths.masked_fill(pairs, 255),
            }
            if getattr(batch, "distances", None) is not None:
                filled["distances"] = batch.distances.masked_fill(pairs, 1e3)
            batch = replace(batch, **filled)
        return batch

    def permuted(self, orders: Sequence[Sequence[int]]) -> "OnMolecules | None":
        if not all(hasattr(m, "permute") for m in self.molecules):
            return None
        moved = (m.permute(order) for m, order in zip(self.molecules, orders, strict=True))
        return replace(self, molecules=tuple(moved))

    def alone(self, item: int) -> "OnMolecules":
        one = slice(item, item + 1)
        return replace(self, molecules=self.molecules[one], beside=self.beside[one])

    def padded(self, more: int) -> "OnMolecules":
        (long,) = self._read(["C" * (max(self.sizes) + more)])
        return replace(self, extra=(long,))

    def _read(self, smiles: Sequence[str]) -> tuple[Any, ...]:
        return read_molecules(self.module, smiles)

    def garbage(self) -> "OnMolecules | None":
        return replace(self, dirty=True) if hasattr(self._batch(), "bond_codes") else None

    def other_forms(self) -> dict[str, Tensor]:
        return {}

    def in_precision(self, dtype: torch.dtype) -> "OnMolecules":
        return replace(self, module=deepcopy(self.module).to(dtype))

    def function(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        batch = self._batch()
        return of_parameters(self.module, lambda: self.module(batch), [])


def on_molecules(model: Any) -> OnMolecules:
    """`model` with what it is tried on."""
    width = getattr(model, "num_descriptors", 0)
    return OnMolecules(model, read_molecules(model, SMILES), np.random.default_rng(0).normal(size=(len(SMILES), width)))


def read_molecules(model: Any, smiles: Sequence[str]) -> tuple[Any, ...]:
    conformers = Conformers() if model.config.needs_3d else None
    molecules = tuple(model.read(smiles, add_hs=False, max_atoms=1000, conformers=conformers))
    for molecule in molecules:
        if isinstance(molecule, Exception):
            raise molecule
    return molecules
