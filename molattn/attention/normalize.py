"""Normalizers: logits -> weights over whoever competes for the same query. The table at the foot names them.

Each is written once for rows of a matrix and for edge lists. Each gives weights that sum to 1 over a query's
competitors, and zeros, with zero gradients, to a query that has none. Shapes are those of `over`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from molattn.attention.competitors import Competitors, Rows
from molattn.kernels.tensor_checks import has_concrete_values

Normalizer = Callable[[Tensor, Competitors], Tensor]


@dataclass(frozen=True)
class Softmax:
    """Softmax with a temperature: hard attention at T = 0, soft at 1, uniform at infinity, the two ends exact.

    w_ij = exp(a_ij / T) / sum_j exp(a_ij / T)

    The largest logit is subtracted first, so that nothing overflows.

    Attributes:
        temperature: T, from 0 to infinity. One too small for the logits' dtype counts as 0.

    Raises:
        ValueError: a temperature below 0 or NaN.

    >>> from molattn.attention import attention_weights
    >>> q, k = torch.tensor([1.0]), torch.tensor([[3.0], [1.0]])
    >>> for temperature in (0, 1, float("inf")):
    ...     attention_weights(q, k, normalizer=Softmax(temperature)).round(decimals=2).tolist()
    [1.0, 0.0]
    [0.8799999952316284, 0.11999999731779099]
    [0.5, 0.5]
    """

    temperature: int | float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"a temperature is between 0 and infinity, not {self.temperature}")

    def __call__(self, logits: Tensor, over: Competitors) -> Tensor:
        if self.temperature < torch.finfo(logits.dtype).tiny:
            return hardmax(logits, over)
        if self.temperature != 1:
            logits = (logits - over.largest(logits)) / self.temperature
        return over.softmax(logits)


softmax = Softmax()


def hardmax(logits: Tensor, over: Competitors) -> Tensor:
    """Hardmax: all to the largest logit; equal ones share equally, so that nothing depends on their order.

    w_ij = [a_ij = max_j a_ij] / (how many j reach the maximum)

    It is the limit of `Softmax` for T -> 0. It is flat between ties and jumps at them: its gradient is zero where
    there is one, and zero is what flows back, so nothing learns through it but the values.
    """
    top = over.keep((logits >= over.largest(logits)).to(logits.dtype))
    # Zeros that the logits' gradient still goes through: zero gradients, rather than none, which autograd refuses.
    zeros = logits.masked_fill(torch.ones_like(logits, dtype=torch.bool), 0.0)
    return over.keep(top / over.total(top)) + zeros


def sparsemax(logits: Tensor, over: Competitors) -> Tensor:
    """Sparsemax: the point of the simplex nearest to the logits, exactly zero for competitors far below the largest.

    w_ij = max(a_ij - tau_i, 0),    tau_i = (sum_{j in S_i} a_ij - 1) / |S_i|,    S_i = {j : a_ij > tau_i}

    S is found by starting from all and leaving out what lies below tau until nothing does (Michelot 1986), in at
    most as many steps as there are competitors; it needs sums only, no sorting. Where no step can be looked at (under
    a compiler, `torch.func` or on the meta device), rows are sorted instead. The gradient is
    dL/da_ij = g_j - mean_{S_i} g within S and zero outside.

    Source: Martins & Astudillo 2016, arXiv:1602.02068.
    """
    z = logits - over.largest(logits)
    # tau is never less than the largest logit minus 1, so nothing below that is ever in S. "Not below" rather than
    # "above": a NaN stays in, and is seen in what comes out.
    support = over.keep((~(z <= -1)).to(z.dtype))
    if isinstance(over, Rows) and not has_concrete_values(z):
        return _sparsemax_by_sorting(z, over)
    while True:
        size = over.total(support).clamp(min=1)
        tau = (over.total(torch.where(support > 0, z, 0.0)) - 1) / size
        smaller = support * ~(z <= tau)
        if torch.equal(smaller, support):
            return torch.where(support > 0, z - tau, 0.0)
        support = smaller


def _sparsemax_by_sorting(z: Tensor, over: Rows) -> Tensor:
    """The same of logits whose largest is 0: tau_i is the largest (sum of the k largest - 1) / k."""
    if not z.shape[-1]:
        return z
    # As good as hidden: -1 is never above tau.
    largest_first = (over.keep(z.detach().clamp(min=-1) + 1) - 1).sort(-1, descending=True).values
    k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    tau = ((largest_first.cumsum(-1) - 1) / k).amax(-1, keepdim=True)
    support = over.keep((~(z <= tau)).to(z.dtype))
    tau = (over.total(torch.where(support > 0, z, 0.0)) - 1) / over.total(support).clamp(min=1)
    return torch.where(support > 0, z - tau, 0.0)


NORMALIZERS: dict[str, Normalizer] = {"softmax": softmax, "hardmax": hardmax, "sparsemax": sparsemax}


def make_normalizer(normalizer: str | Normalizer) -> Normalizer:
    """A normalizer from its name in `NORMALIZERS`; a normalizer itself is returned as it is.

    Raises:
        ValueError: an unknown name.
    """
    if not isinstance(normalizer, str):
        return normalizer
    if normalizer not in NORMALIZERS:
        raise ValueError(f"unknown normalizer {normalizer!r}: choose one of {', '.join(NORMALIZERS)}")
    return NORMALIZERS[normalizer]
