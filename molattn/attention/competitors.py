"""Who competes for a query: the keys of a row in a dense matrix, or the edges into one receiver.

Scores and normalizers are written once against the few operations that both forms have.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from molattn.kernels.tensor_checks import all_true, is_transformed


@runtime_checkable
class Competitors(Protocol):
    """What a score and a normalizer need to know about who competes with whom."""

    def pair_dot(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i . k_j for every pair that competes: the logits' shape."""
        ...

    def pair_sum(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i + k_j for every pair that competes: the logits' shape, then the features."""
        ...

    def seen(self, k: Tensor) -> Tensor:
        """Keys or values, those that no query may look at set to zero: 0 times NaN would be NaN otherwise."""
        ...

    def keep(self, x: Tensor) -> Tensor:
        """`x`, of the logits' shape, with zeros where a pair may not compete."""
        ...

    def total(self, x: Tensor) -> Tensor:
        """sum_j x_ij over each query's competitors, given back to each of them: the logits' shape."""
        ...

    def largest(self, x: Tensor) -> Tensor:
        """max_j x_ij over each query's competitors, given back to each of them, a constant to the gradient."""
        ...

    def softmax(self, logits: Tensor) -> Tensor:
        """exp(x_j - max) / sum_j exp(x_j - max) over each query's competitors, zeros where it has none."""
        ...

    def reduce(self, weights: Tensor, v: Tensor) -> Tensor:
        """sum_j w_ij v_j for every query i."""
        ...


@dataclass(frozen=True)
class Rows:
    """The competitors of query i are the keys j of row i for which `mask` is True.

    Shapes: q (..., i, d), k (..., j, d), v (..., j, c), logits and weights (..., i, j). A single query (d,) gives
    weights (j,).

    Attributes:
        mask: boolean, broadcastable to the logits, True where i may attend to j; None lets everyone attend.
        blank: whether keys and values that no query may look at are known to be small finite numbers, so that a
            weight of zero is enough to hide them.
    """

    mask: Tensor | None = None
    blank: bool = False

    def __post_init__(self) -> None:
        if self.mask is not None and self.mask.dtype != torch.bool:
            raise TypeError(f"the mask of Rows is boolean, True where a query may attend; got {self.mask.dtype}")

    def pair_dot(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ self.seen(k).mT

    def pair_sum(self, q: Tensor, k: Tensor) -> Tensor:
        k = self.seen(k)
        return q + k if q.dim() == 1 else q.unsqueeze(-2) + k.unsqueeze(-3)

    def keep(self, x: Tensor) -> Tensor:
        return x if self.mask is None else x.masked_fill(~self.mask, 0.0)

    def total(self, x: Tensor) -> Tensor:
        return self.keep(x).sum(-1, keepdim=True).expand_as(x)

    def largest(self, x: Tensor) -> Tensor:
        if x.shape[-1] == 0:  # no keys: nothing to look for, and nowhere to give it back to
            return x.detach()
        return self._lowered(x.detach()).amax(-1, keepdim=True).expand_as(x)

    def softmax(self, logits: Tensor) -> Tensor:
        # The second fill turns a row with nobody allowed, and whatever rounding left behind, into exact zeros.
        return self.keep(torch.softmax(self._lowered(logits), dim=-1))

    def reduce(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights @ self.seen(v)

    def seen(self, k: Tensor) -> Tensor:
        if self.mask is None or self.blank:
            return k
        # Values may be one number each, (j,), as in the book's example.
        seen = self.seen_by_any()
        return k.masked_fill(~(seen if k.dim() > 1 else seen.squeeze(-1)), 0.0)

    def seen_by_any(self) -> Tensor:
        """(..., j, 1), True for the keys that some query may look at; there must be a mask."""
        assert self.mask is not None
        if self.mask.dim() < 2:
            return self.mask.unsqueeze(-1)
        # A mask of padding is the same for every query: there is nothing to look through.
        return self.mask.mT if self.mask.shape[-2] == 1 else any_along(self.mask, -2).unsqueeze(-1)

    def padding_blanked(self, x: Tensor) -> Tensor:
        """`x`, (..., j, c), before it becomes the keys of several heads: zeros where no query of any head may look."""
        if self.mask is None:
            return x
        seen = _in_any_head(self.seen_by_any())
        return x if all_true(seen) else x.masked_fill(~seen, 0.0)

    def finite_where_hidden(self, x: Tensor) -> Tensor:
        """`x`, (..., j, c), with zeros for what is not finite in a row where no query of any head may look."""
        return x if self.mask is None else _finite_but_in(_in_any_head(self.seen_by_any()), x)

    def finite_queries(self, x: Tensor, alone: bool) -> Tensor:
        """`x`, (..., i, c), before it becomes the queries of several heads: zeros for what is not finite in a row that
        may look at nobody and, where the queries are the keys (`alone`), in one that nobody may look at.

        Nothing else comes of such a row, but 0 times NaN would be NaN in the gradients.
        """
        if self.mask is None:
            return x
        real = _in_any_head(any_along(self.mask, -1).unsqueeze(-1))
        if alone:
            real = real & _in_any_head(self.seen_by_any())
        return _finite_but_in(real, x)

    def _lowered(self, x: Tensor) -> Tensor:
        # The lowest finite number, not -inf: a row with nobody allowed stays finite, also in the backward pass.
        return x if self.mask is None else x.masked_fill(~self.mask, torch.finfo(x.dtype).min)


class PaddedNodes(Rows):
    """The nodes of b padded graphs, each attending to those of its own graph, the same in every head.

    Shapes: q, k and v (b, h, n, ...), logits and weights (b, h, i, j).

    Attributes:
        node_mask: (b, n), True where there is a node; None where there is one everywhere.
        edge_mask: (b, n, n), True where i may attend to j; None where every pair of nodes may.
    """

    node_mask: Tensor | None
    edge_mask: Tensor | None

    def __init__(self, node_mask: Tensor | None = None, edge_mask: Tensor | None = None, blank: bool = False):
        for name, mask in (("node_mask", node_mask), ("edge_mask", edge_mask)):
            if mask is not None and mask.dtype != torch.bool:
                raise TypeError(f"{name} is boolean, True where there is one; got {mask.dtype}")
        # Into the dictionary itself: the fields of a frozen class cannot be set, and the mask is made when asked for.
        vars(self).update(node_mask=node_mask, edge_mask=edge_mask, blank=blank)

    @cached_property
    def mask(self) -> Tensor | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        pairs = self.edge_mask
        if self.node_mask is not None:
            nodes = self.node_mask.unsqueeze(-1) & self.node_mask.unsqueeze(-2)
            pairs = nodes if pairs is None else pairs & nodes
        return None if pairs is None else pairs.unsqueeze(1)


@dataclass(frozen=True)
class Segments:
    """The competitors of receiver i are the edges k with receiver[k] = i.

    Shapes: q (receivers, ..., d), k (senders, ..., d), v (senders, ..., c), logits and weights (edges, ...).

    Rows are taken with index_select, not by indexing: the same numbers in a fraction of the time, forth and back.

    Attributes:
        sender: (edges,) which row of keys and values an edge brings.
        receiver: (edges,) which query it competes for.
        num_receivers: how many queries there are; said, never guessed from the largest index.
    """

    sender: Int[Tensor, "e"]
    receiver: Int[Tensor, "e"]
    num_receivers: int

    def own_keys(self) -> "Segments":
        """The same competitions where every edge brings a key and a value of its own: k and v are (edges, ...)."""
        every_edge = torch.arange(len(self.receiver), device=self.receiver.device)
        return Segments(every_edge, self.receiver, self.num_receivers)

    def pair_dot(self, q: Tensor, k: Tensor) -> Tensor:
        return (q.index_select(0, self.receiver) * k.index_select(0, self.sender)).sum(-1)

    def pair_sum(self, q: Tensor, k: Tensor) -> Tensor:
        return q.index_select(0, self.receiver) + k.index_select(0, self.sender)

    def seen(self, k: Tensor) -> Tensor:
        seen = torch.zeros(k.shape[0], dtype=torch.bool, device=k.device)
        seen[self.sender] = True
        return k.masked_fill(~seen.view(-1, *[1] * (k.dim() - 1)), 0.0)

    def keep(self, x: Tensor) -> Tensor:
        return x  # an edge list names only the pairs that compete

    def total(self, x: Tensor) -> Tensor:
        return self.sum_into(x).index_select(0, self.receiver)

    def largest(self, x: Tensor) -> Tensor:
        index = self.receiver.long().view(-1, *[1] * (x.dim() - 1)).expand_as(x)
        lowest = x.new_full((self.num_receivers, *x.shape[1:]), -torch.inf)
        return lowest.scatter_reduce(0, index, x.detach(), "amax", include_self=True).index_select(0, self.receiver)

    def softmax(self, logits: Tensor) -> Tensor:
        # The maximum only shifts both exponentials, so no gradient goes through it.
        shifted = torch.exp(logits - self.largest(logits))
        return shifted / self.total(shifted)

    def reduce(self, weights: Tensor, v: Tensor) -> Tensor:
        return self.sum_into(weights.unsqueeze(-1) * v.index_select(0, self.sender))

    def at_receivers(self, x: Tensor) -> Tensor:
        """What belongs to a query, given to each of its competitors: (receivers, ...) -> (edges, ...)."""
        return x.index_select(0, self.receiver)

    def sum_into(self, x: Tensor) -> Tensor:
        """The sum over the competitors of each query: (edges, ...) -> (receivers, ...)."""
        return x.new_zeros(self.num_receivers, *x.shape[1:]).index_add(0, self.receiver, x)


def _in_any_head(rows: Tensor) -> Tensor:
    """(..., h, n, 1) -> (..., n, 1); without heads as it is."""
    if rows.dim() < 3:
        return rows
    return rows.squeeze(-3) if rows.shape[-3] == 1 else rows.any(-3)


def _finite_but_in(real: Tensor, x: Tensor) -> Tensor:
    # The same tensor where it can be: another node would have gradients added in another order.
    if all_true(real):
        return x
    stays = real | x.isfinite()
    return x if all_true(stays) else torch.where(stays, x, 0.0)


# Below so many elements, calling one operation costs more than what it does.
_SMALL = 4096


def any_along(mask: Tensor, dim: int) -> Tensor:
    """`mask.any(dim)`; a large one as the maximum of its bytes: thirty times faster on a CPU at 1024 by 1024."""
    if torch.compiler.is_compiling():
        return mask.sum(dim) > 0  # the C++ that torch 2.7 writes for two of `any` does not compile
    if not _takes_bytes(mask) or mask.numel() <= _SMALL:
        return mask.any(dim)
    return mask.view(torch.uint8).amax(dim).view(torch.bool)


def either(a: Tensor, b: Tensor) -> Tensor:
    """`a | b` of masks, by their bytes, which are the faster to combine."""
    if not _takes_bytes(a, b):
        return a | b
    return (a.view(torch.uint8) | b.view(torch.uint8)).view(torch.bool)


def _takes_bytes(*masks: Tensor) -> bool:
    # The C++ that torch.compile writes has no masks seen as bytes.
    return not torch.compiler.is_compiling() and not is_transformed(*masks)
