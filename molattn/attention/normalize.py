"""Normalizers: logits -> weights over whoever competes for the same query. The table at the foot names them."""

from collections.abc import Callable

from torch import Tensor

from molattn.attention.competitors import Competitors

Normalizer = Callable[[Tensor, Competitors], Tensor]


def softmax(logits: Tensor, over: Competitors) -> Tensor:
    """Softmax, with the largest logit subtracted first so that nothing overflows.

    w_ij = exp(a_ij) / sum_j exp(a_ij)

    Shapes: those of `over`. A query with nobody to attend to has zero weights.
    """
    return over.softmax(logits)


NORMALIZERS: dict[str, Normalizer] = {"softmax": softmax}
