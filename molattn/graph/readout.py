"""Readouts: graph-level vectors from the nodes, or from u. `READOUTS` lists them by name.

Each takes the nodes, (n, d) or (b, n, d), and their graph, and returns (b, d). It computes in the precision of the
nodes.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention import attention_weights
from molattn.graph.aggregate import max_nodes, mean_nodes, sum_nodes
from molattn.graph.graph import AnyGraph, DenseGraph, Graph

Readout = Callable[[Tensor, AnyGraph], Tensor]


def global_features(v: Tensor, graph: AnyGraph) -> Float[Tensor, "b d_u"]:  # noqa: ARG001
    """The graph features u alone.

    Raises:
        ValueError: a graph without u.
    """
    if graph.u is None:
        raise ValueError("the readout 'global' reads u, and the graph has none")
    return graph.u


def virtual_node(v: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """The first node of each graph, which is the one that `VirtualNode` adds.

    Raises:
        TypeError: an edge list, which does not specify which node is the first.
    """
    if not isinstance(graph, DenseGraph):
        raise TypeError("the readout 'virtual-node' takes dense graphs")
    return v[:, 0]


class AttentionReadout(nn.Module):
    """The average of the nodes, weighted by attention to a learned query; the query is updated with it and reused.

    r_t = sum_i a_i x_i,    a_i = softmax_i( q_t . x_i / sqrt(d) ),    q_{t+1} = q_t + r_t

    Similar to Set2Set (Vinyals et al. 2016, arXiv:1511.06391), in which q is the state of an LSTM.

    Args:
        dim: d.
        steps: how many times the query is applied.
    """

    def __init__(self, dim: int, steps: int = 3):
        super().__init__()
        self.steps = steps
        self.query = nn.Parameter(torch.randn(dim))

    def forward(self, x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
        """(b, d)."""
        is_edge_list = isinstance(graph, Graph)
        layout = graph.readout_layout() if is_edge_list else graph.node_mask.unsqueeze(-2)
        b = graph.num_graphs if is_edge_list else len(graph.node_mask)
        q = self.query.to(x.dtype).expand(b, -1)
        read = torch.zeros_like(q)
        for _ in range(self.steps):
            weights = attention_weights(q if is_edge_list else q.unsqueeze(1), x, layout)
            if is_edge_list:
                read = graph.sum_nodes(weights.unsqueeze(-1) * x)
            else:
                read = (weights @ x.masked_fill(~graph.node_mask.unsqueeze(-1), 0.0)).squeeze(1)
            q = q + read
        return read


class AdditiveReadout(nn.Module):
    """A sum of one term per node, so that predictions can be attributed to nodes: see `terms`.

    r = sum_i t_i,    t_i = gelu(W x_i + b)

    Args:
        dim: d.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def terms(self, x: Float[Tensor, "*nodes d"]) -> Float[Tensor, "*nodes d"]:
        """t_i of every node."""
        return F.gelu(F.linear(x, self.w.weight.to(x.dtype), self.w.bias.to(x.dtype)))

    def forward(self, x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
        """(b, d)."""
        return graph.sum_nodes(self.terms(x))


READOUTS: dict[str, Callable[[int], Readout]] = {
    "mean": lambda dim: mean_nodes,  # noqa: ARG005
    "sum": lambda dim: sum_nodes,  # noqa: ARG005
    "max": lambda dim: max_nodes,  # noqa: ARG005
    "attention": AttentionReadout,
    "additive": AdditiveReadout,
    "global": lambda dim: global_features,  # noqa: ARG005
    "virtual-node": lambda dim: virtual_node,  # noqa: ARG005
}
