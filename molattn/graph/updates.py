"""The node update phi_v, the global update phi_u, and `ResidualEdges`, an update of edge features; all residual."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention.arguments import check_dropout, check_sizes
from molattn.attention.dropout import Dropout, active_dropout, add_dropout, dropout_gelu
from molattn.attention.unmodified import are_unmodified
from molattn.graph.graph import AnyGraph
from molattn.graph.messages import Messages


class NodeUpdate(nn.Module):
    """The node update: the aggregated edges are added, then a feed-forward step.

    x    = v_i + dropout(ebar_i + W_u u)
    v'_i = x + dropout(W_2 dropout(gelu(W_1 norm(x) + b_1)) + b_2)

    Args:
        node_dim, global_dim: d_v and d_u; 0 for graphs without graph features.
        hidden_dim: channels between W_1 and W_2.
        dropout: dropout probability, in training.

    Raises:
        ValueError: a size below 1, or a global_dim below 0; dropout is not in [0, 1); at a call, a graph without u if
            global_dim is not 0.

    >>> import torch
    >>> from molattn.graph import DenseGraph, NodeUpdate
    >>> graph = DenseGraph(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool))
    >>> phi_v = NodeUpdate(node_dim=16, hidden_dim=32)
    >>> tuple(phi_v(torch.zeros(2, 5, 16), graph).shape)
    (2, 5, 16)
    """

    def __init__(self, node_dim: int, *, global_dim: int = 0, hidden_dim: int, dropout: float = 0.0):
        super().__init__()
        check_sizes(node_dim=node_dim, hidden_dim=hidden_dim)
        check_sizes(0, global_dim=global_dim)
        check_dropout(dropout)
        self.w_u = nn.Linear(global_dim, node_dim, bias=False) if global_dim else None
        self.norm = nn.LayerNorm(node_dim)
        self.feed_forward = nn.Sequential(
            nn.Linear(node_dim, hidden_dim), nn.GELU(), Dropout(dropout), nn.Linear(hidden_dim, node_dim)
        )
        self.dropout = dropout

    def forward(self, ebar: Float[Tensor, "*nodes d_v"], graph: AnyGraph) -> Float[Tensor, "*nodes d_v"]:
        """The new nodes, of the shape of `graph.v`.

        Args:
            ebar: the edges into each node, aggregated and joined, of the shape of `graph.v`.
            graph: `graph.v` is v_i, and `graph.u` is u.

        Raises:
            ValueError: a graph without u if global_dim is not 0.
        """
        if self.w_u is not None:
            if graph.u is None:
                raise ValueError("the node update needs u, but the graph has none")
            ebar = ebar + graph.broadcast_to_nodes(self.w_u(graph.u))
        x = add_dropout(graph.v, ebar, self.dropout, self.training)
        if self.fuses_gelu():
            first, _, _, last = self.feed_forward
            y = last(dropout_gelu(first(self.norm(x)), self.dropout, self.training))
        else:
            y = self.feed_forward(self.norm(x))
        return add_dropout(x, y, self.dropout, self.training)

    def fuses_gelu(self) -> bool:
        """Whether GELU and dropout can run as one operation: both are unmodified, and the dropout is this module's."""
        layers: Any = self.feed_forward
        if not are_unmodified(nn.Sequential, layers) or len(layers) != 4:
            return False
        _, gelu, dropout, _ = layers
        return (
            are_unmodified(nn.GELU, gelu)
            and are_unmodified(Dropout, dropout)
            and gelu.approximate == "none"
            and active_dropout(dropout.p, dropout.training) == active_dropout(self.dropout, self.training)
        )


class GlobalUpdate(nn.Module):
    """The global update: a residual feed-forward step of the aggregated edges and nodes, and u.

    u' = u + W_2 gelu(W_1 norm([ebar, vbar, u]) + b_1) + b_2

    Args:
        node_dim, global_dim: d_v (of vbar) and d_u.
        hidden_dim: channels between W_1 and W_2.
        message_dim: channels of ebar, which are the h * d of the e'_k; node_dim by default.

    Raises:
        ValueError: a size below 1; at a call, a graph without u.

    >>> import torch
    >>> from molattn.graph import GlobalUpdate
    >>> phi_u = GlobalUpdate(node_dim=16, global_dim=8, hidden_dim=32)
    >>> tuple(phi_u(torch.randn(2, 16), torch.randn(2, 16), torch.zeros(2, 8)).shape)
    (2, 8)
    """

    def __init__(self, node_dim: int, *, global_dim: int, hidden_dim: int, message_dim: int | None = None):
        super().__init__()
        check_sizes(node_dim=node_dim, global_dim=global_dim, hidden_dim=hidden_dim, message_dim=message_dim)
        inputs = (node_dim if message_dim is None else message_dim) + node_dim + global_dim
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(inputs), nn.Linear(inputs, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, global_dim)
        )

    def forward(
        self, ebar: Float[Tensor, "b hd"], vbar: Float[Tensor, "b d_v"], u: Float[Tensor, "b d_u"] | None
    ) -> Float[Tensor, "b d_u"]:
        """The new graph features, (b, d_u).

        Args:
            ebar: (b, h * d), the e'_k of each graph, aggregated.
            vbar: (b, d_v), the v'_i of each graph, aggregated.
            u: (b, d_u).

        Raises:
            ValueError: u is None.
        """
        if u is None:
            raise ValueError("the global update needs u, but the graph has none")
        return u + self.feed_forward(torch.cat([ebar, vbar, u], dim=-1))


class ResidualEdges(nn.Module):
    """A residual update of the edge features: e'_k is normalized, projected and added.

    e_k <- e_k + W norm(e'_k) + b

    Materializes every e'_k.

    Args:
        edge_dim: d_e.
        num_heads, head_dim: h and d of e'_k.

    >>> import torch
    >>> from molattn.graph import DenseGraph, GraphNetBlock, ResidualEdges
    >>> edges = ResidualEdges(edge_dim=3, num_heads=4, head_dim=4)
    >>> block = GraphNetBlock(node_dim=16, num_heads=4, edge_dim=3, edges=edges)
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 3)
    >>> after = block(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(after.e.shape), torch.equal(after.e, e)
    ((2, 5, 5, 3), False)
    """

    def __init__(self, edge_dim: int, num_heads: int, head_dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(num_heads * head_dim)
        self.w = nn.Linear(num_heads * head_dim, edge_dim)

    def forward(self, messages: Messages, e: Tensor) -> Tensor:
        """The edge features after the block, of the shape of `e`.

        Args:
            messages: the e'_k of every edge.
            e: the edge features before the block: (m, d_e) of an edge list, (b, n, n, d_e) of a dense graph.
        """
        return e + self.w(self.norm(messages.per_edge().flatten(-2)))
