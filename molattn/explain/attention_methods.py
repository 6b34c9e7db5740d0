"""Attribution methods that read attention weights: alone, through the layers, or with the gradients of the output."""

from typing import Any

import numpy as np
import torch

from molattn.explain.attention_map import AttentionMap
from molattn.explain.terms import MoleculeOrBatch, Terms, as_batch
from molattn.models.graph_model import GraphModel


def received_attention(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
    """The attention that each atom receives in the last layer, the mean over heads and receivers.

    It is the same for all outputs.
    """
    found = _map(model, molecule)
    return Terms(found.received_attention()[: found.num_atoms].astype(np.float64), has_unit=False)


def rollout(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
    """Attention rollout, the mean over receivers: see `AttentionMap.rollout`."""
    found = _map(model, molecule)
    return Terms(found.rollout().mean(0)[: found.num_atoms], has_unit=False)


def _map(model: GraphModel, molecule: MoleculeOrBatch) -> AttentionMap:
    batch = as_batch(model, molecule)
    with torch.inference_mode():
        weights = model.attention(batch)[1][0].cpu().numpy()
    # Only the weights of this map are used.
    atoms = ("",) * batch.mask.shape[1]
    return AttentionMap("", atoms, weights, {}, {}, virtual=model.virtual_labels)


def grad_attention(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """Attention weights times the gradient of the output with respect to them, rolled out over the layers.

    A_l = mean_h relu( dy/dW_lh * W_lh )          R_0 = I,   R_l = R_{l-1} + A_l R_{l-1}
    r_j = mean_i (R_L - I)_ij                      i over the nodes that the readout reads

    Only positive products count, so that no attribution is negative.

    Source: the rule for self-attention of Chefer, Gur & Wolf 2021, arXiv:2103.15679, equations 5 and 6.
    """
    batch = as_batch(model, molecule)
    graph: Any = model.input_graph(batch)
    # The materialized form computes the output from the weights; the fused kernel computes them separately.
    weights, edges = [], []
    graph = graph.replace(v=graph.v.detach().requires_grad_())
    for block in model.blocks:
        graph, messages = block.materialize(graph)  # pyright: ignore[reportCallIssue]
        weights.append(messages.weights)
        edges.append((messages.graph.receiver, messages.graph.sender))
    out = model.forward_head(graph.to_dense(), batch)[0, output]
    gradients = torch.autograd.grad(out, weights)
    m = graph.v.shape[0]
    relevance = torch.eye(m, dtype=torch.float64, device=out.device)
    for (receiver, sender), w, gradient in zip(edges, weights, gradients, strict=True):
        a = relevance.new_zeros(m, m)
        a[receiver, sender] = (w * gradient).detach().clamp_min(0.0).mean(1).to(a.dtype)
        relevance = relevance + a @ relevance
    flow = relevance - torch.eye(m, dtype=relevance.dtype, device=out.device)
    first = len(model.virtual_labels)
    received = flow[0] if model.readout_name == "virtual-node" else flow.mean(0)
    return Terms(received[first:].cpu().numpy(), has_unit=False)
