"""Edge features in attention: terms added to the key, the value and the logit of a pair."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from molattn.attention.layout import AttentionLayout, DenseLayout, EdgeListLayout
from molattn.attention.score import Score, query_transform


@dataclass(frozen=True)
class EdgeTerms:
    """Edge features, projected and added to keys, values and logits.

    a_hij = score(q_hi, k_hj + W_ke e_ij) + w_be . e_ij
    o_hi  = sum_j w_hij (v_hj + W_ve e_ij)

    For dot-product scores neither W_ke e_ij nor W_ve e_ij is computed, since q . (W_ke e) = (W_ke^T q) . e and
    sum_j w_j W_ve e_j = W_ve sum_j w_j e_j. Other scores need the keys of all pairs.

    Attributes:
        e: (b, i, j, f) with a `DenseLayout` of h heads, e[b, i, j] being the edge from sender j to receiver i;
            (edges, f) with an `EdgeListLayout`. Entries of masked pairs must be finite.
        w_ke: (h, d, f), the weights of the edge term in the keys; None for no term.
        w_ve: (h, c, f), the weights of the edge term in the values; None for no term.
        w_be: (h, f), the weight of the edge term in the logits; None for no term.

    >>> import torch
    >>> from molattn.attention import EdgeTerms, attention_weights
    >>> bonded = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])  # the atoms of ethanol, C-C-O
    >>> edges = EdgeTerms(bonded.reshape(1, 3, 3, 1), w_be=torch.tensor([[1000.0]]))
    >>> q, k = torch.zeros(1, 1, 3, 4), torch.randn(1, 1, 3, 4)
    >>> attention_weights(q, k, edges=edges)[0, 0].tolist()  # each atom attends to those that are bonded to it
    [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    """

    e: Float[Tensor, "*pairs f"]
    w_ke: Float[Tensor, "h d f"] | None = None
    w_ve: Float[Tensor, "h c f"] | None = None
    w_be: Float[Tensor, "h f"] | None = None

    def logits(self, q: Tensor, k: Tensor, layout: AttentionLayout, score: Score) -> Tensor:
        """score(q_i, k_j + W_ke e_ij) + w_be . e_ij of every pair.

        Args:
            q: queries, (b, h, n, d), or (receivers, h, d) with an `EdgeListLayout`.
            k: keys, (b, h, n, d), or (senders, h, d).
            layout: the valid pairs.
            score: a function or a module.

        Returns:
            (b, h, i, j) or (edges, h).
        """
        transform = query_transform(score)
        if self.w_ke is not None and transform is None:
            logits = self._score_with_edge_keys(q, k, layout, score)
            return logits if self.w_be is None else logits + dot_edges(self._bias(q, layout), self.e, layout)
        logits = score(q, k, layout)
        edge_query = None  # x_i such that x_i . e_ij is the sum of the edge terms
        if self.w_ke is not None:
            assert transform is not None
            edge_query = matmul_per_head(transform(q), self.w_ke.mT, layout)
        if self.w_be is not None:
            bias = self._bias(q, layout)
            edge_query = bias if edge_query is None else edge_query + bias
        return logits if edge_query is None else logits + dot_edges(edge_query, self.e, layout)

    def weighted_sum(self, weights: Tensor, v: Tensor, layout: AttentionLayout) -> Tensor:
        """sum_j w_ij (v_j + W_ve e_ij) for every query i.

        Args:
            weights: (b, h, i, j), or (edges, h) with an `EdgeListLayout`.
            v: values, (b, h, n, c), or (senders, h, c).
            layout: the valid pairs.

        Returns:
            (b, h, i, c) or (receivers, h, c).
        """
        output = layout.weighted_sum(weights, v)
        if self.w_ve is None:
            return output
        if isinstance(layout, EdgeListLayout):
            edge_sum = layout.scatter_sum(weights.unsqueeze(-1) * self.e.unsqueeze(1))
        else:
            edge_sum = (weights.transpose(-3, -2) @ self.e).transpose(-3, -2)
        return output + matmul_per_head(edge_sum, self.w_ve, layout)

    def _bias(self, q: Tensor, layout: AttentionLayout) -> Tensor:
        """w_be, expanded to every query: (..., f) for q (..., d)."""
        assert self.w_be is not None
        w_be = self.w_be if isinstance(layout, EdgeListLayout) else self.w_be.unsqueeze(1)
        return w_be.expand(*q.shape[:-1], -1)

    def _score_with_edge_keys(self, q: Tensor, k: Tensor, layout: AttentionLayout, score: Score) -> Tensor:
        """score(q_i, k_j + W_ke e_ij), with the keys of all pairs in memory, which dot products do not need."""
        assert self.w_ke is not None
        edge_keys = torch.einsum("...f,hdf->...hd", self.e, self.w_ke)
        if isinstance(layout, EdgeListLayout):
            return score(q, k.index_select(0, layout.sender) + edge_keys, layout.with_key_per_edge())
        # Each query has its own keys: queries (b, h, i, 1, d) with keys (b, h, i, j, d).
        mask = layout.mask if isinstance(layout, DenseLayout) else None
        per_query = DenseLayout(None if mask is None else mask.unsqueeze(-2))
        k = layout.zero_unattended(k).unsqueeze(-3) + edge_keys.movedim(-2, -4)
        return score(q.unsqueeze(-2), k, per_query).squeeze(-2)


def matmul_per_head(x: Tensor, w: Tensor, layout: AttentionLayout) -> Tensor:
    """x_h w_h^T for each head h: x (n, h, d) with an `EdgeListLayout`, else (b, h, n, d); w (h, c, d)."""
    if isinstance(layout, EdgeListLayout):
        return (x.transpose(0, 1) @ w.mT).transpose(0, 1)
    return x @ w.mT


def dot_edges(x: Tensor, e: Tensor, layout: AttentionLayout) -> Tensor:
    """x_i . e_ij of every pair, where x has a row x_i for each query and head; e as in `EdgeTerms`."""
    if isinstance(layout, EdgeListLayout):
        return (layout.gather_receivers(x) * e.unsqueeze(1)).sum(-1)
    return (x.transpose(-3, -2) @ e.mT).transpose(-3, -2)
