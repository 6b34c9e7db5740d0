"""phi_e, the edge update: attention, in which a node is the query and its senders and their edges are the keys."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention import (
    Competitors,
    EdgeTerms,
    Normalizer,
    Score,
    attend,
    attention_weights,
    linear,
    make_normalizer,
    make_score,
    softmax,
)
from molattn.attention.dropout import dropout_mask
from molattn.attention.score import Location, scaled_dot
from molattn.graph.graph import AnyGraph, DenseGraph, Graph
from molattn.kernels.tensor_checks import all_true

EDGES_AS = ("keys", "values", "bias", "logits")
"""What edge features can be: part of the keys, part of the values, a learned bias, or the logits' own bias."""


class AttentionEdgeUpdate(nn.Module):
    """Multi-head tensor-dot attention as Battaglia's edge update.

    e'_k = w_k (W_v v_s + W_ve e_k)
    w_k  = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) + w_be . e_k )

    with v_r the receiver (the query), v_s the sender, e_k the edge between them, in each of the heads. With graph
    features u, each of q, k and v also gets a term: W_q v_r + W_qu u, and so on. Another score takes the place of the
    scaled product, of the query and of the key with its edge; another normalizer that of the softmax.

    The softmax runs over the edges into one receiver, so this phi_e is not strictly a function of one edge: it is
    the weight that each edge wins among its competitors. Without edge features it is the book's equations 14.2
    to 14.7.

    Where the score is a product, neither W_ke e_k nor W_ve e_k is ever formed per edge: q . (W_ke e) = (W_ke^T q) . e,
    and sum_k w_k W_ve e_k = W_ve sum_k w_k e_k. `literal` forms them, and gives the same numbers.

    Args:
        node_dim, edge_dim, global_dim: d_v, d_e, d_u; 0 for graphs without edge or graph features.
        num_heads, head_dim: h and d.
        dropout: probability of dropping a weight, in training.
        edges_as: what the edges are, names in `EDGES_AS`: "keys" (W_ke), "values" (W_ve), "bias" (w_be), and "logits":
            e_k itself, which then has one channel per head, is added to the logits.
        score: of queries and keys, a name or a module as `molattn.attention.make_score` takes it; all heads share its
            weights. Not "location": nodes have no positions.
        normalizer: a name in `molattn.attention.NORMALIZERS`, or a function such as `Softmax(temperature)`.
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
        normalizer: str | Normalizer = "softmax",
        bias: bool = False,
        activation: nn.Module | None = None,
    ):
        super().__init__()
        if score == "location" or isinstance(score, Location):
            raise ValueError("the location score needs positions, which the nodes of a graph do not have")
        self.score = make_score(score, head_dim, head_dim)
        self.normalizer = make_normalizer(normalizer)
        self._check_settings(edge_dim, num_heads, edges_as, activation)
        self.num_heads, self.head_dim, self.dropout = num_heads, head_dim, dropout
        self.node_dim, self.edge_dim, self.global_dim = node_dim, edge_dim, global_dim
        self.edges_are_logits = "logits" in edges_as
        self.activation = activation
        width = num_heads * head_dim
        roles = edges_as if edge_dim else ()
        self.w_q = nn.Linear(node_dim, width, bias=bias)
        self.w_k = nn.Linear(node_dim, width, bias=bias)
        self.w_v = nn.Linear(node_dim, width, bias=bias)
        self.w_ke = nn.Linear(edge_dim, width, bias=False) if "keys" in roles else None
        self.w_ve = nn.Linear(edge_dim, width, bias=False) if "values" in roles else None
        self.w_be = nn.Linear(edge_dim, num_heads, bias=False) if "bias" in roles else None
        self.w_qu = nn.Linear(global_dim, width, bias=False) if global_dim else None
        self.w_ku = nn.Linear(global_dim, width, bias=False) if global_dim else None
        self.w_vu = nn.Linear(global_dim, width, bias=False) if global_dim else None

    def forward(self, graph: AnyGraph, senders: Graph | None = None) -> "EdgeMessages":
        """The e'_k of every edge, not yet multiplied out, from `molattn.attention.attend`.

        With `senders`, edges come from other nodes than they go to: `graph.sender` counts the nodes of `senders`, of
        which only node and graph features are read, and W_k and W_v may take other widths than W_q.
        """
        q, k, v = self._project(graph, senders)
        edges, bias = self._edge_terms(graph, q, k)
        how = {"bias": bias, "edges": edges, "score": self.score, "normalizer": self.normalizer}
        attended = _Attended(q, k, v, graph.competitors, how)
        mask = self._dropout_mask(graph, q)
        if type(self)._finished is AttentionEdgeUpdate._finished and not torch.compiler.is_compiling():
            return AttendedMessages.of(graph, attended, mask)
        weights = self._finished(attended.weights(), graph)
        return EdgeMessages(graph, weights, _times(weights, mask), v, *_value_edges(edges))

    def literal(self, graph: AnyGraph, senders: Graph | None = None) -> "LiteralMessages":
        """The e'_k of every edge as tensors that one can hold: the equations, one line each; `senders` as above."""
        if isinstance(graph, DenseGraph):
            graph = graph.to_edge_list()
        q, k, v = self._project(graph, senders)
        k, v, bias = self._with_edges(graph, k[graph.sender], v[graph.sender])
        over = graph.competitors.own_keys()
        weights = attention_weights(q, k, over, bias=bias, score=self.score, normalizer=self.normalizer)
        weights = self._finished(weights, graph)
        return LiteralMessages(graph, weights, _times(weights, self._dropout_mask(graph, q)).unsqueeze(-1) * v)

    # What subclasses override: how edges enter the logits and the values, and how the weights are transformed.

    def _edge_terms(self, graph: AnyGraph, q: Tensor, k: Tensor) -> tuple[EdgeTerms | None, Tensor | None]:  # noqa: ARG002
        """What the edges are for keys, values and logits, and what else is added to the logits."""
        logits = None
        if self.edges_are_logits and graph.e is not None:
            logits = graph.e if isinstance(graph, Graph) else graph.e.permute(0, 3, 1, 2)
        if graph.e is None or self.w_ke is self.w_ve is self.w_be is None:
            return None, logits
        w_ke, w_ve = (
            None if w is None else w.weight.unflatten(0, (self.num_heads, -1)) for w in (self.w_ke, self.w_ve)
        )
        return EdgeTerms(graph.e, w_ke, w_ve, None if self.w_be is None else self.w_be.weight), logits

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
        """The weights of the edges from those of the normalizer: the same."""
        return weights

    @property
    def why_not_fusable(self) -> str:
        """Why a block with this phi_e is not part of a fused stack, in words; empty where it can be."""
        if type(self) is not AttentionEdgeUpdate:
            return f"its phi_e is {type(self).__name__}"
        if self.score is not scaled_dot or self.normalizer != softmax:
            return "a score other than scaled_dot, or a normalizer other than softmax"
        if self.w_ke is None or self.w_ve is None or self.edges_are_logits:
            return "edges that are not part of keys and values"
        return (
            "graph features (global_dim)" if self.global_dim else "a bias of W_q" if self.w_q.bias is not None else ""
        )

    @property
    def scale(self) -> float:
        """What a product of queries and keys is multiplied by."""
        return self.head_dim**-0.5 if self.score is scaled_dot else 1.0

    def _project(self, graph: AnyGraph, senders: Graph | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v: (n, h, d) of an edge list, (b, h, n, d) of a dense graph; k and v of `senders` where it is given."""
        self._check(graph)
        if senders is None:
            q, k, v = self._heads(graph, (self.w_q, self.w_k, self.w_v), (self.w_qu, self.w_ku, self.w_vu))
        else:
            (q,) = self._heads(graph, (self.w_q,), (self.w_qu,))
            k, v = self._heads(senders, (self.w_k, self.w_v), (self.w_ku, self.w_vu))
        return q, k, v if self.activation is None else self.activation(v)

    def _heads(
        self, graph: AnyGraph, layers: Sequence[nn.Linear], of_graph: Sequence[nn.Linear | None]
    ) -> tuple[Tensor, ...]:
        """What each of these layers makes of the nodes, and each of those of their graph, by one product."""
        x = graph.v
        if isinstance(graph, DenseGraph) and not all_true(graph.node_mask):
            x = x.masked_fill(~graph.node_mask.unsqueeze(-1), 0.0)  # NaN there would reach the gradients of the weights
        bias = None if self.w_q.bias is None else torch.cat([layer.bias for layer in layers])
        packed = linear(x, torch.cat([layer.weight for layer in layers]), bias)
        if graph.u is not None:
            packed = packed + graph.per_node(F.linear(graph.u, torch.cat([not_none(of).weight for of in of_graph])))
        heads = packed.unflatten(-1, (len(layers), self.num_heads, self.head_dim)).unbind(-3)
        return tuple(x.transpose(1, 2) for x in heads) if isinstance(graph, DenseGraph) else heads

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
            raise ValueError(f"edges cannot be {unknown[0]!r}: choose among {', '.join(EDGES_AS)}")
        if "logits" in edges_as and edge_dim not in (0, num_heads):
            raise ValueError(f"edges that are logits have one channel per head: {num_heads}, not {edge_dim}")
        if edge_dim and "values" in edges_as and activation is not None:
            raise ValueError("edges cannot be part of values that go through an activation: leave 'values' out")

    def _dropout_mask(self, graph: AnyGraph, q: Tensor) -> Tensor | None:
        """What the weights are multiplied by, of their shape; None for nothing."""
        if not self.training or self.dropout == 0:
            return None
        if isinstance(graph, Graph):
            return dropout_mask(q, (len(graph.receiver), self.num_heads), self.dropout)
        b, n = graph.node_mask.shape
        return dropout_mask(q, (b, self.num_heads, n, n), self.dropout)


T = TypeVar("T")


def not_none(x: T | None) -> T:
    """`x`, which the checks at the door have seen to be there."""
    assert x is not None
    return x


def query_in_edge_space(x: Tensor, w: nn.Linear, num_heads: int) -> Tensor:
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


def _times(weights: Tensor, mask: Tensor | None) -> Tensor:
    return weights if mask is None else weights * mask


def _value_edges(edges: EdgeTerms | None) -> tuple[Tensor | None, Tensor | None]:
    """The edges' part of the values as factors, if there is one."""
    return (None, None) if edges is None or edges.w_ve is None else (edges.e, edges.w_ve)


class _Attended(NamedTuple):
    """What `attend` is called with, but for dropout; `how` is by name."""

    q: Tensor
    k: Tensor
    v: Tensor
    over: Competitors
    how: dict[str, Any]

    def weights(self) -> Tensor:
        return attention_weights(self.q, self.k, self.over, **self.how)

    def sum(self, mask: Tensor | None) -> Tensor:
        return attend(self.q, self.k, self.v, self.over, **self.how, dropout_mask=mask)


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
            total = total + torch.einsum("...hf,hdf->...hd", self._summed_edges(), not_none(self.w_ve))
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
            values = values + torch.einsum(form, self.edges, not_none(self.w_ve))
        return weights.unsqueeze(-1) * values

    @property
    def _one_per_head(self) -> bool:
        shared = self.dropped.dim() if isinstance(self.graph, DenseGraph) else 2
        return self.edges is not None and self.edges.dim() > shared

    def _summed_edges(self) -> Tensor:
        """sum_k dropped_k f_k: (..., h, f)."""
        e = not_none(self.edges)
        if isinstance(self.graph, Graph):
            return self.graph.sum_edges(self.dropped.unsqueeze(-1) * (e if self._one_per_head else e.unsqueeze(1)))
        if self._one_per_head:
            return torch.einsum("bhij,bijhf->bihf", self.dropped, e)
        return self.dropped.transpose(1, 2) @ e


class AttendedMessages(EdgeMessages):
    """`EdgeMessages` that `molattn.attention.attend` sums, in which the weights need not be there.

    They are worked out when somebody looks at them; a sum that is asked for later is made of them.
    """

    @classmethod
    def of(cls, graph: AnyGraph, attended: _Attended, dropout_mask: Tensor | None) -> "AttendedMessages":
        """Without the weights."""
        messages, (edges, w_ve) = object.__new__(cls), _value_edges(attended.how["edges"])
        # Into the dictionary itself: the fields of a frozen class cannot be set, and two of them are worked out late.
        vars(messages).update(
            graph=graph, attended=attended, dropout_mask=dropout_mask, values=attended.v, edges=edges, w_ve=w_ve
        )
        return messages

    @cached_property
    def weights(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return vars(self)["attended"].weights()

    @cached_property
    def dropped(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _times(self.weights, vars(self)["dropout_mask"])

    def _summed(self) -> Tensor:
        if "weights" in vars(self):
            return super()._summed()
        total = vars(self)["attended"].sum(vars(self)["dropout_mask"])
        return (total if isinstance(self.graph, Graph) else total.transpose(1, 2)).flatten(-2)


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
