"""rho, the aggregations: edges to their receiver, and nodes or edges to their graph. Tables at the foot."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from molattn.graph.edge_update import EdgeMessages, LiteralMessages
from molattn.graph.graph import AnyGraph

EdgesToNodes = Callable[[EdgeMessages | LiteralMessages], Tensor]
ToGraph = Callable[[Tensor, AnyGraph], Tensor]


def sum_edges(messages: EdgeMessages | LiteralMessages) -> Tensor:
    """rho e->v: ebar_i = sum_k e'_k over the edges into node i.

    Shapes: (n, h * d) of an edge list, (b, n, h * d) of a dense graph; zeros for a node that no edge reaches.
    Source: equation 14.8 of the book chapter, Battaglia et al. 2018, arXiv:1806.01261.
    """
    return messages.sum()


def sum_nodes(x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """rho ->u: xbar = sum_i x_i over the nodes of a graph, which grows with it; (b, d)."""
    return graph.sum_nodes(x)


def mean_nodes(x: Float[Tensor, "*nodes d"], graph: AnyGraph) -> Float[Tensor, "b d"]:
    """rho ->u: xbar = sum_i x_i / n over the n nodes of a graph, which does not grow with it; (b, d)."""
    return graph.sum_nodes(x) / graph.count_nodes().clamp_min(1).to(x.dtype).unsqueeze(-1)


TO_GRAPH: dict[str, ToGraph] = {"sum": sum_nodes, "mean": mean_nodes}
