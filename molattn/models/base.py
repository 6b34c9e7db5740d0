"""The base class of molecule models, and the model classes by kind."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molattn.attention.unmodified import are_unmodified
from molattn.chem import DEFAULT_READ_OPTIONS, Progress, ReadOptions
from molattn.data.store.batches import Batch
from molattn.data.store.packing import Packing
from molattn.errors import SmilesError
from molattn.models.batching import rows_per_molecule
from molattn.models.config import ModelConfig
from molattn.models.molecule import Molecule

if hasattr(os, "register_at_fork"):
    # A forked process has one thread, and torch would wait forever for the threads of its parent. The DataLoader
    # workers of torch also set one thread.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class MoleculeModel(nn.Module, ABC):
    """A model with attention between the positions of a molecule, and outputs for each molecule or each atom.

    It defines how molecules are read and collated, so that training, prediction and files on disk are the same for all
    models.

    Args:
        config: its configuration.
        num_outputs: the number of outputs for each molecule or atom.
        atom_level: whether the targets are atom-level.
        num_descriptors: k.

    Attributes:
        config: its configuration.
        head: the final linear layer, from the readout followed by the descriptors, or from the vector of an atom.
        num_descriptors: k, the number of descriptors of each molecule that are appended to its readout.
        supports_atom_level: whether models of this kind support atom-level targets.
        atom_level: whether this model has atom-level targets.
        virtual_labels: labels of the virtual nodes, whose rows and columns of attention follow those of the positions.
        rows_sum_to_one: whether the attention weights of a position sum to 1.
        position_type: whether the positions of a molecule are atoms or tokens.
        precision: one of `molattn.models.device.PRECISIONS`, of predictions and embeddings.
    """

    config: ModelConfig
    head: nn.Linear
    num_descriptors: int
    supports_atom_level: ClassVar[bool] = False
    atom_level: bool = False
    virtual_labels: tuple[str, ...] = ()
    rows_sum_to_one: bool = True
    position_type: Literal["atoms", "tokens"] = "atoms"
    precision: str = "32-true"

    @abstractmethod
    def __init__(self, config: Any, num_outputs: int = 1, atom_level: bool = False, num_descriptors: int = 0):
        super().__init__()
        if atom_level and not self.supports_atom_level:
            raise ValueError(f"the model {config.kind!r} has no atom-level targets: choose the model 'graph'")
        if atom_level and num_descriptors:
            raise ValueError(
                "descriptors apply only to molecule-level targets, and these are atom-level: leave them out"
            )
        self.atom_level, self.num_descriptors = atom_level, num_descriptors

    @staticmethod
    @abstractmethod
    def read(
        smiles: Iterable[object],
        options: ReadOptions = DEFAULT_READ_OPTIONS,
        num_workers: int = 0,
        progress: Progress | None = None,
    ) -> Sequence[Molecule | SmilesError]:
        """The molecules of many SMILES, in order; an error in place of each that cannot be read.

        Args:
            smiles, num_workers, progress: as for `molattn.chem.featurize`.
            options: how each is read.

        Raises:
            UsageError: conformers for a model that reads no distances.
            ConformerError: a molecule has no geometry, and the policy is "stop".
        """

    @staticmethod
    @abstractmethod
    def reader(options: ReadOptions = DEFAULT_READ_OPTIONS) -> Callable[[object], Molecule]:
        """A picklable function from one SMILES to its molecule, as `read` returns it; it raises SmilesError.

        Args:
            options: how it is read.

        Raises:
            UsageError: conformers for a model that reads no distances.
        """

    @staticmethod
    @abstractmethod
    def packing(*, conformers: bool = False) -> Packing:
        """How its molecules are packed in a store; `conformers` is whether they have distances."""

    @staticmethod
    @abstractmethod
    def collate(
        molecules: Sequence[Any], targets: np.ndarray | None = None, descriptors: np.ndarray | None = None
    ) -> Batch:
        """One batch of molecules, in order: targets (b, T), or (N, T) of atoms; standardized descriptors (b, k)."""

    @staticmethod
    @abstractmethod
    def vocabulary() -> dict[str, Any]:
        """The meaning of every code in the output of `read`; a saved model with another vocabulary is not loaded."""

    @abstractmethod
    def forward(self, batch: Any) -> Tensor:
        """(b, outputs) raw outputs, such as standardized values or logits; see `Task.decode`.

        With atom-level targets, (N, outputs): a row for each atom of the batch, molecule by molecule, in order.
        """

    @abstractmethod
    def attention(self, batch: Any) -> tuple[Tensor, Tensor]:
        """The result of `forward`, and the attention weights of every layer and head, (b, layers, heads, n, n)."""

    @abstractmethod
    def embeddings(self, batch: Any) -> Tensor:
        """The embedding of each molecule followed by its descriptors, (b, d + k): the input of the head."""

    def append_descriptors(self, molecules: Tensor, batch: Batch) -> Tensor:
        """[r_b, z_b], (b, d + k): the readout of each molecule, (b, d), followed by its standardized descriptors.

        Raises:
            ValueError: the batch has another number of descriptors than the model reads.
        """
        z = batch.descriptors
        k = 0 if z is None else z.shape[1]
        if k != self.num_descriptors:
            raise ValueError(f"the model reads {self.num_descriptors} descriptors for each molecule, not {k}")
        return molecules if z is None else torch.cat([molecules, z.to(molecules.dtype)], dim=-1)

    def slow_reason(self) -> str:
        """Why this model runs slower on the CPU than it could; empty if it does not."""
        return ""

    def initialize_bias(self, bias: np.ndarray) -> None:
        """Initialize the bias of the head, before training, with `bias`, (T,): the standardized value of a target of 0.

        Only models whose output is a sum over positions do so; others ignore it.
        """

    def rows_per_molecule(self, molecules: Sequence[Molecule]) -> np.ndarray:
        """(n,) the number of rows of the output for each molecule: one, or one for each atom."""
        return rows_per_molecule(molecules, self.atom_level)

    def apply_head(self, molecules: Tensor) -> Tensor:
        """The head, (b, d + k) -> (b, outputs), in the dtype of `molecules`; see `to_float64`.

        A head with a hook, or that was replaced, is called, in its own dtype.
        """
        if not are_unmodified(nn.Linear, self.head):
            # A head without parameters, such as a quantized one, takes what the other layers compute with.
            dtype = next(p.dtype for p in chain(self.head.parameters(), self.parameters()))
            return self.head(molecules.to(dtype)).to(molecules.dtype)
        return F.linear(molecules, self.head.weight.to(molecules.dtype), self.head.bias.to(molecules.dtype))

    def check_linear_head(self) -> None:
        """Checks that the output is linear in the input of the head, so that it has terms.

        Raises:
            ValueError: the head was replaced, or has a hook.
        """
        if not are_unmodified(nn.Linear, self.head):
            kind = type(self.head).__name__
            raise ValueError(f"the head, a {kind}, was replaced or has a hook: the output has no terms")

    def descriptor_terms(self, batch: Batch) -> Tensor:
        """The contribution W_j z_j of each descriptor, (b, k, outputs): head([r, z]) = W_r r + sum_j W_j z_j + bias.

        Raises:
            ValueError: the head was replaced, or has a hook.
        """
        self.check_linear_head()
        d = self.head.in_features - self.num_descriptors
        if batch.descriptors is None:
            return self.head.weight.new_zeros(len(batch), 0, self.head.out_features)
        return to_float64(batch.descriptors).unsqueeze(-1) * to_float64(self.head.weight[:, d:]).T


def to_float64(x: Tensor) -> Tensor:
    """`x` in float64 if the device supports it, for the sum over positions and the head.

    These are a few thousand operations, so float64 costs almost nothing. The order of the atoms and the rest of the
    batch then change the output by less than the resolution of float32.
    """
    return x if x.device.type == "mps" else x.to(torch.float64)


MODELS = {
    "graph": "molattn.models.graph_model:GraphModel",
    "smiles-transformer": "molattn.models.smiles_model:SmilesModel",
}
"""The class of each kind of model, "module:NAME", so that unused kinds are not imported."""


def model_class(kind: str) -> type[MoleculeModel]:
    """The class of the models of a kind, imported."""
    module, _, name = MODELS[kind].partition(":")
    return getattr(import_module(module), name)


def build_model(
    config: ModelConfig, num_outputs: int, atom_level: bool = False, num_descriptors: int = 0
) -> MoleculeModel:
    """The untrained model that `config` describes; see `MoleculeModel`.

    Raises:
        ValueError: inconsistent settings.
    """
    return model_class(config.kind)(config, num_outputs, atom_level, num_descriptors)
