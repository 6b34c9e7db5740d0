"""Scores: how well a key answers a query, (q, k) -> logits. The table at the foot names them."""

from collections.abc import Callable

from torch import Tensor

from molattn.attention.competitors import Competitors

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


SCORES: dict[str, Score] = {"dot": dot, "scaled_dot": scaled_dot}
