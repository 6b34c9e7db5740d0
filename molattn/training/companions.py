"""What a model learns beside its targets, while it is trained and no longer: numbers that RDKit knows, masked atoms."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molattn.chem import ATOM_FEATURES
from molattn.data.store.batches import MoleculeBatch
from molattn.models.base import MoleculeModel
from molattn.models.graph_model import GraphModel


class Companion(nn.Module, ABC):
    """Something else that the same model learns; its own weights are dropped after training."""

    @abstractmethod
    def forward(self, model: Any, batch: Any, beside: Tensor | None) -> tuple[Tensor, Tensor]:
        """What `model` puts out for `batch`, and the loss to add to that of the targets.

        beside: (b, A) numbers of each molecule, `LabelledMolecules.auxiliary_targets`; None where there are none.
        """


class AuxiliaryTargets(Companion):
    """A second head on what the first one reads, x = the readout of each molecule.

    loss = weight * mean over known z of (V x + c - z)^2

    Args:
        model: whose readout it reads.
        num_targets: A, of the standardised numbers z.
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

    def forward(self, model: MoleculeModel, batch: Any, beside: Tensor | None) -> tuple[Tensor, Tensor]:
        if beside is None:
            raise ValueError("auxiliary targets need numbers beside each molecule")
        x = model.fingerprint(batch)
        known = torch.isfinite(beside)
        wrong = (self.head(x.to(self.head.weight.dtype)) - beside.masked_fill(~known, 0.0)).masked_fill(~known, 0.0)
        return model.apply_head(x), self.weight * wrong.square().sum() / known.sum().clamp(min=1)


class MaskedAtoms(Companion):
    """Atoms hidden behind one learned vector m, to be found again from those around them.

    v_i = m for the masked i;   loss = weight * mean over them and over features f of -log softmax(W_f v_i^L + c_f)_code

    The bonds, path lengths and other atoms stay in sight, and what the model answers for its targets is of the molecule
    with holes.

    Args:
        model: which reads atoms.
        share: of atoms to hide, each by chance.
        weight: of the loss.

    Raises:
        ValueError: a model of another kind, or one with a virtual node.

    Source: Hu et al., Strategies for pre-training graph neural networks, ICLR 2020 (https://arxiv.org/abs/1905.12265).
    """

    def __init__(self, model: MoleculeModel, share: float, weight: float):
        super().__init__()
        if not isinstance(model, GraphModel) or model.virtual_node is not None:
            raise ValueError("atoms can be masked in a graph model without a virtual node alone")
        d = model.config.hidden_dim
        self.mask = nn.Parameter(0.02 * torch.randn(d))
        self.codes = nn.Linear(d, sum(f.size for f in ATOM_FEATURES))
        self.share, self.weight = share, weight

    def forward(self, model: GraphModel, batch: MoleculeBatch, beside: Tensor | None) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        masked = (torch.rand(batch.mask.shape, device=batch.mask.device) < self.share) & batch.mask
        graph = model.embed(batch)
        graph = graph.replace(v=torch.where(masked.unsqueeze(-1), self.mask.to(graph.v.dtype), graph.v))
        graph = model.forward_blocks(graph)
        outputs = model.forward_head(graph, batch)
        hidden, true = model.norm(graph.v[masked]), batch.atom_codes[masked].long()
        losses = [
            F.cross_entropy(logits, code, reduction="sum")
            for logits, code in zip(self._of_each(hidden), true.T, strict=True)
        ]
        return outputs, self.weight * torch.stack(losses).sum() / max(1, true.numel())

    def _of_each(self, hidden: Tensor) -> Iterator[Tensor]:
        """The logits of every feature, (masked, codes)."""
        yield from self.codes(hidden).split([f.size for f in ATOM_FEATURES], dim=-1)
