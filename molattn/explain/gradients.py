"""Methods that follow gradients: integrated over the atoms' vectors, or of the attention weights."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.explain.terms import Subject, Terms, batch_of, repeated
from molattn.models.graph_model import GraphModel

TOLERANCE = 1e-3
"""How far integrated gradients may be from adding up: in the units of the output, or its share above 1."""

_POINTS = (32, 64, 128, 256, 512)


def integrated_gradients(model: GraphModel, molecule: Subject, output: int) -> Terms:
    """The gradient with respect to each atom's vector, integrated from a molecule of mean atoms to this one.

    g_i = (v_i - v') . integral_0^1 df(v' + t (v - v')) / dv_i dt          sum_i g_i = f(v) - f(v')

    v_i is the embedding of atom i, and v' the mean of those of the molecule: the constant is the answer for atoms that
    are all alike, with the bonds, path lengths, descriptors and virtual node of this molecule, which stay as they are.
    The integral is a Gauss-Legendre sum of 32 points, and of twice as many, up to 512, until the g_i add up within
    `TOLERANCE`; where they never do, the terms do not say that they add up.

    Source: Sundararajan, Taly & Yan 2017, arXiv:1703.01365; computed by captum.
    """
    from captum.attr import IntegratedGradients  # half a second, and only here

    batch = batch_of(model, molecule)
    n, first = batch.mask.shape[1], len(model.virtual_labels)
    with torch.no_grad():
        graph = model.embed(batch)
    v, base = graph.v, graph.v.clone()
    base[:, first:] = v[:, first:].mean(1, keepdim=True)

    def answer(v: Tensor) -> Tensor:
        return model.forward_embedded(repeated(graph, len(v)).replace(v=v), repeated(batch, len(v)))[:, output]

    with torch.no_grad():
        start, end = answer(torch.cat([base, v])).tolist()
    total, values = end - start, np.zeros(n)
    within = TOLERANCE * max(1.0, abs(end))
    for points in _POINTS:
        found = IntegratedGradients(answer).attribute(v, base, n_steps=points, internal_batch_size=_POINTS[0])
        values = found[0, first:].sum(-1).detach().cpu().numpy().astype(np.float64)
        if abs(values.sum() - total) <= within:
            return Terms(values, start, adds_up=True)
    return Terms(values, start)


def grad_attention(model: GraphModel, molecule: Subject, output: int) -> Terms:
    """Attention where it matters: each weight times the answer's gradient with respect to it, rolled out over layers.

    A_l = mean_h relu( dy/dW_lh * W_lh )          R_0 = I,   R_l = R_{l-1} + A_l R_{l-1}
    r_j = mean_i (R_L - I)_ij                      i over what the readout reads

    What raises the answer counts, and nothing is negative.

    Source: the rule for self-attention of Chefer, Gur & Wolf 2021, arXiv:2103.15679, equations 5 and 6.
    """
    batch = batch_of(model, molecule)
    graph: Any = model.embed(batch)
    # In the literal form the answer is computed from the weights; the fused kernel works them out beside it.
    weights, places = [], []
    graph = graph.replace(v=graph.v.detach().requires_grad_())
    for block in model.blocks:
        graph, messages = block.literal(graph)  # pyright: ignore[reportCallIssue]
        weights.append(messages.weights)
        places.append((messages.graph.receiver, messages.graph.sender))
    out = model.forward_head(graph.to_dense(), batch)[0, output]
    slopes = torch.autograd.grad(out, weights)
    m = graph.v.shape[0]
    relevance = torch.eye(m, dtype=torch.float64, device=out.device)
    for (receiver, sender), w, slope in zip(places, weights, slopes, strict=True):
        a = relevance.new_zeros(m, m)
        a[receiver, sender] = (w * slope).detach().clamp_min(0.0).mean(1).to(a.dtype)
        relevance = relevance + a @ relevance
    found = relevance - torch.eye(m, dtype=relevance.dtype, device=out.device)
    first = len(model.virtual_labels)
    read = found[0] if model.readout_name == "virtual-node" else found.mean(0)
    return Terms(read[first:].cpu().numpy(), in_units=False)
