"""The messages e'_k, the output of an edge update: as weights and values, computed lazily, or materialized."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from molattn.attention import AttentionLayout, EdgeTerms, attend, attention_weights
from molattn.graph.graph import AnyGraph, DenseGraph, Graph

T = TypeVar("T")


def not_none(x: T | None) -> T:
    """Return `x`, which an earlier check ensures is not None: for the type checker."""
    assert x is not None
    return x


def apply_dropout(weights: Tensor, mask: Tensor | None) -> Tensor:
    return weights if mask is None else weights * mask


def edge_value_terms(edges: EdgeTerms | None) -> tuple[Tensor | None, Tensor | None]:
    """f_k and W_ve, whose product is the edge term of the values; None and None if there is none."""
    return (None, None) if edges is None or edges.w_ve is None else (edges.e, edges.w_ve)


class AttentionCall(NamedTuple):
    """The arguments of `attend` except for dropout."""

    q: Tensor
    k: Tensor
    v: Tensor
    layout: AttentionLayout
    kwargs: dict[str, Any]

    def weights(self) -> Tensor:
        return attention_weights(self.q, self.k, self.layout, **self.kwargs)

    def sum(self, mask: Tensor | None) -> Tensor:
        return attend(self.q, self.k, self.v, self.layout, **self.kwargs, dropout_mask=mask)


@dataclass(frozen=True)
class EdgeMessages:
    """The e'_k of every edge as attention weights and values, which are summed without materializing any e'_k.

    e'_k = alpha_k (value_s + W_ve f_k)

    Attributes:
        graph: the input of phi_e.
        weights: (m, h) of an edge list, (b, h, i, j) of a dense graph. Those of a softmax sum to 1 over the edges into
            a receiver.
        weights_after_dropout: alpha_k; equal to the weights outside training.
        values: (n, h, d) or (b, h, n, d), value_s: the senders' part of the values.
        edges: f_k, the edge features that W_ve maps to values: (m, f) or (b, i, j, f), shared by the heads, or
            (m, h, f) or (b, i, j, h, f); None if the values have no edge term.
        w_ve: (h, d, f); None without edges.

    >>> import torch
    >>> from molattn.graph import EdgeMessages, Graph
    >>> graph = Graph.from_edge_index(torch.zeros(3, 1), torch.tensor([[1, 2], [0, 0]]))  # 1 -> 0 and 2 -> 0
    >>> alpha, values = torch.tensor([[0.25], [0.75]]), torch.tensor([[[0.0]], [[4.0]], [[8.0]]])
    >>> messages = EdgeMessages(graph, alpha, alpha, values)
    >>> messages.per_edge().flatten().tolist(), messages.sum().tolist()
    ([1.0, 6.0], [[7.0], [0.0], [0.0]])
    """

    graph: AnyGraph
    weights: Float[Tensor, "m h"] | Float[Tensor, "b h n n"]
    weights_after_dropout: Float[Tensor, "m h"] | Float[Tensor, "b h n n"]
    values: Float[Tensor, "n h d"] | Float[Tensor, "b h n d"]
    edges: Tensor | None = None
    w_ve: Float[Tensor, "h d f"] | None = None

    def sum(self) -> Float[Tensor, "*nodes hd"]:
        """sum_k e'_k over the edges into each receiver, heads concatenated: (n, h * d) or (b, n, h * d).

        The result is cached, since both rho_ev and rho_eu use it: do not modify it in place.
        """
        return self._once("sum", self._compute_sum)

    def _once(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """The result of `compute`, which is called once.

        A result without gradients, of a call within `torch.no_grad`, is not returned where gradients are recorded.
        """
        if not self._has(name):
            if torch.compiler.is_compiling():  # a compiler removes the duplicate computation itself
                return compute()
            self._keep(name, compute(), torch.is_grad_enabled())
        return vars(self)["cache"][name][0]

    def _keep(self, name: str, x: Tensor, with_gradients: bool) -> None:
        # In `vars`, as the fields of a frozen class cannot be set.
        vars(self).setdefault("cache", {})[name] = x, with_gradients

    def _has(self, name: str) -> bool:
        """Whether `_once` has a result of this name that can be used."""
        _, with_gradients = vars(self).get("cache", {}).get(name, (None, None))
        return with_gradients is not None and with_gradients >= torch.is_grad_enabled()

    def _compute_sum(self) -> Tensor:
        total = self.graph.attention_layout.weighted_sum(self.weights_after_dropout, self.values)
        total = total if isinstance(self.graph, Graph) else total.transpose(1, 2)
        if self.edges is not None:
            total = total + torch.einsum("...hf,hdf->...hd", self._sum_edge_terms(), not_none(self.w_ve))
        return total.flatten(-2)

    def per_edge(self) -> Float[Tensor, "*edges h d"]:
        """e'_k of every edge: (m, h, d) of an edge list; (b, i, j, h, d) of a dense graph, zeros without an edge."""
        if isinstance(self.graph, Graph):
            weights, values = self.weights_after_dropout, self.values[self.graph.sender]
        else:
            weights = self.weights_after_dropout.permute(0, 2, 3, 1)
            values = self.graph.attention_layout.zero_unattended(self.values).transpose(1, 2).unsqueeze(1)
        if self.edges is not None:
            # Edge features without a head dimension are the same for every head.
            equation = "...hf,hdf->...hd" if self._edges_have_heads else "...f,hdf->...hd"
            values = values + torch.einsum(equation, self.edges, not_none(self.w_ve))
        return weights.unsqueeze(-1) * values

    @property
    def _edges_have_heads(self) -> bool:
        dims_without_heads = self.weights_after_dropout.dim() if isinstance(self.graph, DenseGraph) else 2
        return self.edges is not None and self.edges.dim() > dims_without_heads

    def _sum_edge_terms(self) -> Tensor:
        """sum_k alpha_k f_k: (..., h, f)."""
        e = not_none(self.edges)
        if isinstance(self.graph, Graph):
            e = e if self._edges_have_heads else e.unsqueeze(1)
            return self.graph.sum_edges(self.weights_after_dropout.unsqueeze(-1) * e)
        if self._edges_have_heads:
            return torch.einsum("bhij,bijhf->bihf", self.weights_after_dropout, e)
        return self.weights_after_dropout.transpose(1, 2) @ e


