"""Attribution by gradients: integrated gradients of the atom embeddings, and gradients of the attention weights."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.explain.terms import MoleculeOrBatch, Terms, as_batch, repeat_batch
from molattn.models.graph_model import GraphModel

TOLERANCE = 1e-3
"""Largest error of the sum of integrated gradients: absolute for outputs up to 1, relative above."""

_STEPS = (32, 64, 128, 256, 512)


def integrated_gradients(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """Integrated gradients of the atom embeddings, from a baseline of mean atoms to the molecule.

    g_i = (v_i - v') . integral_0^1 df(v' + t (v - v')) / dv_i dt          sum_i g_i = f(v) - f(v')

    v_i is the embedding of atom i, and v' the mean embedding of the molecule: the constant is the output for identical
    atoms with the bonds, path lengths, descriptors and virtual node of this molecule. The integral is a Gauss-Legendre
    sum of 32 points, doubled up to 512 until the g_i add up within `TOLERANCE`; if they never do, `adds_up` is False.

    Source: Sundararajan, Taly & Yan 2017, arXiv:1703.01365; computed by captum.
    """
    from captum.attr import IntegratedGradients  # here, because it takes half a second

    batch = as_batch(model, molecule)
    n, first = batch.mask.shape[1], len(model.virtual_labels)
    with torch.no_grad():
        graph = model.embed(batch)
    v, base = graph.v, graph.v.clone()
    base[:, first:] = v[:, first:].mean(1, keepdim=True)

    def forward(v: Tensor) -> Tensor:
        return model.forward_embedded(repeat_batch(graph, len(v)).replace(v=v), repeat_batch(batch, len(v)))[:, output]

    with torch.no_grad():
        start, end = forward(torch.cat([base, v])).tolist()
    total, values = end - start, np.zeros(n)
    within = TOLERANCE * max(1.0, abs(end))
    for steps in _STEPS:
        found = IntegratedGradients(forward).attribute(v, base, n_steps=steps, internal_batch_size=_STEPS[0])
        values = found[0, first:].sum(-1).detach().cpu().numpy().astype(np.float64)
        if abs(values.sum() - total) <= within:
            return Terms(values, start, adds_up=True)
    return Terms(values, start)


def grad_attention(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """Attention weights times the gradient of the output with respect to them, rolled out over the layers.

    A_l = mean_h relu( dy/dW_lh * W_lh )          R_0 = I,   R_l = R_{l-1} + A_l R_{l-1}
    r_j = mean_i (R_L - I)_ij                      i over the nodes that the readout reads

    Only positive products count, so that no attribution is negative.

    Source: the rule for self-attention of Chefer, Gur & Wolf 2021, arXiv:2103.15679, equations 5 and 6.
    """
    batch = as_batch(model, molecule)
    graph: Any = model.embed(batch)
    # The literal form computes the output from the weights; the fused kernel computes them separately.
    weights, edges = [], []
    graph = graph.replace(v=graph.v.detach().requires_grad_())
    for block in model.blocks:
        graph, messages = block.literal(graph)  # pyright: ignore[reportCallIssue]
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
    return Terms(received[first:].cpu().numpy(), in_units=False)
