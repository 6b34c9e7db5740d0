"""Scores: how well a key matches a query, (q, k) -> logits. `SCORES` and `SCORES_WITH_WEIGHTS` list their names.

A score without weights is a function, one with weights a module; both are called as score(q, k, layout) and work for
dense layouts and edge lists.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from molattn.attention.arguments import check_sizes, resolve_name
from molattn.attention.layout import AttentionLayout, DenseLayout
from molattn.attention.unmodified import are_unmodified
from molattn.errors import unknown_choice

Score = Callable[[Tensor, Tensor, AttentionLayout], Tensor]
"""A score: called as score(q, k, layout), it returns the logits. Their shapes are those of the `AttentionLayout`."""


def dot(q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
    """Dot score: the product of query and key.

    a_ij = q_i . k_j

    Args:
        q: queries, (..., i, d), or a single one, (d,); with an `EdgeListLayout` (receivers, ..., d).
        k: keys, (..., j, d), or (senders, ..., d), with as many channels.
        layout: the valid pairs, a `DenseLayout` or an `EdgeListLayout`.

    Returns:
        Logits, (..., i, j) or (edges, ...). Those of masked pairs are arbitrary; the normalizers ignore them.

    Source: Luong et al. 2015, arXiv:1508.04025.

    >>> import torch
    >>> from molattn.attention import DenseLayout, dot
    >>> q, k = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> dot(q, k, DenseLayout()).tolist()
    [[3.0, 8.0]]
    """
    return layout.pairwise_dot(q, k)


def scaled_dot(q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
    """Scaled dot score: scaled so that the variance of the logits does not grow with d, the number of channels.

    a_ij = q_i . k_j / sqrt(d)

    Args:
        q: queries, (..., i, d), or a single one, (d,); with an `EdgeListLayout` (receivers, ..., d).
        k: keys, (..., j, d), or (senders, ..., d), with as many channels.
        layout: the valid pairs, a `DenseLayout` or an `EdgeListLayout`.

    Returns:
        Logits, (..., i, j) or (edges, ...). Those of masked pairs are arbitrary; the normalizers ignore them.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> from molattn.attention import DenseLayout, scaled_dot
    >>> q, k = torch.ones(1, 4), torch.ones(2, 4)
    >>> scaled_dot(q, k, DenseLayout()).tolist()  # 4 / sqrt(4)
    [[2.0, 2.0]]
    """
    return layout.pairwise_dot(q / q.shape[-1] ** 0.5, k)


def query_transform(score: Score) -> Callable[[Tensor], Tensor] | None:
    """f, if the score is a dot product f(q_i) . k_j; None for other scores."""
    if score is dot:
        return lambda q: q
    if score is scaled_dot:
        return lambda q: q / q.shape[-1] ** 0.5
    return score.w if isinstance(score, General) and are_unmodified(General, score) else None


class General(nn.Module):
    """General, or multiplicative, score: queries and keys may differ in their number of channels.

    a_ij = q_i^T W k_j

    Args:
        query_dim, key_dim: channels of a query and of a key. `w.weight` is W^T, (key_dim, query_dim).

    Raises:
        ValueError: a size is below 1.

    Shapes: those of `layout`. Source: Luong et al. 2015, arXiv:1508.04025.

    >>> import torch
    >>> from molattn.attention import General, attention_weights
    >>> q, k = torch.randn(2, 3), torch.randn(5, 4)
    >>> tuple(attention_weights(q, k, score=General(query_dim=3, key_dim=4)).shape)
    (2, 5)
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        check_sizes(query_dim=query_dim, key_dim=key_dim)
        self.w = nn.Linear(query_dim, key_dim, bias=False)

    def forward(self, q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
        """The logits, (q_i^T W) . k_j, so that only the queries are projected.

        Args:
            q: queries, (..., i, query_dim), or (receivers, ..., query_dim) with an `EdgeListLayout`.
            k: keys, (..., j, key_dim), or (senders, ..., key_dim).
            layout: the valid pairs.

        Returns:
            (..., i, j) or (edges, ...).
        """
        return layout.pairwise_dot(self.w(q), k)


class Additive(nn.Module):
    """Additive score; the same as Luong's "concat", whose W is the concatenation [W_q, W_k].

    a_ij = w . tanh(W_q q_i + W_k k_j + b)

    It needs memory for hidden_dim numbers per pair of a query and a key.

    Args:
        query_dim, key_dim: channels of a query and of a key.
        hidden_dim: channels inside tanh.

    Raises:
        ValueError: a size is below 1.

    Shapes: those of `layout`. Source: Bahdanau et al. 2015, arXiv:1409.0473; Luong et al. 2015, arXiv:1508.04025.

    >>> import torch
    >>> from molattn.attention import Additive, attention_weights
    >>> q, k = torch.randn(2, 3), torch.randn(5, 4)
    >>> weights = attention_weights(q, k, score=Additive(query_dim=3, key_dim=4, hidden_dim=8))
    >>> tuple(weights.shape), torch.allclose(weights.sum(-1), torch.ones(2))
    ((2, 5), True)
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int):
        super().__init__()
        check_sizes(query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim)
        self.w_q = nn.Linear(query_dim, hidden_dim, bias=False)
        self.w_k = nn.Linear(key_dim, hidden_dim)
        self.w = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
        """The logits. Each key is projected once, regardless of the number of queries.

        Args:
            q: queries, (..., i, query_dim), or (receivers, ..., query_dim) with an `EdgeListLayout`.
            k: keys, (..., j, key_dim), or (senders, ..., key_dim).
            layout: the valid pairs.

        Returns:
            (..., i, j) or (edges, ...).
        """
        return self.forward_projected(q, self.w_k(layout.zero_unattended(k)), layout)

    def forward_projected(self, q: Tensor, projected_k: Tensor, layout: AttentionLayout) -> Tensor:
        """The logits from projected keys, which a decoder computes once for all of its steps.

        Args:
            q: queries, as for `forward`.
            projected_k: W_k k + b, (..., j, hidden_dim), or (senders, ..., hidden_dim).
            layout: the valid pairs.

        Returns:
            (..., i, j) or (edges, ...).
        """
        return self.w(torch.tanh(layout.pairwise_sum(self.w_q(q), projected_k))).squeeze(-1)


class Location(nn.Module):
    """Location score: depends on the query and the position of the key, not on the key itself.

    a_ij = (W q_i)_j

    Args:
        query_dim: channels of a query.
        max_length: maximum number of keys; W is (max_length, query_dim), and fewer keys use its first rows.

    Raises:
        ValueError: a size is below 1.

    Shapes: those of `DenseLayout`. Source: Luong et al. 2015, arXiv:1508.04025.

    >>> import torch
    >>> from molattn.attention import DenseLayout, Location
    >>> score, q = Location(query_dim=3, max_length=10), torch.randn(2, 3)
    >>> logits = score(q, torch.randn(5, 3), DenseLayout())
    >>> tuple(logits.shape), torch.equal(logits, score(q, torch.zeros(5, 3), DenseLayout()))
    ((2, 5), True)
    """

    def __init__(self, query_dim: int, max_length: int):
        super().__init__()
        check_sizes(query_dim=query_dim, max_length=max_length)
        self.w = nn.Linear(query_dim, max_length, bias=False)

    def forward(self, q: Tensor, k: Tensor, layout: AttentionLayout) -> Tensor:
        """The logits.

        Args:
            q: queries, (..., i, query_dim).
            k: keys, (..., j, any number of channels); only their number, j, matters.
            layout: a `DenseLayout`; its mask is not used here.

        Returns:
            (..., i, j).

        Raises:
            TypeError: an edge list, whose senders have no position.
            ValueError: there are more than max_length keys.
        """
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
        query_dim, key_dim: channels of a query and of a key.
        hidden_dim: channels inside the tanh of "additive"; query_dim by default.
        max_length: maximum number of keys, for "location".

    Raises:
        ValueError: the name is unknown, "location" has no max_length, or a size is below 1.
        TypeError: the score is neither a name nor callable.

    >>> from molattn.attention import make_score
    >>> make_score("general", query_dim=3, key_dim=4)
    General(
      (w): Linear(in_features=3, out_features=4, bias=False)
    )
    """
    if not isinstance(score, str):
        return resolve_name(score, SCORES, "score")
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
"""The scores without weights, by name: functions of (q, k, layout)."""

# Called with (query_dim, key_dim, hidden_dim, max_length); each uses the ones it needs.
SCORES_WITH_WEIGHTS: dict[str, Callable[[int, int, int, int | None], Score]] = {
    "general": lambda query_dim, key_dim, _hidden_dim, _max_length: General(query_dim, key_dim),
    "additive": lambda query_dim, key_dim, hidden_dim, _max_length: Additive(query_dim, key_dim, hidden_dim),
    "location": _location,
}
"""The scores with weights, by name: functions that return a new score; `make_score` calls them."""
