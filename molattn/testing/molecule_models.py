"""Molecule models as test cases, and the molecules to test them on."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.chem import Conformers
from molattn.testing.case import TOLERANCE, Outputs, assert_same, functional

SMILES = ("C", "CCO", "c1ccccc1O", "[Na+].[Cl-]", "CC(=O)Nc1ccc(O)cc1", "N#Cc1ccccc1", "O=C(O)C1CC1")
"""The molecules of the test batch, among them a single atom, two fragments, and rings with several shortest paths."""


@dataclass(frozen=True, eq=False)
class MoleculeModelCase:
    """A model with a batch of molecules.

    Attributes:
        module: the model.
        molecules: the molecules whose outputs are checked.
        descriptors: (molecules, k), the descriptors of each; k is 0 for a model without descriptors.
        extra: other molecules in the batch, which add padding if they are larger.
        garbage: whether the padding holds values other than zero.
    """

    module: Any
    molecules: tuple[Any, ...]
    descriptors: np.ndarray
    extra: tuple[Any, ...] = ()
    garbage: bool = False

    @property
    def dtype(self) -> torch.dtype:
        return next(self.module.parameters()).dtype

    @property
    def sizes(self) -> list[int]:
        return [m.size for m in self.molecules]

    def outputs(self) -> Outputs:
        batch, b = self._batch(), len(self.molecules)
        with torch.no_grad():
            outputs = self.module(batch)
            with_attention, weights = self.module.attention(batch)
        message = "the output of `attention` is not that of `forward`"
        assert_same([with_attention], [outputs], TOLERANCE[self.dtype], message)
        weights = weights.flatten(1, 2)[:b]
        n = weights.shape[-1]
        widest = max(m.size for m in (*self.molecules, *self.extra))
        # A virtual node comes after the others.
        mask = torch.stack([(torch.arange(n) < m.size) | (torch.arange(n) >= widest) for m in self.molecules])
        return Outputs(None, outputs[:b], weights, mask, None)

    def _batch(self) -> Any:
        kwargs = {}
        if self.descriptors.size:
            zeros = np.zeros((len(self.extra), self.descriptors.shape[1]))
            kwargs = {"descriptors": np.concatenate([self.descriptors, zeros])}
        batch = self.module.collate([*self.molecules, *self.extra], **kwargs)
        if self.garbage:
            padding = ~batch.mask
            pairs = padding.unsqueeze(-1) | padding.unsqueeze(-2)
            filled = {
                "atom_codes": batch.atom_codes.masked_fill(padding.unsqueeze(-1), 1),
                "bond_codes": batch.bond_codes.masked_fill(pairs, 3),
                "path_lengths": batch.path_lengths.masked_fill(pairs, 255),
            }
            if getattr(batch, "distances", None) is not None:
                filled["distances"] = batch.distances.masked_fill(pairs, 1e3)
            batch = replace(batch, **filled)
        return batch

    def permuted(self, orders: Sequence[Sequence[int]]) -> "MoleculeModelCase | None":
        if not all(hasattr(m, "permute") for m in self.molecules):
            return None
        permuted = (m.permute(order) for m, order in zip(self.molecules, orders, strict=True))
        return replace(self, molecules=tuple(permuted))

    def single(self, index: int) -> "MoleculeModelCase":
        one = slice(index, index + 1)
        return replace(self, molecules=self.molecules[one], descriptors=self.descriptors[one])

    def with_more_padding(self, amount: int) -> "MoleculeModelCase":
        longer = read_molecules(self.module, ["C" * (max(self.sizes) + amount)])
        return replace(self, extra=longer)

    def with_garbage_padding(self) -> "MoleculeModelCase | None":
        return replace(self, garbage=True) if hasattr(self._batch(), "bond_codes") else None

    def other_forms(self) -> dict[str, Tensor]:
        return {}

    def to_dtype(self, dtype: torch.dtype) -> "MoleculeModelCase":
        return replace(self, module=deepcopy(self.module).to(dtype))

    def gradcheck_function(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        batch = self._batch()
        return functional(self.module, lambda: self.module(batch), [])


def molecule_model_case(model: Any) -> MoleculeModelCase:
    """`model` with the molecules `SMILES`, and with random descriptors if it reads any."""
    width = getattr(model, "num_descriptors", 0)
    descriptors = np.random.default_rng(0).normal(size=(len(SMILES), width))
    return MoleculeModelCase(model, read_molecules(model, SMILES), descriptors)


def read_molecules(model: Any, smiles: Sequence[str]) -> tuple[Any, ...]:
    conformers = Conformers() if model.config.needs_3d else None
    molecules = tuple(model.read(smiles, add_hs=False, max_atoms=1000, conformers=conformers))
    for molecule in molecules:
        if isinstance(molecule, Exception):
            raise molecule
    return molecules
