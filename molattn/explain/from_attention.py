"""Attention itself as an attribution: what each atom received, directly or through the layers."""

import numpy as np
import torch

from molattn.explain.attention_map import AttentionMap
from molattn.explain.terms import Subject, Terms, batch_of
from molattn.models.graph_model import GraphModel


def received(model: GraphModel, molecule: Subject, output: int) -> Terms:  # noqa: ARG001
    """The attention that each atom receives in the last layer, the mean of its heads and of the atoms that attend.

    It is the same for every output: the weights do not know which one is asked for.
    """
    found = _map(model, molecule)
    return Terms(found.received()[: found.num_atoms].astype(np.float64), in_units=False)


def rolled_out(model: GraphModel, molecule: Subject, output: int) -> Terms:  # noqa: ARG001
    """Attention rollout, the mean over the atoms that attend: see `AttentionMap.rollout`."""
    found = _map(model, molecule)
    return Terms(found.rollout().mean(0)[: found.num_atoms], in_units=False)


def _map(model: GraphModel, molecule: Subject) -> AttentionMap:
    batch = batch_of(model, molecule)
    with torch.inference_mode():
        weights = model.attention(batch)[1][0].cpu().numpy()
    # Nobody sees this map: its weights are all that is asked of it.
    atoms = ("",) * batch.mask.shape[1]
    return AttentionMap("", atoms, weights, {}, {}, virtual=model.virtual_labels)
