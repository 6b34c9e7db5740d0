"""The graph network block: Battaglia's six equations."""

from collections.abc import Callable
from typing import TypeVar

from torch import nn

from molattn.attention import ConcatHeads
from molattn.graph.aggregate import TO_GRAPH, ToGraph, sum_edges
from molattn.graph.edge_update import AttentionEdgeUpdate, EdgeMessages, LiteralMessages
from molattn.graph.graph import AnyGraph, DenseGraph
from molattn.graph.updates import GlobalUpdate, NodeUpdate

Messages = TypeVar("Messages", EdgeMessages, LiteralMessages)


class GraphNetBlock(nn.Module):
    """A graph network block whose edge update is attention.

    e'_k    = phi_e(e_k, v_r, v_s, u)        multi-head attention of a receiver to its senders and edges
    ebar'_i = rho_ev(E'_i)                   a sum, the heads joined by w_jhl
    v'_i    = phi_v(ebar'_i, v_i, u)         residual, feed-forward
    ebar'   = rho_eu(E')
    vbar'   = rho_vu(V')
    u'      = phi_u(ebar', vbar', u)

    Nodes and u are normalised before phi_e sees them (pre-norm). The edges are carried on as they came. A graph without
    u stops after v'.

    Args:
        node_dim, edge_dim, global_dim: d_v, d_e, d_u; 0 for graphs without edge or graph features.
        num_heads: h; a head has node_dim / h channels.
        hidden_dim: channels inside the feed-forward steps; 2 * node_dim by default.
        to_graph: rho_eu and rho_vu, a name in `TO_GRAPH` or a function.
        dropout: in training.

    Raises:
        ValueError: num_heads does not divide node_dim, an unknown `to_graph`, or, at a call, a graph whose edge or
            graph features are not those that the block was made for.

    Source: Battaglia et al. 2018, arXiv:1806.01261, algorithm 1.

    >>> import torch
    >>> block = GraphNetBlock(node_dim=16, num_heads=4, edge_dim=3, global_dim=8)
    >>> two_molecules = DenseGraph(
    ...     v=torch.randn(2, 5, 16), node_mask=torch.tensor([[True] * 5, [True] * 3 + [False] * 2]),
    ...     e=torch.randn(2, 5, 5, 3), u=torch.zeros(2, 8))
    >>> after, messages = block.step(two_molecules)
    >>> tuple(after.v.shape), tuple(after.u.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 8), (2, 4, 5, 5))
    """

    def __init__(
        self,
        node_dim: int,
        num_heads: int,
        edge_dim: int = 0,
        global_dim: int = 0,
        hidden_dim: int | None = None,
        to_graph: str | ToGraph = "sum",
        dropout: float = 0.0,
    ):
        super().__init__()
        if node_dim % num_heads:
            raise ValueError(f"{num_heads} heads do not divide {node_dim} node channels")
        if isinstance(to_graph, str) and to_graph not in TO_GRAPH:
            raise ValueError(
                f"unknown aggregation {to_graph!r}: choose one of {', '.join(TO_GRAPH)}, or pass a function"
            )
        head_dim, hidden_dim = node_dim // num_heads, hidden_dim or 2 * node_dim
        self.norm_v = nn.LayerNorm(node_dim)
        self.norm_u = nn.LayerNorm(global_dim) if global_dim else None
        self.phi_e = AttentionEdgeUpdate(node_dim, num_heads, head_dim, edge_dim, global_dim, dropout)
        self.w_jhl = ConcatHeads(num_heads, head_dim, node_dim)
        self.phi_v = NodeUpdate(node_dim, hidden_dim, global_dim, dropout)
        self.phi_u = GlobalUpdate(node_dim, global_dim, hidden_dim) if global_dim else None
        self.rho_ev = sum_edges
        self.rho_eu = self.rho_vu = TO_GRAPH[to_graph] if isinstance(to_graph, str) else to_graph

    def forward(self, graph: AnyGraph) -> AnyGraph:
        """The updated graph, of the same form (edge list or dense) and shapes."""
        return self.step(graph)[0]

    def step(self, graph: AnyGraph) -> tuple[AnyGraph, EdgeMessages]:
        """The updated graph and the e'_k, with the attention weights, that brought it there."""
        return self._equations(graph, self.phi_e)

    def literal(self, graph: AnyGraph) -> tuple[AnyGraph, LiteralMessages]:
        """`step` with every e'_k formed; the graph comes back as an edge list. Same numbers, slower."""
        if isinstance(graph, DenseGraph):
            graph = graph.to_edge_list()
        return self._equations(graph, self.phi_e.literal)

    def _equations(self, graph: AnyGraph, phi_e: Callable[[AnyGraph], Messages]) -> tuple[AnyGraph, Messages]:
        """The six equations, with phi_e in its fast or its literal form."""
        e = phi_e(self._normed(graph))
        ebar_i = self.w_jhl(self.rho_ev(e))
        v = self.phi_v(ebar_i, graph)
        if self.phi_u is None or graph.u is None:
            return graph.replace(v=v), e
        ebar = self.rho_eu(ebar_i, graph)
        vbar = self.rho_vu(v, graph)
        u = self.phi_u(ebar, vbar, graph.u)
        return graph.replace(v=v, u=u), e

    def _normed(self, graph: AnyGraph) -> AnyGraph:
        u = graph.u if self.norm_u is None or graph.u is None else self.norm_u(graph.u)
        return graph.replace(v=self.norm_v(graph.v), u=u)
