"""What the edge between a query and a key adds to the logit of the pair and to its value."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from molattn.attention.competitors import Competitors, Rows, Segments
from molattn.attention.score import Score, query_of_products


@dataclass(frozen=True)
class EdgeTerms:
    """Edge features as part of the keys, of the values and of the logits.

    a_hij = score(q_hi, k_hj + W_ke e_ij) + w_be . e_ij
    o_hi  = sum_j w_hij (v_hj + W_ve e_ij)

    Neither W_ke e_ij nor W_ve e_ij is formed where the score is a product, since q . (W_ke e) = (W_ke^T q) . e and
    sum_j w_j W_ve e_j = W_ve sum_j w_j e_j. For other scores the keys of all pairs are formed.

    Attributes:
        e: (b, i, j, f) over `Rows` of h heads, [b, i, j] of the edge from sender j to receiver i; (edges, f) over
            `Segments`. What stands where no pair competes is finite.
        w_ke, w_ve: (h, d, f), what edges add to keys and to values; None for nothing.
        w_be: (h, f), what they add to the logits; None for nothing.
    """

    e: Float[Tensor, "*pairs f"]
    w_ke: Float[Tensor, "h d f"] | None = None
    w_ve: Float[Tensor, "h c f"] | None = None
    w_be: Float[Tensor, "h f"] | None = None

    def logits(self, q: Tensor, k: Tensor, over: Competitors, score: Score) -> Tensor:
        """score(q_i, k_j + W_ke e_ij) + w_be . e_ij of every pair: the logits' shape."""
        product = query_of_products(score)
        if self.w_ke is not None and product is None:
            logits = self._score_of_pairs(q, k, over, score)
            return logits if self.w_be is None else logits + self._along_edges(self._spread(q), over)
        logits = score(q, k, over)
        at_query = None
        if self.w_ke is not None:
            assert product is not None
            at_query = _by_head(product(q), self.w_ke.mT, over)
        if self.w_be is not None:
            at_query = self._spread(q) if at_query is None else at_query + self._bias(over)
        return logits if at_query is None else logits + self._along_edges(at_query, over)

    def reduce(self, weights: Tensor, v: Tensor, over: Competitors) -> Tensor:
        """sum_j w_ij (v_j + W_ve e_ij) for every query i."""
        output = over.reduce(weights, v)
        if self.w_ve is None:
            return output
        if isinstance(over, Segments):
            return output + _by_head(over.sum_into(weights.unsqueeze(-1) * self.e.unsqueeze(1)), self.w_ve, over)
        return output + _by_head((weights.transpose(-3, -2) @ self.e).transpose(-3, -2), self.w_ve, over)

    def _bias(self, over: Competitors) -> Tensor:
        assert self.w_be is not None
        return self.w_be if isinstance(over, Segments) else self.w_be.unsqueeze(1)

    def _spread(self, q: Tensor) -> Tensor:
        """w_be for every query, (h, f) of each."""
        assert self.w_be is not None
        of_bias = self.w_be if q.dim() == 3 else self.w_be.unsqueeze(1)
        return of_bias.expand(*q.shape[:-1], -1)

    def _along_edges(self, at_query: Tensor, over: Competitors) -> Tensor:
        """x_i . e_ij of every pair, for x of each query and head."""
        if isinstance(over, Segments):
            return (over.at_receivers(at_query) * self.e.unsqueeze(1)).sum(-1)
        return (at_query.transpose(-3, -2) @ self.e.mT).transpose(-3, -2)

    def _score_of_pairs(self, q: Tensor, k: Tensor, over: Competitors, score: Score) -> Tensor:
        """The score of every query and of the keys with their edges, each pair's own."""
        assert self.w_ke is not None
        of_edges = torch.einsum("...f,hdf->...hd", self.e, self.w_ke)
        if isinstance(over, Segments):
            return score(q, k.index_select(0, over.sender) + of_edges, over.own_keys())
        # Every query becomes a row of its own: (b, h, i, 1, d) with keys (b, h, i, j, d).
        mask = over.mask if isinstance(over, Rows) else None
        rows = Rows(None if mask is None else mask.unsqueeze(-2))
        k = over.seen(k).unsqueeze(-3) + of_edges.movedim(-2, -4)
        return score(q.unsqueeze(-2), k, rows).squeeze(-2)


def _by_head(x: Tensor, w: Tensor, over: Competitors) -> Tensor:
    """x_h w_h^T head by head: (n, h, d) over `Segments` or (b, h, n, d), w (h, c, d)."""
    if isinstance(over, Segments):
        return (x.transpose(0, 1) @ w.mT).transpose(0, 1)
    return x @ w.mT
