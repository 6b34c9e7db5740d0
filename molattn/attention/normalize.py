"""Normalizers: logits -> attention weights over the valid keys of each query. `NORMALIZERS` lists their names.

Each works for dense layouts and edge lists. The weights sum to 1 over the valid keys of a query; a query without a
valid key gets zeros, with zero gradients. Shapes are those of `layout`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from molattn.attention.arguments import resolve_name
from molattn.attention.layout import AttentionLayout, DenseLayout
from molattn.kernels.operations import has_concrete_values

Normalizer = Callable[[Tensor, AttentionLayout], Tensor]
"""A normalizer: called as normalizer(logits, layout), it returns the weights, which have the logits' shape."""


@dataclass(frozen=True)
class Softmax:
    """Softmax with a temperature: hardmax at T = 0, softmax at T = 1, uniform at T = infinity; both limits are exact.

    w_ij = exp(a_ij / T) / sum_j exp(a_ij / T)

    The largest logit is subtracted first to avoid overflow.

    Attributes:
        temperature: T, from 0 to infinity. Values below the smallest normal number of the logits' dtype count as 0.

    Raises:
        ValueError: the temperature is negative or NaN.

    >>> import torch
    >>> from molattn.attention import Softmax, attention_weights
    >>> q, k = torch.tensor([1.0], dtype=torch.float64), torch.tensor([[3.0], [1.0]], dtype=torch.float64)
    >>> for temperature in (0, 1, float("inf")):
    ...     attention_weights(q, k, normalizer=Softmax(temperature)).round(decimals=2).tolist()
    [1.0, 0.0]
    [0.88, 0.12]
    [0.5, 0.5]
    """

    temperature: int | float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"temperature must be between 0 and infinity, not {self.temperature}")

    def __call__(self, logits: Tensor, layout: AttentionLayout) -> Tensor:
        """The weights, in the shape of `logits`: (..., i, j), or (edges, ...) with an `EdgeListLayout`."""
        if self.temperature < torch.finfo(logits.dtype).tiny:
            return hardmax(logits, layout)
        if self.temperature != 1:
            logits = (logits - layout.max_over_keys(logits)) / self.temperature
        return layout.softmax(logits)


softmax = Softmax()
"""`Softmax` at temperature 1, the default normalizer."""


def hardmax(logits: Tensor, layout: AttentionLayout) -> Tensor:
    """Hardmax: all weight on the largest logit; ties share it equally, so that the result is independent of key order.

    w_ij = [a_ij = max_j a_ij] / (number of j that reach the maximum)

    It is the limit of `Softmax` for T -> 0. It is piecewise constant, so the gradient of the logits is zero and only
    the values are learned through it.

    Args:
        logits: (..., i, j), or (edges, ...) with an `EdgeListLayout`.
        layout: the valid pairs.

    Returns:
        Weights, in the logits' shape; zeros for a query without a valid key.

    >>> import torch
    >>> from molattn.attention import DenseLayout, hardmax
    >>> hardmax(torch.tensor([[3.0, 1.0, 3.0]]), DenseLayout()).tolist()
    [[0.5, 0.0, 0.5]]
    """
    if logits.dtype in _HALF:
        return hardmax(logits.float(), layout).to(logits.dtype)
    top = layout.zero_masked((logits >= layout.max_over_keys(logits)).to(logits.dtype))
    # Zeros that depend on the logits, so that the gradient is zero rather than None, which autograd.grad rejects.
    zeros = logits.masked_fill(torch.ones_like(logits, dtype=torch.bool), 0.0)
    return layout.zero_masked(top / layout.sum_over_keys(top)) + zeros


