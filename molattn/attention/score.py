"""Scores: how well a key matches a query, (q, k) -> logits. `SCORES` and `SCORES_WITH_WEIGHTS` list their names.

A score without weights is a function, one with weights a module; both are called as score(q, k, layout) and work for
dense layouts and edge lists.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from molattn.attention.arguments import check_sizes
from molattn.attention.layout import AttentionLayout, DenseLayout
from molattn.errors import unknown_choice

Score = Callable[[Tensor, Tensor, AttentionLayout], Tensor]


def dot(q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
    """Dot score.

    a_ij = q_i . k_j

    Shapes: those of `layout`. Source: Luong et al. 2015, arXiv:1508.04025.
    """
    return layout.pairwise_dot(q, k)


def scaled_dot(q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
    """Scaled dot score: scaled so that the variance of the logits does not grow with d, the number of channels.

    a_ij = q_i . k_j / sqrt(d)

    Shapes: those of `layout`. Source: Vaswani et al. 2017, arXiv:1706.03762.
    """
    return layout.pairwise_dot(q * q.shape[-1] ** -0.5, k)


def query_transform(score: Score) -> Callable[[Tensor], Tensor] | None:
    """f, if the score is a dot product f(q_i) . k_j; None for other scores."""
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

    Shapes: those of `layout`. Source: Luong et al. 2015, arXiv:1508.04025.
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.w = nn.Linear(query_dim, key_dim, bias=False)

    def forward(self, q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
        """(q_i^T W) . k_j, so that only the queries are projected."""
        return layout.pairwise_dot(self.w(q), k)


class Additive(nn.Module):
    """Additive score; the same as Luong's "concat", whose W is [W_q, W_k] side by side.

    a_ij = w . tanh(W_q q_i + W_k k_j + b)

    Needs memory for hidden_dim numbers per pair.

    Args:
        query_dim, key_dim: features of a query and of a key.
        hidden_dim: features inside tanh.

    Shapes: those of `layout`. Source: Bahdanau et al. 2015, arXiv:1409.0473; Luong et al. 2015, arXiv:1508.04025.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int):
        super().__init__()
        self.w_q = nn.Linear(query_dim, hidden_dim, bias=False)
        self.w_k = nn.Linear(key_dim, hidden_dim)
        self.w = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
        """Each key is projected once, regardless of the number of queries."""
        return self.forward_projected(q, self.w_k(layout.zero_unattended(k)), layout)

    def forward_projected(self, q: Tensor, projected_k: Tensor, layout: AttentionLayout) -> Tensor:
        """The score from `projected_k` = W_k k + b, which a decoder computes once for all of its steps."""
        return self.w(torch.tanh(layout.pairwise_sum(self.w_q(q), projected_k))).squeeze(-1)


class Location(nn.Module):
    """Location score: depends on the query and the position of the key, not on the key itself.

    a_ij = (W q_i)_j

    Args:
        query_dim: features of a query.
        max_length: maximum number of keys; W is (max_length, query_dim), and fewer keys use its first rows.

    Shapes: those of `DenseLayout`. Source: Luong et al. 2015, arXiv:1508.04025.
    """

    def __init__(self, query_dim: int, max_length: int):
        super().__init__()
        self.w = nn.Linear(query_dim, max_length, bias=False)

    def forward(self, q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
        """Raises TypeError for edge lists, whose senders have no position, and ValueError for more keys than
        max_length."""
        if not isinstance(layout, DenseLayout):
            raise TypeError("the location score needs positions: it works with a DenseLayout, not with an edge list")
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
    """A score from its name, with new weights if it has any; a callable is returned unchanged.

    Args:
        score: a name in `SCORES` or `SCORES_WITH_WEIGHTS`, or a callable.
        query_dim, key_dim: features of a query and of a key.
        hidden_dim: for "additive"; query_dim by default.
        max_length: for "location".

    Raises:
        ValueError: the name is unknown, "location" has no max_length, or a size is below 1.

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
        raise ValueError(unknown_choice("score", score, (*SCORES, *SCORES_WITH_WEIGHTS)))
    check_sizes(query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim, max_length=max_length)
    return SCORES_WITH_WEIGHTS[score](query_dim, key_dim, query_dim if hidden_dim is None else hidden_dim, max_length)


def _location(query_dim: int, _key_dim: int, _hidden_dim: int, max_length: int | None) -> Location:
    if max_length is None:
        raise ValueError("the location score needs a max_length, the maximum number of keys")
    return Location(query_dim, max_length)


SCORES: dict[str, Score] = {"dot": dot, "scaled_dot": scaled_dot}

# Called with (query_dim, key_dim, hidden_dim, max_length); each uses the ones it needs.
SCORES_WITH_WEIGHTS: dict[str, Callable[[int, int, int, int | None], Score]] = {
    "general": lambda query_dim, key_dim, _hidden_dim, _max_length: General(query_dim, key_dim),
    "additive": lambda query_dim, key_dim, hidden_dim, _max_length: Additive(query_dim, key_dim, hidden_dim),
    "location": _location,
}
