"""Aggregations (rho), of edges for each node and of edges or nodes for each graph, and readouts; all by name.

A readout takes the nodes, (n, d) or (b, n, d), and their graph, and returns (b, d). It computes in the dtype of the
nodes.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention import attention_weights
from molattn.attention.arguments import check_sizes
from molattn.attention.unmodified import are_unmodified
from molattn.graph.graph import AnyGraph, DenseGraph, Graph
from molattn.graph.messages import Messages

EdgesToNodes = Callable[[Messages], Tensor]
EdgesToGraph = Callable[[Messages], Tensor]
NodesToGraph = Callable[[Tensor, AnyGraph], Tensor]


def sum_edges(messages: Messages) -> Tensor:
    """The sum of the edges into each node, an aggregation rho e->v.

    ebar_i = sum_k e'_k        over the edges k into node i

    Args:
        messages: the e'_k of every edge: `EdgeMessages` or `MaterializedMessages`, as phi_e returns them.

    Returns:
        (n, h * d) of an edge list, (b, n, h * d) of a dense graph, heads concatenated; zeros for a node without
        incoming edges.

    Source: equation 14.8 in the table of `molattn.graph`; Battaglia et al. 2018, arXiv:1806.01261.

    >>> import torch
    >>> from molattn.graph import Graph, MaterializedMessages, sum_edges
    >>> graph = Graph.from_edge_index(torch.zeros(3, 2), torch.tensor([[1, 2, 0], [0, 0, 1]]))
    >>> e = torch.tensor([[[1.0, 8.0]], [[3.0, 4.0]], [[5.0, 6.0]]])  # of the edges 1 -> 0, 2 -> 0 and 0 -> 1
    >>> sum_edges(MaterializedMessages(graph, torch.ones(3, 1), e)).tolist()
    [[4.0, 12.0], [5.0, 6.0], [0.0, 0.0]]
    """
    return messages.sum()


def mean_edges(messages: Messages) -> Tensor:
    """The mean of the edges into each node, an aggregation rho e->v.

    ebar_i = sum_k e'_k / n_i        over the n_i edges k into node i

    Args:
        messages: the e'_k of every edge: `EdgeMessages` or `MaterializedMessages`, as phi_e returns them.

    Returns:
        As `sum_edges`.

    Source: Battaglia et al. 2018, arXiv:1806.01261.

    >>> import torch
    >>> from molattn.graph import Graph, MaterializedMessages, mean_edges
    >>> graph = Graph.from_edge_index(torch.zeros(3, 2), torch.tensor([[1, 2, 0], [0, 0, 1]]))
    >>> e = torch.tensor([[[1.0, 8.0]], [[3.0, 4.0]], [[5.0, 6.0]]])  # of the edges 1 -> 0, 2 -> 0 and 0 -> 1
    >>> mean_edges(MaterializedMessages(graph, torch.ones(3, 1), e)).tolist()
    [[2.0, 6.0], [5.0, 6.0], [0.0, 0.0]]
    """
    count = messages.graph.count_edges().clamp_min(1)
    total = messages.sum()
    return total / count.to(total.dtype).unsqueeze(-1)


def max_edges(messages: Messages) -> Tensor:
    """The elementwise maximum of the edges into each node, an aggregation rho e->v.

    ebar_i = max_k e'_k        over the edges k into node i

    Materializes every e'_k.

    Args:
        messages: the e'_k of every edge: `EdgeMessages` or `MaterializedMessages`, as phi_e returns them.

    Returns:
        As `sum_edges`.

    Source: Battaglia et al. 2018, arXiv:1806.01261.

    >>> import torch
    >>> from molattn.graph import Graph, MaterializedMessages, max_edges
    >>> graph = Graph.from_edge_index(torch.zeros(3, 2), torch.tensor([[1, 2, 0], [0, 0, 1]]))
    >>> e = torch.tensor([[[1.0, 8.0]], [[3.0, 4.0]], [[5.0, 6.0]]])  # of the edges 1 -> 0, 2 -> 0 and 0 -> 1
    >>> max_edges(MaterializedMessages(graph, torch.ones(3, 1), e)).tolist()
    [[3.0, 8.0], [5.0, 6.0], [0.0, 0.0]]
    """
    return messages.graph.max_edges(messages.per_edge()).flatten(-2)


def sum_all_edges(messages: Messages) -> Float[Tensor, "b hd"]:
    """The sum of the edges of each graph, an aggregation rho e->u; it grows with the number of edges.

    ebar = sum_k e'_k        over the edges k of the graph

    Args:
        messages: the e'_k of every edge: `EdgeMessages` or `MaterializedMessages`, as phi_e returns them.

    Returns:
        (b, h * d), heads concatenated; zeros for a graph without edges.

    Source: Battaglia et al. 2018, arXiv:1806.01261, algorithm 1.

    >>> import torch
    >>> from molattn.graph import Graph, MaterializedMessages, sum_all_edges
    >>> graph = Graph.from_edge_index(torch.zeros(3, 2), torch.tensor([[1, 2, 0], [0, 0, 1]]))
    >>> e = torch.tensor([[[1.0, 8.0]], [[3.0, 4.0]], [[5.0, 6.0]]])  # of the edges 1 -> 0, 2 -> 0 and 0 -> 1
    >>> sum_all_edges(MaterializedMessages(graph, torch.ones(3, 1), e)).tolist()
    [[9.0, 18.0]]
    """
    return messages.graph.sum_nodes(messages.sum())


def mean_all_edges(messages: Messages) -> Float[Tensor, "b hd"]:
    """The mean of the edges of each graph, an aggregation rho e->u.

    ebar = sum_k e'_k / m        over the m edges k of the graph

    Args:
        messages: the e'_k of every edge: `EdgeMessages` or `MaterializedMessages`, as phi_e returns them.

    Returns:
        As `sum_all_edges`.

    Source: Battaglia et al. 2018, arXiv:1806.01261.

    >>> import torch
    >>> from molattn.graph import Graph, MaterializedMessages, mean_all_edges
    >>> graph = Graph.from_edge_index(torch.zeros(3, 2), torch.tensor([[1, 2, 0], [0, 0, 1]]))
    >>> e = torch.tensor([[[1.0, 8.0]], [[3.0, 4.0]], [[5.0, 6.0]]])  # of the edges 1 -> 0, 2 -> 0 and 0 -> 1
    >>> mean_all_edges(MaterializedMessages(graph, torch.ones(3, 1), e)).tolist()
    [[3.0, 6.0]]
    """
    count = messages.graph.count_all_edges().clamp_min(1)
    total = sum_all_edges(messages)
    return total / count.to(total.dtype).unsqueeze(-1)


def max_all_edges(messages: Messages) -> Float[Tensor, "b hd"]:
    """The elementwise maximum of the edges of each graph, an aggregation rho e->u.

    ebar = max_k e'_k        over the edges k of the graph

    Materializes every e'_k.

    Args:
        messages: the e'_k of every edge: `EdgeMessages` or `MaterializedMessages`, as phi_e returns them.

    Returns:
        As `sum_all_edges`.

    Source: Battaglia et al. 2018, arXiv:1806.01261.

    >>> import torch
    >>> from molattn.graph import Graph, MaterializedMessages, max_all_edges
    >>> graph = Graph.from_edge_index(torch.zeros(3, 2), torch.tensor([[1, 2, 0], [0, 0, 1]]))
    >>> e = torch.tensor([[[1.0, 8.0]], [[3.0, 4.0]], [[5.0, 6.0]]])  # of the edges 1 -> 0, 2 -> 0 and 0 -> 1
    >>> max_all_edges(MaterializedMessages(graph, torch.ones(3, 1), e)).tolist()
    [[5.0, 8.0]]
    """
    return messages.graph.max_all_edges(messages.per_edge().flatten(-2))


def sum_nodes(x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """The sum of the nodes of each graph, an aggregation rho v->u; it grows with the number of nodes.

    vbar = sum_i x_i        over the nodes i of the graph

    Args:
        x: (n, d) of an edge list, (b, n, d) of a dense graph, whose padding is not read; need not be `graph.v`.
        graph: the graph of these nodes.

    Returns:
        (b, d); zeros for a graph without nodes.

    Source: Battaglia et al. 2018, arXiv:1806.01261.

    >>> import torch
    >>> from molattn.graph import DenseGraph, sum_nodes
    >>> x = torch.tensor([[[1.0, 8.0], [2.0, 4.0], [3.0, 0.0]], [[5.0, 6.0], [0.0, 0.0], [0.0, 0.0]]])
    >>> graph = DenseGraph(x, node_mask=torch.tensor([[True, True, True], [True, False, False]]))
    >>> sum_nodes(x, graph).tolist()
    [[6.0, 12.0], [5.0, 6.0]]
    """
    return graph.sum_nodes(x)


def mean_nodes(x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """The mean of the nodes of each graph, an aggregation rho v->u; it does not grow with the number of nodes.

    vbar = sum_i x_i / n        over the n nodes i of the graph

    Args:
        x: (n, d) of an edge list, (b, n, d) of a dense graph, whose padding is not read; need not be `graph.v`.
        graph: the graph of these nodes.

    Returns:
        (b, d); zeros for a graph without nodes.

    Source: Battaglia et al. 2018, arXiv:1806.01261.

    >>> import torch
    >>> from molattn.graph import DenseGraph, mean_nodes
    >>> x = torch.tensor([[[1.0, 8.0], [2.0, 4.0], [3.0, 0.0]], [[5.0, 6.0], [0.0, 0.0], [0.0, 0.0]]])
    >>> graph = DenseGraph(x, node_mask=torch.tensor([[True, True, True], [True, False, False]]))
    >>> mean_nodes(x, graph).tolist()
    [[2.0, 4.0], [5.0, 6.0]]
    """
    return graph.sum_nodes(x) / graph.count_nodes().clamp_min(1).to(x.dtype).unsqueeze(-1)


def max_nodes(x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """The elementwise maximum of the nodes of each graph, an aggregation rho v->u.

    vbar = max_i x_i        over the nodes i of the graph

    Args:
        x: (n, d) of an edge list, (b, n, d) of a dense graph, whose padding is not read; need not be `graph.v`.
        graph: the graph of these nodes.

    Returns:
        (b, d); zeros for a graph without nodes.

    Source: Battaglia et al. 2018, arXiv:1806.01261.

    >>> import torch
    >>> from molattn.graph import DenseGraph, max_nodes
    >>> x = torch.tensor([[[1.0, 8.0], [2.0, 4.0], [3.0, 0.0]], [[5.0, 6.0], [0.0, 0.0], [0.0, 0.0]]])
    >>> graph = DenseGraph(x, node_mask=torch.tensor([[True, True, True], [True, False, False]]))
    >>> max_nodes(x, graph).tolist()
    [[3.0, 8.0], [5.0, 6.0]]
    """
    return graph.max_nodes(x)


EDGES_TO_NODES: dict[str, EdgesToNodes] = {"sum": sum_edges, "mean": mean_edges, "max": max_edges}
"""The aggregations rho e->v by name: functions of the messages that return ebar_i of each node."""

EDGES_TO_GRAPH: dict[str, EdgesToGraph] = {"sum": sum_all_edges, "mean": mean_all_edges, "max": max_all_edges}
"""The aggregations rho e->u by name: functions of the messages that return ebar of each graph."""

NODES_TO_GRAPH: dict[str, NodesToGraph] = {"sum": sum_nodes, "mean": mean_nodes, "max": max_nodes}
"""The aggregations rho v->u by name: functions of nodes and their graph that return vbar of each graph."""


Readout = Callable[[Tensor, AnyGraph], Tensor]


def global_readout(v: Tensor, graph: AnyGraph) -> Float[Tensor, "b d_u"]:  # noqa: ARG001
    """The graph features u alone, (b, d_u).

    Args:
        v: nodes; not read.
        graph: their graph, with u.

    Raises:
        ValueError: a graph without u.
    """
    if graph.u is None:
        raise ValueError("the readout 'global' needs u, but the graph has none")
    return graph.u


def virtual_node_readout(v: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """The first node of each graph, (b, d), which is the one that `VirtualNode` adds.

    Args:
        v: (b, n, d).
        graph: their graph, a `DenseGraph`.

    Raises:
        TypeError: an edge list, which does not specify which node is the first.
    """
    if not isinstance(graph, DenseGraph):
        raise TypeError(f"the readout 'virtual-node' takes a DenseGraph, not a {type(graph).__name__}")
    return v[:, 0]


class AttentionReadout(nn.Module):
    """The average of the nodes, weighted by how well they match a query.

    The query is learned. After each step, the average is added to it.

    r_t = sum_i a_i x_i,    a_i = softmax_i( q_t . x_i / sqrt(d) ),    q_{t+1} = q_t + r_t

    for t = 1, ..., T. The readout is r_T, and q_1 is the parameter `query`, (d,).

    Args:
        dim: d.
        steps: T, the number of steps.

    Raises:
        ValueError: `dim` or `steps` is no integer of at least 1.

    Source: similar to Set2Set, Vinyals et al. 2016, arXiv:1511.06391, in which q is the state of an LSTM.

    >>> import torch
    >>> from molattn.graph import AttentionReadout, DenseGraph
    >>> x = torch.randn(2, 3, 8)
    >>> graph = DenseGraph(x, node_mask=torch.tensor([[True, True, True], [True, False, False]]))
    >>> readout = AttentionReadout(dim=8)(x, graph)
    >>> tuple(readout.shape), torch.allclose(readout[1], x[1, 0])  # a single node has a weight of 1
    ((2, 8), True)
    """

    def __init__(self, dim: int, steps: int = 3):
        check_sizes(dim=dim, steps=steps)
        super().__init__()
        self.steps = steps
        self.query = nn.Parameter(torch.randn(dim))

    def forward(self, x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
        """The readout of each graph, (b, d).

        Args:
            x: (n, d) of an edge list, (b, n, d) of a dense graph, finite in the padding too.
            graph: the graph of these nodes.
        """
        is_edge_list = isinstance(graph, Graph)
        layout = graph.readout_layout() if is_edge_list else graph.node_mask.unsqueeze(-2)
        # Not len(): torch.export would make it a constant.
        b = graph.num_graphs if is_edge_list else graph.node_mask.shape[0]
        q = self.query.to(x.dtype).expand(b, -1)
        readout = torch.zeros_like(q)
        for _ in range(self.steps):
            weights = attention_weights(q if is_edge_list else q.unsqueeze(1), x, layout)
            if is_edge_list:
                readout = graph.sum_nodes(weights.unsqueeze(-1) * x)
            else:
                readout = (weights @ x.masked_fill(~graph.node_mask.unsqueeze(-1), 0.0)).squeeze(1)
            q = q + readout
        return readout


class AdditiveReadout(nn.Module):
    """A sum of one term per node, so that predictions can be attributed to nodes: see `terms`.

    r = sum_i t_i,    t_i = gelu(W x_i + b)

    Args:
        dim: d, the channels of x_i and of t_i.

    >>> import torch
    >>> from molattn.graph import AdditiveReadout, DenseGraph
    >>> x = torch.randn(2, 3, 8)
    >>> graph = DenseGraph(x, node_mask=torch.tensor([[True, True, True], [True, False, False]]))
    >>> readout = AdditiveReadout(dim=8)
    >>> torch.allclose(readout(x, graph)[0], readout.terms(x)[0].sum(0), atol=1e-5)
    True
    """

    def __init__(self, dim: int):
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def terms(self, x: Float[Tensor, "*nodes d"]) -> Float[Tensor, "*nodes d"]:
        """t_i of every node of `x`; both are (n, d), or (b, n, d) of a dense graph."""
        if are_unmodified(nn.Linear, self.w):
            return F.gelu(F.linear(x, self.w.weight.to(x.dtype), self.w.bias.to(x.dtype)))
        # A layer with a hook, or an adapter in its place, is called, in its own dtype.
        parameter = next(self.w.parameters(), None)
        return F.gelu(self.w(x.to(torch.float32 if parameter is None else parameter.dtype)).to(x.dtype))

    def forward(self, x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
        """The readout of each graph, (b, d).

        Args:
            x: (n, d) of an edge list, (b, n, d) of a dense graph, finite in the padding too.
            graph: the graph of these nodes.
        """
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
"""The readouts by name: functions of d, the channels of a node, that return a function or module."""