class LazyEdgeMessages(EdgeMessages):
    """`EdgeMessages` summed by `molattn.attention.attend`, which may compute the sum without the weights.

    The weights are computed on first access; `sum` uses them if they have been accessed before it.
    """

    @classmethod
    def from_call(cls, graph: AnyGraph, call: AttentionCall, dropout_mask: Tensor | None) -> "LazyEdgeMessages":
        """The messages, without their weights."""
        messages, (edges, w_ve) = object.__new__(cls), edge_value_terms(call.kwargs["edges"])
        # Written to `vars`: the fields of a frozen class cannot be set, and two of them are computed lazily.
        vars(messages).update(graph=graph, call=call, dropout_mask=dropout_mask, values=call.v, edges=edges, w_ve=w_ve)
        return messages

    @property
    def weights(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._once("weights", lambda: vars(self)["call"].weights())

    @weights.setter  # `dataclasses.replace` sets it
    def weights(self, x: Tensor) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._keep("weights", x, True)

    @property
    def weights_after_dropout(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._once("dropout", lambda: apply_dropout(self.weights, vars(self)["dropout_mask"]))

    @weights_after_dropout.setter
    def weights_after_dropout(self, x: Tensor) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._keep("dropout", x, True)

    def _compute_sum(self) -> Tensor:
        if self._has("weights"):
            return super()._compute_sum()
        total = vars(self)["call"].sum(vars(self)["dropout_mask"])
        return (total if isinstance(self.graph, Graph) else total.transpose(1, 2)).flatten(-2)


@dataclass(frozen=True)
class MaterializedMessages:
    """The e'_k of every edge, materialized; a custom phi_e may return it.

    Attributes:
        graph: the input of phi_e; `AttentionEdgeUpdate.materialize` converts it to an edge list.
        weights: (m, h) of an edge list, (b, h, i, j) of a dense graph, before dropout.
        e: (m, h, d) or (b, i, j, h, d), e'_k per head; zeros where there is no edge.
        edges: as in `EdgeMessages`, if phi_e computes it; else None.

    >>> import torch
    >>> from molattn.graph import Graph, MaterializedMessages
    >>> graph = Graph.from_edge_index(torch.zeros(3, 2), torch.tensor([[1, 2], [0, 0]]))  # 1 -> 0 and 2 -> 0
    >>> e = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])  # 2 edges, 1 head, 2 channels
    >>> MaterializedMessages(graph, torch.ones(2, 1), e).sum().tolist()
    [[4.0, 6.0], [0.0, 0.0], [0.0, 0.0]]
    """

    graph: AnyGraph
    weights: Float[Tensor, "m h"] | Float[Tensor, "b h n n"]
    e: Float[Tensor, "*edges h d"]
    edges: Tensor | None = None

    def sum(self) -> Float[Tensor, "*nodes hd"]:
        """sum_k e'_k over the edges into each receiver, heads concatenated: (n, h * d) or (b, n, h * d)."""
        return self.graph.sum_edges(self.e).flatten(-2)

    def per_edge(self) -> Float[Tensor, "*edges h d"]:
        """e'_k of every edge: `e`."""
        return self.e


Messages = EdgeMessages | MaterializedMessages
