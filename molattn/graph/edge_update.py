"""phi_e, the edge update: attention, in which a node is the query and its senders and their edges are the keys."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention import attention_weights, merge_heads, split_heads
from molattn.graph.graph import AnyGraph, DenseGraph, Graph


class AttentionEdgeUpdate(nn.Module):
    """Multi-head tensor-dot attention as Battaglia's edge update.

    e'_k = w_k (W_v v_s + W_ve e_k)
    w_k  = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) + w_be . e_k )

    with v_r the receiver (the query), v_s the sender, e_k the edge between them, in each of the heads. With graph
    features u, each of q, k and v also gets a term: W_q v_r + W_qu u, and so on.

    The softmax runs over the edges into one receiver, so this phi_e is not strictly a function of one edge: it is
    the weight that each edge wins among its competitors. Without edge features it is the book's equations 14.2
    to 14.7.

    Neither W_ke e_k nor W_ve e_k is ever formed per edge: q . (W_ke e) = (W_ke^T q) . e, and
    sum_k w_k W_ve e_k = W_ve sum_k w_k e_k. `literal` forms them, and gives the same numbers.

    Args:
        node_dim, edge_dim, global_dim: d_v, d_e, d_u; 0 for graphs without edge or graph features.
        num_heads, head_dim: h and d.
        dropout: probability of dropping a weight, in training.

    Raises:
        ValueError: at a call, a graph whose edge or graph features are not those that the layer was made for.

    Source: Battaglia et al. 2018, arXiv:1806.01261; Vaswani et al. 2017, arXiv:1706.03762.
    """

    def __init__(
        self,
        node_dim: int,
        num_heads: int,
        head_dim: int,
        edge_dim: int = 0,
        global_dim: int = 0,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.num_heads, self.head_dim, self.dropout = num_heads, head_dim, dropout
        width = num_heads * head_dim
        self.w_q = nn.Linear(node_dim, width, bias=False)
        self.w_k = nn.Linear(node_dim, width, bias=False)
        self.w_v = nn.Linear(node_dim, width, bias=False)
        self.w_ke = nn.Linear(edge_dim, width, bias=False) if edge_dim else None
        self.w_ve = nn.Linear(edge_dim, width, bias=False) if edge_dim else None
        self.w_be = nn.Linear(edge_dim, num_heads, bias=False) if edge_dim else None
        self.w_qu = nn.Linear(global_dim, width, bias=False) if global_dim else None
        self.w_ku = nn.Linear(global_dim, width, bias=False) if global_dim else None
        self.w_vu = nn.Linear(global_dim, width, bias=False) if global_dim else None

    def forward(self, graph: AnyGraph) -> "EdgeMessages":
        """The e'_k of every edge, not yet multiplied out; the fast way through."""
        q, k, v = self._project(graph)
        bias = None if self.w_ke is None else self._edge_logits(graph, q)
        weights = attention_weights(q, k, graph.competitors, bias=bias)
        return EdgeMessages(graph, weights, self._drop(weights), v, self.w_ve)

    def literal(self, graph: AnyGraph) -> "LiteralMessages":
        """The e'_k of every edge as tensors that one can hold: the equations, one line each."""
        if isinstance(graph, DenseGraph):
            graph = graph.to_edge_list()
        q, k, v = self._project(graph)
        k, v = k[graph.sender], v[graph.sender]
        bias = None
        if self.w_ke is not None and self.w_ve is not None and self.w_be is not None:
            k = k + self.w_ke(graph.e).unflatten(-1, (self.num_heads, -1))
            v = v + self.w_ve(graph.e).unflatten(-1, (self.num_heads, -1))
            bias = self.w_be(graph.e)
        every_edge = graph.competitors.own_keys()
        weights = attention_weights(q, k, every_edge, bias=bias)
        return LiteralMessages(graph, weights, self._drop(weights).unsqueeze(-1) * v)

    def _project(self, graph: AnyGraph) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v: (n, h, d) of an edge list, (b, h, n, d) of a dense graph."""
        self._check(graph)
        projected = []
        for of_node, of_graph in ((self.w_q, self.w_qu), (self.w_k, self.w_ku), (self.w_v, self.w_vu)):
            x = of_node(graph.v)
            if of_graph is not None:
                x = x + graph.per_node(of_graph(graph.u))
            heads = split_heads(x, self.num_heads)
            projected.append(heads.transpose(0, 1) if isinstance(graph, Graph) else heads)
        q, k, v = projected
        return q, k, v

    def _edge_logits(self, graph: AnyGraph, q: Tensor) -> Tensor:
        """(W_q v_r) . (W_ke e_k) / sqrt(d) + w_be . e_k, as (W_ke^T q / sqrt(d) + w_be) . e_k."""
        assert self.w_ke is not None and self.w_be is not None and graph.e is not None
        w_ke = self.w_ke.weight.view(self.num_heads, self.head_dim, -1) * self.head_dim**-0.5
        if isinstance(graph, Graph):
            at_receiver = (q.transpose(0, 1) @ w_ke).transpose(0, 1) + self.w_be.weight  # (n, h, d_e)
            return (at_receiver[graph.receiver] * graph.e.unsqueeze(1)).sum(-1)
        at_receiver = (q @ w_ke).transpose(1, 2) + self.w_be.weight  # (b, i, h, d_e)
        return (at_receiver @ graph.e.mT).transpose(1, 2)

    def _check(self, graph: AnyGraph) -> None:
        """Features are used or refused, never left out in silence."""
        made_for = ((graph.e, self.w_ke, "e", "edge_dim"), (graph.u, self.w_qu, "u", "global_dim"))
        for features, layer, name, what in made_for:
            wanted = 0 if layer is None else layer.in_features
            given = 0 if features is None else features.shape[-1]
            if wanted != given:
                raise ValueError(f"the graph has {given} features in {name}, the layer was made with {what}={wanted}")

    def _drop(self, weights: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout, self.training)


@dataclass(frozen=True)
class EdgeMessages:
    """The e'_k of every edge as factors: e'_k = dropped_k (v_s + W_ve e_k). Summed without ever forming one.

    Attributes:
        graph: the graph whose edges these are.
        weights: (m, h) of an edge list, (b, h, i, j) of a dense graph; sums to 1 over the edges into a receiver.
        dropped: the weights after dropout; the weights themselves outside training.
        values: (n, h, d) or (b, h, n, d), the senders' part of the values.
        w_ve: the edges' part of the values, or None.
    """

    graph: AnyGraph
    weights: Float[Tensor, "m h"] | Float[Tensor, "b h n n"]
    dropped: Float[Tensor, "m h"] | Float[Tensor, "b h n n"]
    values: Float[Tensor, "n h d"] | Float[Tensor, "b h n d"]
    w_ve: nn.Linear | None

    def sum(self) -> Float[Tensor, "*nodes hd"]:
        """sum_k e'_k over the edges into each receiver, heads side by side: (n, h * d) or (b, n, h * d)."""
        total = self.graph.competitors.reduce(self.dropped, self.values)
        if isinstance(self.graph, Graph):
            if self.w_ve is not None and self.graph.e is not None:
                edges = self.graph.competitors.own_keys().reduce(self.dropped, self.graph.e.unsqueeze(1))
                total = total + self._edge_values(edges)
            return total.flatten(-2)
        total = merge_heads(total)
        if self.w_ve is not None and self.graph.e is not None:
            edges = self.dropped.transpose(1, 2) @ self.graph.e  # (b, i, h, d_e)
            total = total + self._edge_values(edges).flatten(-2)
        return total

    def _edge_values(self, edges: Float[Tensor, "*nodes h d_e"]) -> Float[Tensor, "*nodes h d"]:
        """W_ve of each head, applied to that head's average edge: (..., h, d_e) -> (..., h, d)."""
        assert self.w_ve is not None
        w_ve = self.w_ve.weight.view(edges.shape[-2], -1, edges.shape[-1])  # (h, d, d_e)
        return torch.einsum("...hf,hdf->...hd", edges, w_ve)


@dataclass(frozen=True)
class LiteralMessages:
    """The e'_k of every edge, each one there to be looked at.

    Attributes:
        graph: the edge list whose edges these are.
        weights: (m, h), before dropout.
        e: (m, h, d), e'_k per head.
    """

    graph: Graph
    weights: Float[Tensor, "m h"]
    e: Float[Tensor, "m h d"]

    def sum(self) -> Float[Tensor, "n hd"]:
        """sum_k e'_k over the edges into each receiver, heads side by side: (n, h * d)."""
        total = self.e.new_zeros(self.graph.v.shape[0], *self.e.shape[1:])
        return total.index_add(0, self.graph.receiver, self.e).flatten(-2)
