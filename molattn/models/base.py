"""What every model of molecules offers, whatever it makes of a SMILES."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molattn.chem import Conformers, Progress
from molattn.data.store.batches import Batch
from molattn.data.store.molecule_store import sizes_of
from molattn.data.store.packing import Packing
from molattn.errors import SmilesError
from molattn.models.config import ModelConfig

if hasattr(os, "register_at_fork"):
    # A forked process has one thread; torch would wait for ever for those that its parent had. torch's own workers do
    # the same.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


@runtime_checkable
class Molecule(Protocol):
    """What a model makes of one SMILES: a graph of atoms, or a row of tokens."""

    @property
    def smiles(self) -> str:
        """As it was given."""
        ...

    @property
    def encoded_smiles(self) -> str:
        """The SMILES whose atoms or tokens are encoded, in their order."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """What its places (atoms or tokens) are called, in order."""
        ...

    @property
    def size(self) -> int:
        """How many places it has."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the model cannot see of it, a sentence each."""
        ...


class MoleculeModel(nn.Module, ABC):
    """A model from molecules, or from their atoms, to T numbers, with attention between the places of a molecule.

    It says how molecules are read and put into a batch, so that training, prediction and the file on disk are the
    same for all models.

    Attributes:
        config: what it is made of.
        head: the last, linear map, from the readout with the descriptors behind it, or from an atom, to the T numbers.
        num_descriptors: k, the numbers that stand beside each molecule and join its readout.
        answers_atoms: whether models of this kind can answer for atoms.
        of_atoms: whether this one does.
        virtual_labels: what the rows and columns of the attention are called that stand behind those of the places.
        rows_sum_to_one: whether the weights of a place do.
        places: what the places of a molecule are.
    """

    config: ModelConfig
    head: nn.Linear
    num_descriptors: int
    answers_atoms: ClassVar[bool] = False
    of_atoms: bool = False
    virtual_labels: tuple[str, ...] = ()
    rows_sum_to_one: bool = True
    places: Literal["atoms", "tokens"] = "atoms"

    @abstractmethod
    def __init__(self, config: Any, num_targets: int = 1, of_atoms: bool = False, num_descriptors: int = 0):
        super().__init__()
        if of_atoms and not self.answers_atoms:
            raise ValueError(f"the model {config.kind!r} answers for molecules, not atoms: choose the model 'graph'")
        if of_atoms and num_descriptors:
            raise ValueError("descriptors stand beside molecules, and the targets are of atoms: leave descriptors out")
        self.of_atoms, self.num_descriptors = of_atoms, num_descriptors

    @staticmethod
    @abstractmethod
    def read(
        smiles: Iterable[object],
        *,
        add_hs: bool,
        max_atoms: int,
        num_workers: int = 0,
        conformers: Conformers | None = None,
        progress: Progress | None = None,
        standardize: str = "",
    ) -> Sequence[Molecule | SmilesError]:
        """The molecules of many SMILES, in order; an error in the place of one that cannot be read.

        Args:
            smiles, add_hs, max_atoms, num_workers, progress, standardize: as for `molattn.chem.featurize`.
            conformers: how to make distances; None makes none.

        Raises:
            UsageError: conformers are asked of a model that reads no distances.
            ConformerError: a molecule has no geometry, and the policy is "stop".
        """

    @staticmethod
    @abstractmethod
    def reader(
        *, add_hs: bool, max_atoms: int, conformers: Conformers | None = None, standardize: str = ""
    ) -> Callable[[object], Molecule]:
        """From one SMILES to what `read` makes of it, or a SmilesError; pickle can carry it to other processes.

        Args:
            add_hs, max_atoms, conformers, standardize: as for `read`.

        Raises:
            UsageError: conformers are asked of a model that reads no distances.
        """

    @staticmethod
    @abstractmethod
    def packing(*, conformers: bool = False) -> Packing:
        """How the molecules that it reads lie in a store; `conformers` says whether they have distances."""

    @staticmethod
    @abstractmethod
    def collate(
        molecules: Sequence[Any], targets: np.ndarray | None = None, descriptors: np.ndarray | None = None
    ) -> Batch:
        """One batch of molecules, in order: targets (b, T), or (N, T) of atoms; standardised descriptors (b, k)."""

    @staticmethod
    @abstractmethod
    def vocabulary() -> dict[str, Any]:
        """What every code means that `read` gives; a model on disk is refused where it differs."""

    @abstractmethod
    def forward(self, batch: Any) -> Tensor:
        """(b, T), in the units that the model was trained in.

        A model of atoms gives (N, T): a row for each of the N atoms of the batch, molecule by molecule, in their order.
        """

    @abstractmethod
    def attention(self, batch: Any) -> tuple[Tensor, Tensor]:
        """What `forward` returns, and the weights of every layer and head, (b, layers, heads, n, n)."""

    @abstractmethod
    def fingerprint(self, batch: Any) -> Tensor:
        """What the head reads, (b, d + k): each molecule as a vector, its descriptors last."""

    def join(self, molecules: Tensor, batch: Batch) -> Tensor:
        """[r_b, z_b], (b, d + k): the readout of each molecule, (b, d), with its standardised descriptors behind it.

        Raises:
            ValueError: the batch has other descriptors than the model reads.
        """
        z = batch.descriptors
        found = 0 if z is None else z.shape[1]
        if found != self.num_descriptors:
            raise ValueError(f"the model reads {self.num_descriptors} descriptors beside each molecule, not {found}")
        return molecules if z is None else torch.cat([molecules, z.to(molecules.dtype)], dim=-1)

    def why_slow(self) -> str:
        """Why this model runs slower on the CPU than its kind does elsewhere, in words; empty where it does not."""
        return ""

    def start_from(self, nothing: np.ndarray) -> None:  # noqa: ARG002
        """Before training: `nothing`, (T,) standardised, is what the targets are where there is no molecule at all.

        A model whose answer is a sum over places begins with it; to others it says nothing.
        """
        return

    def counts(self, molecules: Sequence[Molecule]) -> np.ndarray:
        """(n,) how many rows of what the model puts out are about each molecule: one, or one for each atom."""
        return sizes_of(molecules) if self.of_atoms else np.ones(len(molecules), dtype=np.int64)

    def answer(self, molecules: Tensor) -> Tensor:
        """The head, (b, d + k) -> (b, T), in the precision of `molecules`, which `wide` widens."""
        return F.linear(molecules, self.head.weight.to(molecules.dtype), self.head.bias.to(molecules.dtype))

    def descriptor_terms(self, batch: Batch) -> Tensor:
        """What each descriptor adds to the answer, (b, k, T): head(r, z) = W_r r + sum_k W_k z_k + bias."""
        d = self.head.in_features - self.num_descriptors
        if batch.descriptors is None:
            return self.head.weight.new_zeros(len(batch), 0, self.head.out_features)
        return wide(batch.descriptors).unsqueeze(-1) * wide(self.head.weight[:, d:]).T


def wide(x: Tensor) -> Tensor:
    """`x` in float64 where the device has it, for the sum over places and the head.

    These are a few thousand operations: in float64 they cost nothing, and the order of the atoms and the company of a
    molecule in its batch then move the answer by less than float32 could even express.
    """
    return x if x.device.type == "mps" else x.to(torch.float64)
