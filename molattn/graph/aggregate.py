"""Aggregations (rho) of edges into nodes, and of edges and nodes into graph features; and readouts; by name.

A readout takes the nodes, (n, d) or (b, n, d), and their graph, and returns (b, d). It computes in the precision of the
nodes.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention import attention_weights
from molattn.graph.graph import AnyGraph, DenseGraph, Graph
from molattn.graph.messages import Messages

EdgesToNodes = Callable[[Messages], Tensor]
EdgesToGraph = Callable[[Messages], Tensor]
NodesToGraph = Callable[[Tensor, AnyGraph], Tensor]


def sum_edges(messages: Messages) -> Tensor:
    """rho e->v: ebar_i = sum_k e'_k over the edges into node i.

    Shapes: (n, h * d) of an edge list, (b, n, h * d) of a dense graph; zeros for a node without incoming edges.
    Source: equation 14.8 of the book chapter, Battaglia et al. 2018, arXiv:1806.01261.
    """
    return messages.sum()


def mean_edges(messages: Messages) -> Tensor:
    """rho e->v: ebar_i = sum_k e'_k / n_i over the n_i edges into node i; shapes as for `sum_edges`."""
    count = messages.graph.count_edges().clamp_min(1)
    total = messages.sum()
    return total / count.to(total.dtype).unsqueeze(-1)


def max_edges(messages: Messages) -> Tensor:
    """rho e->v: ebar_i = max_k e'_k over the edges into node i, elementwise; shapes as for `sum_edges`.

    Materializes every e'_k.
    """
    return messages.graph.max_edges(messages.per_edge()).flatten(-2)


def sum_all_edges(messages: Messages) -> Float[Tensor, "b hd"]:
    """rho e->u: ebar = sum_k e'_k over the edges of a graph; it grows with the number of edges.

    Shapes: (b, h * d), heads concatenated; zeros for a graph without edges.
    Source: Battaglia et al. 2018, arXiv:1806.01261, algorithm 1.
    """
    return messages.graph.sum_nodes(messages.sum())


def mean_all_edges(messages: Messages) -> Float[Tensor, "b hd"]:
    """rho e->u: ebar = sum_k e'_k / m over the m edges of a graph; shapes as for `sum_all_edges`."""
    count = messages.graph.count_all_edges().clamp_min(1)
    total = sum_all_edges(messages)
    return total / count.to(total.dtype).unsqueeze(-1)


def max_all_edges(messages: Messages) -> Float[Tensor, "b hd"]:
    """rho e->u: ebar = max_k e'_k over the edges of a graph, elementwise; shapes as for `sum_all_edges`.

    Materializes every e'_k.
    """
    return messages.graph.max_all_edges(messages.per_edge().flatten(-2))


def sum_nodes(x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """rho v->u: vbar = sum_i x_i over the nodes of a graph; it grows with the number of nodes; (b, d)."""
    return graph.sum_nodes(x)


def mean_nodes(x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """rho v->u: vbar = sum_i x_i / n over the n nodes of a graph; it does not grow with n; (b, d)."""
    return graph.sum_nodes(x) / graph.count_nodes().clamp_min(1).to(x.dtype).unsqueeze(-1)


def max_nodes(x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """rho v->u: vbar = max_i x_i over the nodes of a graph, elementwise; (b, d)."""
    return graph.max_nodes(x)


EDGES_TO_NODES: dict[str, EdgesToNodes] = {"sum": sum_edges, "mean": mean_edges, "max": max_edges}

EDGES_TO_GRAPH: dict[str, EdgesToGraph] = {"sum": sum_all_edges, "mean": mean_all_edges, "max": max_all_edges}

NODES_TO_GRAPH: dict[str, NodesToGraph] = {"sum": sum_nodes, "mean": mean_nodes, "max": max_nodes}


Readout = Callable[[Tensor, AnyGraph], Tensor]


def global_readout(v: Tensor, graph: AnyGraph) -> Float[Tensor, "b d_u"]:  # noqa: ARG001
    """The graph features u alone.

    Raises:
        ValueError: a graph without u.
    """
    if graph.u is None:
        raise ValueError("the readout 'global' needs u, but the graph has none")
    return graph.u


def virtual_node_readout(v: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """The first node of each graph, which is the one that `VirtualNode` adds.

    Raises:
        TypeError: an edge list, which does not specify which node is the first.
    """
    if not isinstance(graph, DenseGraph):
        raise TypeError("the readout 'virtual-node' takes dense graphs")
    return v[:, 0]


class AttentionReadout(nn.Module):
    """The average of the nodes, weighted by how well they match a query.

    The query is learned; after each step the average is added to it.

    r_t = sum_i a_i x_i,    a_i = softmax_i( q_t . x_i / sqrt(d) ),    q_{t+1} = q_t + r_t

    Similar to Set2Set (Vinyals et al. 2016, arXiv:1511.06391), in which q is the state of an LSTM.

    Args:
        dim: d.
        steps: the number of steps t.
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
    "global": lambda dim: global_readout,  # noqa: ARG005
    "virtual-node": lambda dim: virtual_node_readout,  # noqa: ARG005
}
