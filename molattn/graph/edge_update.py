"""phi_e, the edge update: attention, in which a node is the query and its senders and their edges are the keys."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention import Score, attention_weights, dot, linear, make_score, scaled_dot, split_heads
from molattn.attention.competitors import all_true
from molattn.attention.dropout import dropout, dropout_mask
from molattn.graph.dense import EdgeTerms, edge_attention, is_one_operation
from molattn.graph.graph import AnyGraph, DenseGraph, Graph

EDGES_AS = ("keys", "values", "bias", "logits")
"""What edge features can speak as: part of the keys, part of the values, a learned bias, or the logits' own bias."""


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
        edges_as: what the edges speak as, names in `EDGES_AS`: "keys" (W_ke), "values" (W_ve), "bias" (w_be), and
            "logits": e_k itself, which then has one channel per head, is added to the logits.
        score: of queries and keys, a name or a module as `make_score` takes it.
        bias: whether W_q, W_k and W_v have one.
        activation: applied to the values, where the edges are no part of them.

    Raises:
        ValueError: settings that do not go together; at a call, a graph whose edge or graph features are not those
            that the layer was made for.

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
        *,
        edges_as: Collection[str] = ("keys", "values", "bias"),
        score: str | Score = "scaled_dot",
        bias: bool = False,
        activation: nn.Module | None = None,
    ):
        super().__init__()
        self.score = make_score(score, head_dim, head_dim)
        self._check_settings(edge_dim, num_heads, edges_as, activation)
        self.num_heads, self.head_dim, self.dropout = num_heads, head_dim, dropout
        self.node_dim, self.edge_dim, self.global_dim = node_dim, edge_dim, global_dim
        self.edges_are_logits = "logits" in edges_as
        self.activation = activation
        width = num_heads * head_dim
        spoken = edges_as if edge_dim else ()
        self.w_q = nn.Linear(node_dim, width, bias=bias)
        self.w_k = nn.Linear(node_dim, width, bias=bias)
        self.w_v = nn.Linear(node_dim, width, bias=bias)
        self.w_ke = nn.Linear(edge_dim, width, bias=False) if "keys" in spoken else None
        self.w_ve = nn.Linear(edge_dim, width, bias=False) if "values" in spoken else None
        self.w_be = nn.Linear(edge_dim, num_heads, bias=False) if "bias" in spoken else None
        self.w_qu = nn.Linear(global_dim, width, bias=False) if global_dim else None
        self.w_ku = nn.Linear(global_dim, width, bias=False) if global_dim else None
        self.w_vu = nn.Linear(global_dim, width, bias=False) if global_dim else None

    def forward(self, graph: AnyGraph) -> "EdgeMessages":
        """The e'_k of every edge, not yet multiplied out; the fast way through."""
        if isinstance(graph, DenseGraph) and self._is_one_operation(graph):
            return self._as_one_operation(graph)
        q, k, v = self._project(graph)
        bias = self._edge_logits(graph, q, k)
        weights = attention_weights(q, k, graph.competitors, bias=bias, score=self.score)
        weights = self._finished(weights, graph)
        return EdgeMessages(graph, weights, self._drop(weights), v, *self._value_edges(graph))

    def literal(self, graph: AnyGraph) -> "LiteralMessages":
        """The e'_k of every edge as tensors that one can hold: the equations, one line each."""
        if isinstance(graph, DenseGraph):
            graph = graph.to_edge_list()
        q, k, v = self._project(graph)
        k, v, bias = self._with_edges(graph, k[graph.sender], v[graph.sender])
        weights = attention_weights(q, k, graph.competitors.own_keys(), bias=bias, score=self.score)
        weights = self._finished(weights, graph)
        return LiteralMessages(graph, weights, self._drop(weights).unsqueeze(-1) * v)

    # What the members of the family change: how edges reach the logits and the values, and what becomes of the weights.

    def _edge_logits(self, graph: AnyGraph, q: Tensor, k: Tensor) -> Tensor | None:  # noqa: ARG002
        """(W_q v_r) . (W_ke e_k) / sqrt(d) + w_be . e_k, as (W_ke^T q / sqrt(d) + w_be) . e_k."""
        logits = None
        asked = None if self.w_ke is None else asked_of_edges(q * self.scale, self.w_ke, self.num_heads)
        if self.w_be is not None:
            of_bias = self.w_be.weight if isinstance(graph, Graph) else self.w_be.weight.unsqueeze(1)
            asked = of_bias.expand(*q.shape[:-1], -1) if asked is None else asked + of_bias
        if asked is not None:
            logits = receivers_dot_edges(graph, asked, given(graph.e))
        if self.edges_are_logits and graph.e is not None:
            own = graph.e if isinstance(graph, Graph) else graph.e.permute(0, 3, 1, 2)
            logits = own if logits is None else logits + own
        return logits

    def _value_edges(self, graph: AnyGraph) -> tuple[Tensor | None, Tensor | None]:
        """The edges' part of the values as factors: features shared by the heads, and W_ve as (h, d, d_e)."""
        if self.w_ve is None:
            return None, None
        return graph.e, self.w_ve.weight.view(self.num_heads, self.head_dim, -1)

    def _with_edges(self, graph: Graph, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """k_k and v_k of every edge, (m, h, d), and what is added to its logits, (m, h): the literal form."""
        bias = graph.e if self.edges_are_logits else None
        if self.w_ke is not None:
            k = k + self.w_ke(graph.e).unflatten(-1, (self.num_heads, -1))
        if self.w_ve is not None:
            v = v + self.w_ve(graph.e).unflatten(-1, (self.num_heads, -1))
        if self.w_be is not None:
            bias = self.w_be(graph.e) if bias is None else bias + self.w_be(graph.e)
        return k, v, bias

    def _finished(self, weights: Tensor, graph: AnyGraph) -> Tensor:  # noqa: ARG002
        """The weights of the edges from those of the softmax: the same."""
        return weights

    def _is_one_operation(self, graph: DenseGraph) -> bool:
        """Whether `edge_attention` does it all: edges in keys and values, nothing of a member's own."""
        changed = (getattr(type(self), part) is not getattr(AttentionEdgeUpdate, part) for part in _PARTS)
        return (
            self.w_ke is not None
            and self.w_ve is not None
            and self.score is scaled_dot
            and not self.edges_are_logits
            and not any(changed)
            and is_one_operation(graph.v)
        )

    @property
    def speaks_plainly(self) -> bool:
        """Whether edges are in keys and values, and nothing is beside nodes and edges: no bias, no graph features."""
        return (
            self.w_ke is not None
            and self.w_ve is not None
            and self.score is scaled_dot
            and not self.edges_are_logits
            and self.w_q.bias is None
            and not self.global_dim
        )

    def _as_one_operation(self, graph: DenseGraph) -> "FusedMessages":
        self._check(graph)
        layers = (self.w_q, self.w_k, self.w_v)
        bias = None if self.w_q.bias is None else torch.cat([layer.bias for layer in layers])
        v = graph.v if all_true(graph.node_mask) else graph.v.masked_fill(~graph.node_mask.unsqueeze(-1), 0.0)
        packed = linear(v, torch.cat([layer.weight for layer in layers]), bias)
        if graph.u is not None:
            of_graph = torch.cat([given(layer).weight for layer in (self.w_qu, self.w_ku, self.w_vu)])
            packed = packed + graph.per_node(F.linear(graph.u, of_graph))
        kept = None
        if self.training and self.dropout > 0:
            b, n = graph.node_mask.shape
            kept = dropout_mask(packed, (b, self.num_heads, n, n), self.dropout)
        by_head = (self.num_heads, self.head_dim, -1)
        w_be = None if self.w_be is None else self.w_be.weight
        w_ke, w_ve = given(self.w_ke).weight.view(by_head), given(self.w_ve).weight.view(by_head)
        packed = packed.unflatten(-1, (3, *by_head[:2]))
        terms = EdgeTerms(packed, given(graph.e), w_ke, w_ve, w_be, graph.node_mask, graph.edge_mask, kept)
        return FusedMessages(graph, terms)

    @property
    def scale(self) -> float:
        """What a product of queries and keys is multiplied by."""
        return self.head_dim**-0.5 if self.score is scaled_dot else 1.0

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
        return q, k, v if self.activation is None else self.activation(v)

    def _check(self, graph: AnyGraph) -> None:
        """Features are used or refused, never left out in silence."""
        made_for = ((graph.e, self.edge_dim, "e", "edge_dim"), (graph.u, self.global_dim, "u", "global_dim"))
        for features, wanted, name, what in made_for:
            got = 0 if features is None else features.shape[-1]
            if wanted != got:
                raise ValueError(f"the graph has {got} features in {name}, the layer was made with {what}={wanted}")

    def _check_settings(
        self, edge_dim: int, num_heads: int, edges_as: Collection[str], activation: nn.Module | None
    ) -> None:
        unknown = [name for name in edges_as if name not in EDGES_AS]
        if unknown:
            raise ValueError(f"edges cannot speak as {unknown[0]!r}: choose among {', '.join(EDGES_AS)}")
        if "logits" in edges_as and edge_dim not in (0, num_heads):
            raise ValueError(f"edges that speak as logits have one channel per head: {num_heads}, not {edge_dim}")
        if edge_dim and "keys" in edges_as and self.score is not scaled_dot and self.score is not dot:
            raise ValueError("edges can be part of the keys where the score is a dot product, scaled or not")
        if edge_dim and "values" in edges_as and activation is not None:
            raise ValueError("edges cannot be part of values that go through an activation: leave 'values' out")

    def _drop(self, weights: Tensor) -> Tensor:
        return dropout(weights, self.dropout, self.training)


_PARTS = ("_edge_logits", "_value_edges", "_with_edges", "_finished", "_project")
"""What the members of the family change."""


T = TypeVar("T")


def given(x: T | None) -> T:
    """`x`, which the checks at the door have seen to be there."""
    assert x is not None
    return x


def asked_of_edges(x: Tensor, w: nn.Linear, num_heads: int) -> Tensor:
    """W^T x head by head, so that x . (W e) = (W^T x) . e: (n, h, d) or (b, h, n, d) to the channels of e."""
    of_heads = w.weight.view(num_heads, -1, w.in_features)
    return (x.transpose(0, 1) @ of_heads).transpose(0, 1) if x.dim() == 3 else x @ of_heads


def receivers_dot_edges(graph: AnyGraph, x: Tensor, e: Tensor) -> Tensor:
    """x_r . e_k for every edge k into r: (n, h, f), (m, f) -> (m, h) or (b, h, n, f), (b, n, n, f) -> (b, h, n, n)."""
    if isinstance(graph, Graph):
        return (graph.at_receivers(x) * e.unsqueeze(1)).sum(-1)
    return (x.transpose(1, 2) @ e.mT).transpose(1, 2)


def senders_dot_edges(graph: AnyGraph, x: Tensor, e: Tensor) -> Tensor:
    """x_s . e_k for every edge k from s; shapes as for `receivers_dot_edges`."""
    if isinstance(graph, Graph):
        return (graph.at_senders(x) * e.unsqueeze(1)).sum(-1)
    return (x.transpose(1, 2) @ e.permute(0, 2, 3, 1)).permute(0, 2, 3, 1)


@dataclass(frozen=True)
class EdgeMessages:
    """The e'_k of every edge as factors: e'_k = dropped_k (v_s + W_ve f_k). Summed without ever forming one.

    Attributes:
        graph: the graph whose edges these are, as phi_e saw it.
        weights: (m, h) of an edge list, (b, h, i, j) of a dense graph. Those of a softmax sum to 1 over the edges into
            a receiver.
        dropped: the weights after dropout; the weights themselves outside training.
        values: (n, h, d) or (b, h, n, d), the senders' part of the values.
        edges: f_k, the edges' part of the values before W_ve: (m, f) or (b, i, j, f), shared by the heads, or
            (m, h, f) or (b, i, j, h, f); None for none.
        w_ve: (h, d, f), or None.
    """

    graph: AnyGraph
    weights: Float[Tensor, "m h"] | Float[Tensor, "b h n n"]
    dropped: Float[Tensor, "m h"] | Float[Tensor, "b h n n"]
    values: Float[Tensor, "n h d"] | Float[Tensor, "b h n d"]
    edges: Tensor | None = None
    w_ve: Float[Tensor, "h d f"] | None = None

    def sum(self) -> Float[Tensor, "*nodes hd"]:
        """sum_k e'_k over the edges into each receiver, heads side by side: (n, h * d) or (b, n, h * d).

        Worked out once for rho_ev and rho_eu, which both ask for it: change what comes out of place.
        """
        # torch.compile cannot trace the lock of a cached property, and finds what is worked out twice itself.
        return self._summed() if torch.compiler.is_compiling() else self._sum

    @cached_property
    def _sum(self) -> Tensor:
        return self._summed()

    def _summed(self) -> Tensor:
        total = self.graph.competitors.reduce(self.dropped, self.values)
        total = total if isinstance(self.graph, Graph) else total.transpose(1, 2)
        if self.edges is not None:
            total = total + torch.einsum("...hf,hdf->...hd", self._summed_edges(), given(self.w_ve))
        return total.flatten(-2)

    def each(self) -> Float[Tensor, "*edges h d"]:
        """e'_k of every edge: (m, h, d) of an edge list, (b, i, j, h, d) of a dense graph; zeros where none is."""
        if isinstance(self.graph, Graph):
            weights, values = self.dropped, self.values[self.graph.sender]
        else:
            weights = self.dropped.permute(0, 2, 3, 1)
            values = self.graph.competitors.seen(self.values).transpose(1, 2).unsqueeze(1)
        if self.edges is not None:
            # Without a dimension of its own for the heads, an edge says the same to each of them.
            form = "...hf,hdf->...hd" if self._one_per_head else "...f,hdf->...hd"
            values = values + torch.einsum(form, self.edges, given(self.w_ve))
        return weights.unsqueeze(-1) * values

    @property
    def _one_per_head(self) -> bool:
        shared = self.dropped.dim() if isinstance(self.graph, DenseGraph) else 2
        return self.edges is not None and self.edges.dim() > shared

    def _summed_edges(self) -> Tensor:
        """sum_k dropped_k f_k: (..., h, f)."""
        e = given(self.edges)
        if isinstance(self.graph, Graph):
            return self.graph.sum_edges(self.dropped.unsqueeze(-1) * (e if self._one_per_head else e.unsqueeze(1)))
        if self._one_per_head:
            return torch.einsum("bhij,bijhf->bihf", self.dropped, e)
        return self.dropped.transpose(1, 2) @ e


class FusedMessages(EdgeMessages):
    """`EdgeMessages` of a dense graph that `edge_attention` sums, in which the weights are never all there at once.

    The weights are worked out when somebody looks at them. What is done to them then does not reach the sum.
    """

    def __init__(self, graph: DenseGraph, terms: EdgeTerms):
        # Into the dictionary itself: the fields of a frozen class cannot be set, and three of them are worked out late.
        vars(self).update(graph=graph, terms=terms, edges=graph.e, w_ve=terms.w_ve)

    @property
    def _terms(self) -> EdgeTerms:
        return vars(self)["terms"]

    @cached_property
    def weights(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._terms.weights()

    @cached_property
    def dropped(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._terms.dropped(self.weights)

    @cached_property
    def values(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._terms.packed[:, :, 2].transpose(1, 2)

    def _summed(self) -> Tensor:
        return edge_attention(self._terms).flatten(-2)


@dataclass(frozen=True)
class LiteralMessages:
    """The e'_k of every edge, each one there to be looked at; also what a phi_e of one's own may answer.

    Attributes:
        graph: the graph whose edges these are, as phi_e saw it; `AttentionEdgeUpdate.literal` makes an edge list of it.
        weights: (m, h) of an edge list, (b, h, i, j) of a dense graph, before dropout.
        e: (m, h, d) or (b, i, j, h, d), e'_k per head; zeros where there is no edge.
        edges: what `EdgeMessages` has under this name, where phi_e forms it anyway.
    """

    graph: AnyGraph
    weights: Float[Tensor, "m h"] | Float[Tensor, "b h n n"]
    e: Float[Tensor, "*edges h d"]
    edges: Tensor | None = None

    def sum(self) -> Float[Tensor, "*nodes hd"]:
        """sum_k e'_k over the edges into each receiver, heads side by side: (n, h * d) or (b, n, h * d)."""
        return self.graph.sum_edges(self.e).flatten(-2)

    def each(self) -> Float[Tensor, "*edges h d"]:
        """e'_k of every edge: `e`."""
        return self.e
