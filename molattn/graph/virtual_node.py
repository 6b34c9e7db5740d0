"""A node that no atom is: it hears everyone and everyone hears it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.graph.graph import AnyGraph, DenseGraph


class VirtualNode(nn.Module):
    """One more node at the head of each graph, joined to all others.

    v_0 = a learned row
    e_0j, e_i0, e_00 = three learned rows: to the token, from the token, the token with itself

    It is node 0; what was node i is node i + 1. Nodes, edges and masks grow by one; u stays. An edge mask lets the
    token's edges through; there are none from or to the padding.

    Args:
        node_dim, edge_dim: d_v and d_e; edge_dim 0 for graphs without edge features.

    Raises:
        ValueError: at a call, a graph whose edge features are not those that it was made for.
        TypeError: at a call, a graph that is not a `DenseGraph`.

    Source: the special node of Graphormer, Ying et al. 2021, arXiv:2106.05234, section 3.2.
    """

    def __init__(self, node_dim: int, edge_dim: int = 0):
        super().__init__()
        self.v = nn.Parameter(torch.randn(node_dim))
        self.to_token = nn.Parameter(torch.randn(edge_dim)) if edge_dim else None
        self.from_token = nn.Parameter(torch.randn(edge_dim)) if edge_dim else None
        self.itself = nn.Parameter(torch.randn(edge_dim)) if edge_dim else None

    def forward(self, graph: AnyGraph) -> DenseGraph:
        """The graphs with a token each: (b, n, d_v) becomes (b, n + 1, d_v), and so on."""
        if not isinstance(graph, DenseGraph):
            raise TypeError(f"a virtual node joins a DenseGraph, not a {type(graph).__name__}")
        b, _ = graph.node_mask.shape
        token = graph.node_mask.new_ones(b, 1)
        return DenseGraph(
            v=torch.cat([self.v.expand(b, 1, -1), graph.v], dim=1),
            node_mask=torch.cat([token, graph.node_mask], dim=1),
            e=self._edges(graph),
            u=graph.u,
            edge_mask=None if graph.edge_mask is None else _bordered(graph.edge_mask),
        )

    def _edges(self, graph: DenseGraph) -> Float[Tensor, "b m m d_e"] | None:
        made_for = 0 if self.itself is None else len(self.itself)
        given = 0 if graph.e is None else graph.e.shape[-1]
        if made_for != given:
            raise ValueError(f"the graph has {given} features in e, the layer was made with edge_dim={made_for}")
        if graph.e is None or self.to_token is None or self.from_token is None or self.itself is None:
            return None
        b, n = graph.node_mask.shape
        column = torch.cat([self.from_token.expand(b, n, 1, -1), graph.e], dim=2)
        row = torch.cat([self.itself.expand(b, 1, 1, -1), self.to_token.expand(b, 1, n, -1)], dim=2)
        return torch.cat([row, column], dim=1)


def _bordered(mask: Tensor) -> Tensor:
    """(b, n, n) -> (b, n + 1, n + 1), True in the new row and column."""
    b, n, _ = mask.shape
    wide = torch.cat([mask.new_ones(b, n, 1), mask], dim=2)
    return torch.cat([mask.new_ones(b, 1, n + 1), wide], dim=1)