def sparsemax(logits: Tensor, layout: AttentionLayout) -> Tensor:
    """Sparsemax: the Euclidean projection of the logits onto the simplex, exactly zero far below the largest logit.

    w_ij = max(a_ij - tau_i, 0),    tau_i = (sum_{j in S_i} a_ij - 1) / |S_i|,    S_i = {j : a_ij > tau_i}

    S is found by starting with all keys and removing those at or below tau until none is left to remove (Michelot
    1986), in at most as many steps as there are keys; this needs sums only, no sorting. Where Python cannot read
    tensor values (inside torch.compile, `torch.func` or on the meta device), the number of steps cannot depend on them:
    with a `DenseLayout`, rows are sorted instead; with an edge list, tau is found by bisection. With g = dL/dw, the
    gradient is dL/da_ij = g_ij - mean_{j in S_i} g_ij within S and zero outside.

    Args:
        logits: (..., i, j), or (edges, ...) with an `EdgeListLayout`.
        layout: the valid pairs.

    Returns:
        Weights, in the logits' shape; zeros for a query without a valid key.

    Source: Martins & Astudillo 2016, arXiv:1602.02068.

    >>> import torch
    >>> from molattn.attention import DenseLayout, sparsemax
    >>> sparsemax(torch.tensor([[2.0, 1.5, -1.0]]), DenseLayout()).tolist()
    [[0.75, 0.25, 0.0]]
    """
    if logits.dtype in _HALF:
        return sparsemax(logits.float(), layout).to(logits.dtype)
    z = logits - layout.max_over_keys(logits)
    # tau is never less than the largest logit minus 1, so no logit at or below that is ever in S. `~(z <= -1)` rather
    # than `z > -1`, so that NaN stays in S and propagates to the result.
    support = layout.zero_masked((~(z <= -1)).to(z.dtype))
    if not has_concrete_values(z):
        dense = isinstance(layout, DenseLayout)
        support = _support_by_sorting(z, layout) if dense else _support_by_bisection(z, layout)
        return torch.where(support > 0, z - _threshold(z, support, layout), 0.0)
    while True:
        tau = _threshold(z, support, layout)
        smaller = support * ~(z <= tau)
        if torch.equal(smaller, support):
            return torch.where(support > 0, z - tau, 0.0)
        support = smaller


def _threshold(z: Tensor, support: Tensor, layout: AttentionLayout) -> Tensor:
    """tau_i = (sum_{j in S_i} z_ij - 1) / |S_i|; `support` is 1 within S and 0 outside."""
    size = layout.sum_over_keys(support).clamp(min=1)
    return (layout.sum_over_keys(torch.where(support > 0, z, 0.0)) - 1) / size


def _support_by_sorting(z: Tensor, layout: DenseLayout) -> Tensor:
    """S of logits whose maximum is 0, from tau_i = max_k ((sum of the k largest logits) - 1) / k."""
    if not z.shape[-1]:
        return z
    # Masked logits become -1, which is never above tau.
    largest_first = (layout.zero_masked(z.detach().clamp(min=-1) + 1) - 1).sort(-1, descending=True).values
    k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    tau = ((largest_first.cumsum(-1) - 1) / k).amax(-1, keepdim=True)
    return layout.zero_masked((~(z <= tau)).to(z.dtype))


def _support_by_bisection(z: Tensor, layout: AttentionLayout) -> Tensor:
    """S of logits whose maximum is 0: tau_i, where sum_j max(z_ij - tau_i, 0) = 1, by bisection between -1 and 0.

    Bisection cannot decide about the few logits that equal tau up to rounding; two steps of `sparsemax` do.
    """
    x = z.detach()
    low, high = torch.full_like(x, -1.0), torch.zeros_like(x)
    for _ in range(2 - round(math.log2(torch.finfo(x.dtype).eps))):
        middle = (low + high) / 2
        is_above = layout.sum_over_keys((x - middle).clamp(min=0)) > 1
        low, high = torch.where(is_above, middle, low), torch.where(is_above, high, middle)
    support = layout.zero_masked((~(x <= low)).to(x.dtype))
    for _ in range(2):
        support = support * ~(x <= _threshold(x, support, layout))
    return support


_HALF = (torch.float16, torch.bfloat16)
"""Sums over many keys in these dtypes stop growing, or overflow."""

NORMALIZERS: dict[str, Normalizer] = {"softmax": softmax, "hardmax": hardmax, "sparsemax": sparsemax}
"""The normalizers by name, for the argument `normalizer` of `attend` and of the layers."""


def make_normalizer(normalizer: str | Normalizer) -> Normalizer:
    """A normalizer from its name; a callable is returned unchanged.

    Args:
        normalizer: a name in `NORMALIZERS`, or a callable.

    Raises:
        ValueError: the name is unknown.

    >>> from molattn.attention import Softmax, make_normalizer
    >>> make_normalizer("softmax")
    Softmax(temperature=1.0)
    >>> make_normalizer(Softmax(temperature=0.5))
    Softmax(temperature=0.5)
    """
    return resolve_name(normalizer, NORMALIZERS, "normalizer")
