"""Scores: how well a key answers a query, (q, k) -> logits. The tables at the foot name them.

A score without weights is a function, one with weights a module; both are called as score(q, k, over), and each is
written once for rows of a matrix and for edge lists.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from molattn.attention.competitors import Competitors, Rows

Score = Callable[[Tensor, Tensor, Competitors], Tensor]


def dot(q: Tensor, k: Tensor, over: Competitors) -> Tensor:
    """Dot score.

    a_ij = q_i . k_j

    Shapes: those of `over`. Source: Luong et al. 2015, arXiv:1508.04025.
    """
    return over.pair_dot(q, k)


def scaled_dot(q: Tensor, k: Tensor, over: Competitors) -> Tensor:
    """Scaled dot score: the variance of the logits does not grow with d, the number of features of a query.

    a_ij = q_i . k_j / sqrt(d)

    Shapes: those of `over`. Source: Vaswani et al. 2017, arXiv:1706.03762.
    """
    return over.pair_dot(q * q.shape[-1] ** -0.5, k)


def query_of_products(score: Score) -> Callable[[Tensor], Tensor] | None:
    """f of the queries, where the score is f(q_i) . k_j; None for other scores."""
    if score is dot:
        return lambda q: q
    if score is scaled_dot:
        return lambda q: q * q.shape[-1] ** -0.5
    return score.w if isinstance(score, General) else None


class General(nn.Module):
    """General, or multiplicative, score: queries and keys may differ in their number of features.

    a_ij = q_i^T W k_j

    Args:
        query_dim, key_dim: features of a query and of a key. `w.weight` is W^T, (key_dim, query_dim).

    Shapes: those of `over`. Source: Luong et al. 2015, arXiv:1508.04025.
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.w = nn.Linear(query_dim, key_dim, bias=False)

    def forward(self, q: Tensor, k: Tensor, over: Competitors) -> Tensor:
        """(q_i^T W) . k_j, so that only the queries are projected."""
        return over.pair_dot(self.w(q), k)


class Additive(nn.Module):
    """Additive score; the same as Luong's "concat", whose W is [W_q, W_k] side by side.

    a_ij = w . tanh(W_q q_i + W_k k_j + b)

    Holds hidden_dim numbers for every pair.

    Args:
        query_dim, key_dim: features of a query and of a key.
        hidden_dim: features of what goes through tanh.

    Shapes: those of `over`. Source: Bahdanau et al. 2015, arXiv:1409.0473; Luong et al. 2015, arXiv:1508.04025.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int):
        super().__init__()
        self.w_q = nn.Linear(query_dim, hidden_dim, bias=False)
        self.w_k = nn.Linear(key_dim, hidden_dim)
        self.w = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor, over: Competitors) -> Tensor:
        """Each key is projected once, however many queries look at it."""
        return self.of_projected(q, self.w_k(over.seen(k)), over)

    def of_projected(self, q: Tensor, projected: Tensor, over: Competitors) -> Tensor:
        """The same from `projected` = W_k k + b: for queries that come one after the other to keys that stay."""
        return self.w(torch.tanh(over.pair_sum(self.w_q(q), projected))).squeeze(-1)


class Location(nn.Module):
    """Location score: the query alone says which positions it wants; what stands there is not asked.

    a_ij = (W q_i)_j

    Args:
        query_dim: features of a query.
        max_length: the largest number of keys; W is (max_length, query_dim), and fewer keys use its first rows.

    Shapes: those of `Rows`. Source: Luong et al. 2015, arXiv:1508.04025.
    """

    def __init__(self, query_dim: int, max_length: int):
        super().__init__()
        self.w = nn.Linear(query_dim, max_length, bias=False)

    def forward(self, q: Tensor, k: Tensor, over: Competitors) -> Tensor:
        """Refuses edges (TypeError), whose senders have no position, and more keys than max_length (ValueError)."""
        if not isinstance(over, Rows):
            raise TypeError("the location score needs positions: it works on rows of a matrix, not on edge lists")
        num_keys = k.shape[-2]
        if num_keys > self.w.out_features:
            raise ValueError(f"{num_keys} keys are more than the location score's max_length {self.w.out_features}")
        return self.w(q)[..., :num_keys]


def make_score(
    score: str | Score,
    query_dim: int,
    key_dim: int,
    *,
    hidden_dim: int | None = None,
    max_length: int | None = None,
) -> Score:
    """A score from its name, with weights of the right sizes where it has any; a score itself is returned as it is.

    Args:
        score: a name in `SCORES` or `SCORES_WITH_WEIGHTS`, or a score.
        query_dim, key_dim: features of a query and of a key.
        hidden_dim: for "additive"; query_dim by default.
        max_length: for "location".

    Raises:
        ValueError: an unknown name, or "location" without a max_length.

    >>> make_score("general", 3, 4)
    General(
      (w): Linear(in_features=3, out_features=4, bias=False)
    )
    """
    if not isinstance(score, str):
        return score
    if score in SCORES:
        return SCORES[score]
    if score not in SCORES_WITH_WEIGHTS:
        raise ValueError(f"unknown score {score!r}: choose one of {', '.join([*SCORES, *SCORES_WITH_WEIGHTS])}")
    return SCORES_WITH_WEIGHTS[score](query_dim, key_dim, hidden_dim or query_dim, max_length)


def _location(query_dim: int, _key_dim: int, _hidden_dim: int, max_length: int | None) -> Location:
    if max_length is None:
        raise ValueError("the location score needs a max_length, the largest number of keys")
    return Location(query_dim, max_length)


SCORES: dict[str, Score] = {"dot": dot, "scaled_dot": scaled_dot}

# From (query_dim, key_dim, hidden_dim, max_length), of which each takes what it needs.
SCORES_WITH_WEIGHTS: dict[str, Callable[[int, int, int, int | None], Score]] = {
    "general": lambda query_dim, key_dim, _hidden_dim, _max_length: General(query_dim, key_dim),
    "additive": lambda query_dim, key_dim, hidden_dim, _max_length: Additive(query_dim, key_dim, hidden_dim),
    "location": _location,
}
