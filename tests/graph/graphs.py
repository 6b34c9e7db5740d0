"""Random graphs for the tests, in float64."""

from dataclasses import fields

import torch
from torch import nn

from molattn.graph import DenseGraph

F64 = torch.float64
NODE_DIM, EDGE_DIM, GLOBAL_DIM = 8, 3, 5


def random_graphs(sizes, *, edges=True, globals_=True, density=None, seed=0, requires_grad=False):
    """Graphs of these sizes, padded to the largest with garbage; complete, or sparse where a density is given.

    In a sparse one, no edge reaches the first node of the first graph.
    """
    g = torch.Generator().manual_seed(seed)
    b, n = len(sizes), max(sizes)
    real = torch.arange(n) < torch.tensor(sizes).unsqueeze(-1)
    v = torch.randn(b, n, NODE_DIM, generator=g, dtype=F64)
    e = torch.randn(b, n, n, EDGE_DIM, generator=g, dtype=F64)
    u = torch.randn(b, GLOBAL_DIM, generator=g, dtype=F64)
    pairs = real.unsqueeze(-1) & real.unsqueeze(-2)
    v[~real] = 1e3
    e[~pairs] = -1e3
    edge_mask = None
    if density is not None:
        edge_mask = pairs & (torch.rand(b, n, n, generator=g) < density)
        edge_mask[0, 0] = False
    v.requires_grad_(requires_grad), e.requires_grad_(requires_grad), u.requires_grad_(requires_grad)
    return DenseGraph(v, real, e if edges else None, u if globals_ else None, edge_mask)


def inputs_of(graph):
    """The tensors of a graph that want gradients."""
    values = (getattr(graph, field.name) for field in fields(graph))
    return [x for x in values if isinstance(x, torch.Tensor) and x.requires_grad]


def double(module, seed=0):
    """The module in float64, no parameter left at the zeros or ones it starts from."""
    torch.manual_seed(seed)
    for p in module.parameters():
        nn.init.normal_(p, std=0.5)
    return module.to(F64)
