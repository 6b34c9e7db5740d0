"""Attention layouts: which keys each query may attend to, as a dense masked matrix or as an edge list.

Scores and normalizers use only operations that both layouts provide, so that each is written once.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from molattn.kernels.batch_layout import valid_pairs
from molattn.kernels.operations import all_true, tracing_reason


@runtime_checkable
class AttentionLayout(Protocol):
    """What a score and a normalizer need: operations over the valid pairs of a query i and a key j.

    `DenseLayout` and `EdgeListLayout` implement it. An instance of any class with these methods passes `isinstance`.

    Shapes: q (..., i, d), k (..., j, d), v (..., j, c), logits and weights (..., i, j) in a `DenseLayout`; q
    (receivers, ..., d), k (senders, ..., d), v (senders, ..., c), logits and weights (edges, ...) in an
    `EdgeListLayout`.

    >>> import torch
    >>> from molattn.attention import AttentionLayout, DenseLayout, EdgeListLayout
    >>> def negative_distance(q, k, layout: AttentionLayout):  # a score, written once for both layouts
    ...     return -layout.pairwise_sum(q, -k).norm(dim=-1)
    >>> edges = EdgeListLayout(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), num_receivers=1)
    >>> q, k = torch.randn(1, 4), torch.randn(3, 4)
    >>> torch.allclose(negative_distance(q, k, DenseLayout())[0], negative_distance(q, k, edges))
    True
    """

    def pairwise_dot(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i . k_j for every valid pair: the logits' shape."""
        ...

    def pairwise_sum(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i + k_j for every valid pair: the logits' shape, then the channels."""
        ...

    def zero_unattended(self, k: Tensor) -> Tensor:
        """Keys or values, with zeros for those that no query attends to: 0 times NaN would be NaN otherwise."""
        ...

    def zero_masked(self, x: Tensor) -> Tensor:
        """`x`, of the logits' shape, with zeros for masked pairs."""
        ...

    def sum_over_keys(self, x: Tensor) -> Tensor:
        """sum_j x_ij over the valid keys of each query, expanded to each of its pairs; x has the logits' shape."""
        ...

    def max_over_keys(self, x: Tensor) -> Tensor:
        """max_j x_ij over the valid keys of each query, expanded to each of its pairs; x has the logits' shape.

        It is detached from the graph.
        """
        ...

    def softmax(self, logits: Tensor) -> Tensor:
        """The softmax of `logits` over the valid keys of each query; zeros if it has none.

        exp(a_ij - m_i) / sum_j exp(a_ij - m_i),    m_i = max_j a_ij
        """
        ...

    def weighted_sum(self, weights: Tensor, v: Tensor) -> Tensor:
        """sum_j w_ij v_j for every query i."""
        ...


@dataclass(frozen=True)
class DenseLayout:
    """Query i may attend to the keys j for which `mask[..., i, j]` is True.

    Shapes: q (..., i, d), k (..., j, d), v (..., j, c), logits and weights (..., i, j). A single query (d,) gives
    weights (j,).

    Attributes:
        mask: boolean, broadcastable to the logits, True where i may attend to j; None for no mask.
        padding_is_finite: True if the keys and values that no query attends to, and the queries without a valid key,
            are known to be finite. They are then not replaced by zeros: a weight of zero times a finite number is zero,
            but times NaN or infinity it is NaN.

    Raises:
        TypeError: the mask is not boolean.

    >>> import torch
    >>> from molattn.attention import DenseLayout, attention_weights
    >>> layout = DenseLayout(torch.tensor([[True, True, False]]))  # the last key is padding, for every query
    >>> weights = attention_weights(torch.randn(2, 4), torch.randn(3, 4), layout)
    >>> weights[:, 2].tolist(), torch.allclose(weights.sum(-1), torch.ones(2))
    ([0.0, 0.0], True)
    """

    mask: Tensor | None = None
    padding_is_finite: bool = False

    def __post_init__(self) -> None:
        if self.mask is not None and self.mask.dtype != torch.bool:
            raise TypeError(f"the mask must be boolean, True where a query may attend; got {self.mask.dtype}")

    def pairwise_dot(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i . k_j of all pairs, also masked ones: (..., i, j) from q, (..., i, d), and k, (..., j, d).

        Keys that no query attends to count as zero.
        """
        return q @ self.zero_unattended(k).mT

    def pairwise_sum(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i + k_j of all pairs, also masked ones: (..., i, j, d) from q, (..., i, d), and k, (..., j, d).

        Keys that no query attends to count as zero.
        """
        k = self.zero_unattended(k)
        return q + k if q.dim() == 1 else q.unsqueeze(-2) + k.unsqueeze(-3)

    def zero_masked(self, x: Tensor) -> Tensor:
        """`x`, (..., i, j), with zeros for masked pairs, also in place of NaN."""
        return x if self.mask is None else x.masked_fill(~self.mask, 0.0)

    def sum_over_keys(self, x: Tensor) -> Tensor:
        """sum_j x_ij over the valid keys of each query, expanded to the shape of `x`, (..., i, j)."""
        return self.zero_masked(x).sum(-1, keepdim=True).expand_as(x)

    def max_over_keys(self, x: Tensor) -> Tensor:
        """max_j x_ij over the valid keys of each query, expanded to the shape of `x`, (..., i, j).

        It is detached from the graph. For a query without a valid key it is the lowest finite number of the dtype.
        """
        if x.shape[-1] == 0:  # no keys: amax would raise, and there is nothing to expand to
            return x.detach()
        return self._fill_masked_with_min(x.detach()).amax(-1, keepdim=True).expand_as(x)

    def softmax(self, logits: Tensor) -> Tensor:
        """The softmax of `logits`, (..., i, j), over the valid keys of each query; zeros for masked pairs."""
        # Masked weights become exact zeros, also in rows without a valid key.
        return self.zero_masked(torch.softmax(self._fill_masked_with_min(logits), dim=-1))

    def weighted_sum(self, weights: Tensor, v: Tensor) -> Tensor:
        """sum_j w_ij v_j, (..., i, c), from weights, (..., i, j), and v, (..., j, c)."""
        return weights @ self.zero_unattended(v)

    def zero_unattended(self, k: Tensor) -> Tensor:
        """Keys or values `k`, (..., j, d), with zeros for those that no query attends to.

        With `padding_is_finite` they are returned unchanged.
        """
        if self.mask is None or self.padding_is_finite:
            return k
        # Each value may be a single number, v (j,), as in the example of the book chapter (see `molattn.graph`).
        attended = self.attended_keys()
        return k.masked_fill(~(attended if k.dim() > 1 else attended.squeeze(-1)), 0.0)

    def zero_queries_without_keys(self, q: Tensor) -> Tensor:
        """Queries `q`, (..., i, d), with zeros for those without a valid key: NaN in them would reach gradients of k.

        With `padding_is_finite` they are returned unchanged.
        """
        if self.mask is None or self.padding_is_finite:
            return q
        has_valid_key = mask_any(self.mask, -1).unsqueeze(-1)
        return q if all_true(has_valid_key) else q.masked_fill(~has_valid_key, 0.0)

    def attended_keys(self) -> Tensor:
        """(..., j, 1), True for the keys that at least one query attends to; the layout must have a mask."""
        assert self.mask is not None
        if self.mask.dim() < 2:
            return self.mask.unsqueeze(-1)
        # A padding mask is the same for every query: nothing to reduce.
        return self.mask.mT if self.mask.shape[-2] == 1 else mask_any(self.mask, -2).unsqueeze(-1)

    def zero_padding(self, x: Tensor) -> Tensor:
        """`x`, (..., j, c), input of a key or value projection: zeros in rows that no query of any head attends to."""
        if self.mask is None:
            return x
        attended = _in_any_head(self.attended_keys())
        return x if all_true(attended) else x.masked_fill(~attended, 0.0)

    def zero_nonfinite_padding(self, x: Tensor) -> Tensor:
        """`x`, (..., j, c), with zeros for NaN and infinity in rows that no query of any head attends to."""
        return x if self.mask is None else _zero_nonfinite(x, except_in=_in_any_head(self.attended_keys()))

    def zero_nonfinite_queries(self, x: Tensor, self_attention: bool) -> Tensor:
        """`x`, (..., i, c), the input of the query projection: zeros for NaN and infinity in rows without a valid
        key and, if the queries are also the keys (`self_attention`), in rows that no query attends to.

        The weights of such a row are zero anyway, but 0 times NaN would be NaN in the gradients.
        """
        if self.mask is None:
            return x
        valid = _in_any_head(mask_any(self.mask, -1).unsqueeze(-1))
        if self_attention:
            valid = valid & _in_any_head(self.attended_keys())
        return _zero_nonfinite(x, except_in=valid)

    def _fill_masked_with_min(self, x: Tensor) -> Tensor:
        # The lowest finite number, not -inf: a row without a valid key stays finite, also in the backward pass.
        return x if self.mask is None else x.masked_fill(~self.mask, torch.finfo(x.dtype).min)


class PaddedGraphLayout(DenseLayout):
    """The nodes of b padded graphs, each attending to nodes of its own graph, the same in every head.

    Shapes: q, k and v (b, h, n, ...), logits and weights (b, h, i, j).

    Attributes:
        node_mask: (b, n), True for nodes, False for padding; None if there is no padding.
        edge_mask: (b, n, n), True where i may attend to j; None if all pairs of nodes are valid.
        padding_is_finite: as for `DenseLayout`.

    Raises:
        TypeError: a mask is not boolean.

    >>> import torch
    >>> from molattn.attention import PaddedGraphLayout, attention_weights
    >>> layout = PaddedGraphLayout(node_mask=torch.tensor([[True, True], [True, False]]))  # 2 atoms, and 1 atom
    >>> q, k = torch.randn(2, 2, 1, 2, 4)
    >>> attention_weights(q, k, layout)[1, 0].tolist()  # of the second graph
    [[1.0, 0.0], [0.0, 0.0]]
    """

    node_mask: Tensor | None
    edge_mask: Tensor | None

    def __init__(
        self, node_mask: Tensor | None = None, edge_mask: Tensor | None = None, padding_is_finite: bool = False
    ):
        for name, mask in (("node_mask", node_mask), ("edge_mask", edge_mask)):
            if mask is not None and mask.dtype != torch.bool:
                raise TypeError(f"{name} must be boolean, True for valid entries; got {mask.dtype}")
        # Written to __dict__: the fields of a frozen dataclass cannot be assigned, and `mask` is computed on first use.
        vars(self).update(node_mask=node_mask, edge_mask=edge_mask, padding_is_finite=padding_is_finite)

    def with_finite_padding(self) -> "PaddedGraphLayout":
        """This layout, for keys and values that are finite in the padding."""
        return PaddedGraphLayout(self.node_mask, self.edge_mask, padding_is_finite=True)

    @cached_property
    def mask(self) -> Tensor | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(b, 1, n, n), True where node i may attend to node j; None if there is neither node_mask nor edge_mask."""
        pairs = valid_pairs(self.node_mask, self.edge_mask)
        return None if pairs is None else pairs.unsqueeze(1)


@dataclass(frozen=True)
class EdgeListLayout:
    """Query i, a receiver node, may attend to the senders of its incoming edges.

    Shapes: q (receivers, ..., d), k (senders, ..., d), v (senders, ..., c), logits and weights (edges, ...).

    Attributes:
        sender: (edges,) index of the key and value of each edge: PyG's `edge_index[0]` with flow "source_to_target".
        receiver: (edges,) index of the query of each edge: PyG's `edge_index[1]`.
        num_receivers: number of queries; explicit, never inferred from the largest index.

    >>> import torch
    >>> from molattn.attention import EdgeListLayout, attention_weights
    >>> edges = EdgeListLayout(sender=torch.tensor([0, 1, 2]), receiver=torch.tensor([0, 0, 1]), num_receivers=2)
    >>> weights = attention_weights(torch.randn(2, 4), torch.randn(3, 4), edges)
    >>> tuple(weights.shape), torch.allclose(edges.scatter_sum(weights), torch.ones(2))
    ((3,), True)
    """

    sender: Int[Tensor, "e"]
    receiver: Int[Tensor, "e"]
    num_receivers: int

    # Rows are gathered by `index_select`: it gives the same numbers as indexing, and is several times faster in the
    # forward and the backward pass.

    def with_key_per_edge(self) -> "EdgeListLayout":
        """The same edges, each with a key and a value of its own: k and v are (edges, ...)."""
        every_edge = torch.arange(self.receiver.shape[0], device=self.receiver.device)
        return EdgeListLayout(every_edge, self.receiver, self.num_receivers)

    def pairwise_dot(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i . k_j of every edge, (edges, ...), from q, (receivers, ..., d), and k, (senders, ..., d)."""
        return (q.index_select(0, self.receiver) * k.index_select(0, self.sender)).sum(-1)

    def pairwise_sum(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i + k_j of every edge, (edges, ..., d), from q, (receivers, ..., d), and k, (senders, ..., d)."""
        return q.index_select(0, self.receiver) + k.index_select(0, self.sender)

    def zero_unattended(self, k: Tensor) -> Tensor:
        """Keys or values `k`, (senders, ..., d), with zeros for those that are the sender of no edge."""
        attended = torch.zeros(k.shape[0], dtype=torch.bool, device=k.device)
        attended[self.sender] = True
        return k.masked_fill(~attended.view(-1, *[1] * (k.dim() - 1)), 0.0)

    def zero_masked(self, x: Tensor) -> Tensor:
        """`x` itself, (edges, ...): an edge list has only valid pairs."""
        return x

    def sum_over_keys(self, x: Tensor) -> Tensor:
        """The sum of `x`, (edges, ...), over the edges into the same receiver, for each edge: (edges, ...)."""
        return self.scatter_sum(x).index_select(0, self.receiver)

    def max_over_keys(self, x: Tensor) -> Tensor:
        """The maximum of `x`, (edges, ...), over the edges into the same receiver, for each edge: (edges, ...).

        It is detached from the graph.
        """
        index = self.receiver.long().view(-1, *[1] * (x.dim() - 1)).expand_as(x)
        lowest = x.new_full((self.num_receivers, *x.shape[1:]), -torch.inf)
        return lowest.scatter_reduce(0, index, x.detach(), "amax", include_self=True).index_select(0, self.receiver)

    def softmax(self, logits: Tensor) -> Tensor:
        """The softmax of `logits`, (edges, ...), over the edges into the same receiver."""
        # The maximum only shifts numerator and denominator alike, so it needs no gradient.
        shifted = torch.exp(logits - self.max_over_keys(logits))
        return shifted / self.sum_over_keys(shifted)

    def weighted_sum(self, weights: Tensor, v: Tensor) -> Tensor:
        """sum_j w_ij v_j, (receivers, ..., c), from weights, (edges, ...), and v, (senders, ..., c).

        A receiver without an edge gets zeros.
        """
        return self.scatter_sum(weights.unsqueeze(-1) * v.index_select(0, self.sender))

    def gather_receivers(self, x: Tensor) -> Tensor:
        """The row of each edge's receiver: from `x`, (receivers, ...), to (edges, ...)."""
        return x.index_select(0, self.receiver)

    def scatter_sum(self, x: Tensor) -> Tensor:
        """The sum of `x` over the edges into each receiver: (edges, ...) -> (receivers, ...)."""
        return scatter_sum(x, self.receiver, self.num_receivers)


def scatter_sum(x: Tensor, index: Tensor, size: int) -> Tensor:
    """y_i = sum of the rows x_k with index_k = i: (rows, ...) -> (size, ...).

    Numbers of 16 bits are added in float32: a sum in bfloat16 stops growing at 256 terms.
    """
    if x.dtype in (torch.float16, torch.bfloat16):
        return scatter_sum(x.float(), index, size).to(x.dtype)
    return x.new_zeros(size, *x.shape[1:]).index_add(0, index, x)


def _in_any_head(rows: Tensor) -> Tensor:
    """True for rows that are True in at least one head: (..., h, n, 1) -> (..., n, 1); unchanged without heads."""
    if rows.dim() < 3:
        return rows
    return rows.squeeze(-3) if rows.shape[-3] == 1 else rows.any(-3)


def _zero_nonfinite(x: Tensor, except_in: Tensor) -> Tensor:
    """`x`, (..., n, c), with zeros for NaN and infinity, except in the rows where `except_in`, (..., n, 1), is True."""
    # Returns `x` itself where possible: another autograd node would change the order in which gradients are added.
    if all_true(except_in):
        return x
    unchanged = except_in | x.isfinite()
    return x if all_true(unchanged) else torch.where(unchanged, x, 0.0)


# Up to this many elements, the overhead of viewing the mask as bytes outweighs the faster reduction.
_FEW_ELEMENTS = 4096


def mask_any(mask: Tensor, dim: int) -> Tensor:
    """`mask.any(dim)`; for large masks computed as the maximum of their bytes, which is 30 times faster for 1024 x 1024
    on a CPU."""
    if torch.compiler.is_compiling():
        return mask.sum(dim) > 0  # the C++ that torch 2.7 generates for two calls of `any` does not compile
    if not _can_view_as_bytes(mask) or mask.numel() <= _FEW_ELEMENTS:
        return mask.any(dim)
    return mask.view(torch.uint8).amax(dim).view(torch.bool)


def mask_or(a: Tensor, b: Tensor) -> Tensor:
    """`a | b` of masks, computed on their bytes, which is faster."""
    if not _can_view_as_bytes(a, b):
        return a | b
    return (a.view(torch.uint8) | b.view(torch.uint8)).view(torch.bool)


def _can_view_as_bytes(*masks: Tensor) -> bool:
    # The C++ that torch.compile generates does not support viewing masks as bytes.
    return not tracing_reason(*masks)
