"""Attention as an attribution: the attention that each atom receives, in the last layer or by rollout."""

import numpy as np
import torch

from molattn.explain.attention_map import AttentionMap
from molattn.explain.terms import MoleculeOrBatch, Terms, as_batch
from molattn.models.graph_model import GraphModel


def received(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
    """The attention that each atom receives in the last layer, the mean over heads and receivers.

    It is the same for all outputs.
    """
    found = _map(model, molecule)
    return Terms(found.received()[: found.num_atoms].astype(np.float64), in_units=False)


def rollout(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
    """Attention rollout, the mean over receivers: see `AttentionMap.rollout`."""
    found = _map(model, molecule)
    return Terms(found.rollout().mean(0)[: found.num_atoms], in_units=False)


def _map(model: GraphModel, molecule: MoleculeOrBatch) -> AttentionMap:
    batch = as_batch(model, molecule)
    with torch.inference_mode():
        weights = model.attention(batch)[1][0].cpu().numpy()
    # Only the weights of this map are used.
    atoms = ("",) * batch.mask.shape[1]
    return AttentionMap("", atoms, weights, {}, {}, virtual=model.virtual_labels)
