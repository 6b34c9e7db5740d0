"""Auxiliary objectives during training: regression of RDKit's descriptors, and prediction of masked atoms."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molattn.chem import ATOM_FEATURES, FEW_DESCRIPTORS
from molattn.data.store.batches import MoleculeBatch
from molattn.errors import UsageError
from molattn.models.base import MoleculeModel
from molattn.models.graph_model import GraphModel
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.descriptor_targets import compute_descriptors, standardize_targets


class AuxiliaryObjective(nn.Module, ABC):
    """An additional loss during training; its own weights are discarded afterwards."""

    @abstractmethod
    def forward(self, model: Any, batch: Any, auxiliary_targets: Tensor | None) -> tuple[Tensor, Tensor]:
        """The outputs of `model` for `batch`, and the loss to add to that of the targets.

        auxiliary_targets: (b, A) of `LabelledMolecules.auxiliary_targets`; None without.
        """


class AuxiliaryRegression(AuxiliaryObjective):
    """A second linear head on the readout x of each molecule.

    loss = weight * mean over known z of (V x + c - z)^2

    Args:
        model: whose readout is used.
        num_targets: A, the number of standardised targets z.
        weight: of the loss.

    Raises:
        ValueError: a model of atoms, which has no readout.

    Source: Caruana, Machine Learning 1997, 28, 41 (https://doi.org/10.1023/A:1007379606734).
    """

    def __init__(self, model: MoleculeModel, num_targets: int, weight: float):
        super().__init__()
        if model.of_atoms:
            raise ValueError("auxiliary targets are of molecules, and the targets of atoms")
        self.head, self.weight = nn.Linear(model.head.in_features, num_targets), weight

    def forward(self, model: MoleculeModel, batch: Any, auxiliary_targets: Tensor | None) -> tuple[Tensor, Tensor]:
        if auxiliary_targets is None:
            raise ValueError("the auxiliary regression needs auxiliary targets of each molecule")
        x = model.fingerprint(batch)
        known = torch.isfinite(auxiliary_targets)
        z = auxiliary_targets.masked_fill(~known, 0.0)
        error = (self.head(x.to(self.head.weight.dtype)) - z).masked_fill(~known, 0.0)
        return model.apply_head(x), self.weight * error.square().sum() / known.sum().clamp(min=1)


class MaskedAtomPrediction(AuxiliaryObjective):
    """Prediction of the features of masked atoms, whose embeddings are replaced by one learned vector m.

    v_i = m for the masked i;   loss = weight * mean over them and over features f of -log softmax(W_f h_i + c_f)_code
    h_i = norm(v_i^L)

    Bonds, path lengths and the other atoms are not masked. The outputs for the targets are those of the masked
    molecule.

    Args:
        model: a graph model.
        fraction: the probability with which each atom is masked.
        weight: of the loss.

    Raises:
        ValueError: a model of another kind, or one with a virtual node.

    Source: Hu et al., Strategies for pre-training graph neural networks, ICLR 2020 (https://arxiv.org/abs/1905.12265).
    """

    def __init__(self, model: MoleculeModel, fraction: float, weight: float):
        super().__init__()
        if not isinstance(model, GraphModel) or model.virtual_node is not None:
            raise ValueError("atoms can be masked only in a graph model without a virtual node")
        d = model.config.hidden_dim
        self.mask = nn.Parameter(0.02 * torch.randn(d))
        self.codes = nn.Linear(d, sum(f.size for f in ATOM_FEATURES))
        self.fraction, self.weight = fraction, weight

    def forward(
        self,
        model: GraphModel,
        batch: MoleculeBatch,
        auxiliary_targets: Tensor | None,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        masked = (torch.rand(batch.mask.shape, device=batch.mask.device) < self.fraction) & batch.mask
        graph = model.embed(batch)
        graph = graph.replace(v=torch.where(masked.unsqueeze(-1), self.mask.to(graph.v.dtype), graph.v))
        graph = model.forward_blocks(graph)
        outputs = model.forward_head(graph, batch)
        hidden, true = model.norm(graph.v[masked]), batch.atom_codes[masked].long()
        losses = [
            F.cross_entropy(logits, code, reduction="sum")
            for logits, code in zip(self._logits(hidden), true.T, strict=True)
        ]
        return outputs, self.weight * torch.stack(losses).sum() / max(1, true.numel())

    def _logits(self, hidden: Tensor) -> Iterator[Tensor]:
        """The logits of every feature, (masked atoms, codes)."""
        yield from self.codes(hidden).split([f.size for f in ATOM_FEATURES], dim=-1)


def add_auxiliary_targets(
    train: LabelledMolecules, config: TrainingConfig, warn: Callable[[str], None] = lambda _: None
) -> LabelledMolecules:
    """Add `FEW_DESCRIPTORS`, standardised, as auxiliary targets of the training molecules.

    Returns `train` unchanged if `config.auxiliary` is 0 or the descriptors are the same for all molecules.

    Args:
        train: the training molecules.
        config: the weight of the auxiliary loss.
        warn: called with a message if there is nothing to learn.

    Raises:
        UsageError: the targets are of atoms.
    """
    if not config.auxiliary:
        return train
    if train.offsets is not None:
        raise UsageError("auxiliary targets are of molecules, and these targets of atoms: set training.auxiliary=0")
    # The limit on atoms was applied when the molecules were read.
    smiles = [m.smiles for m in train.molecules]
    values = compute_descriptors(smiles, FEW_DESCRIPTORS, config.num_workers, max_atoms=sys.maxsize)
    targets = standardize_targets(FEW_DESCRIPTORS, values, np.arange(len(values)))
    if not targets.names:
        warn("the auxiliary descriptors are the same for all training molecules: there are none to learn")
        return train
    return replace(train, auxiliary_targets=targets.z)


def build_auxiliary_objective(
    model: MoleculeModel, train: LabelledMolecules, config: TrainingConfig
) -> AuxiliaryRegression | None:
    """The auxiliary objective for the auxiliary targets of `train`; None if it has none.

    Args:
        model: before training.
        train: the training molecules, from `add_auxiliary_targets`.
        config: the weight of the auxiliary loss, and the seed of the objective's weights.
    """
    if train.auxiliary_targets is None:
        return None
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return AuxiliaryRegression(model, train.auxiliary_targets.shape[1], config.auxiliary)
