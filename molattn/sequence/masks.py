"""Masks: who may look at whom. Boolean, True where one may, broadcastable to (batch, heads, query, key)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from molattn import attention
from molattn.attention import DenseLayout, causal_mask

PAD = 0


def padding_mask(tokens: Int[Tensor, "b n"], pad: int = PAD) -> Bool[Tensor, "b 1 1 n"]:
    """Padding is not looked at.

    m_bj = (token_bj != pad)

    Shapes: (batch, n) -> (batch, 1, 1, n), the same for every head and every query.

    >>> import torch
    >>> padding_mask(torch.tensor([[5, 7, 0]])).tolist()
    [[[[True, True, False]]]]
    """
    return attention.padding_mask(tokens != pad)


def causal_padding_mask(tokens: Int[Tensor, "b n"], pad: int = PAD) -> Bool[Tensor, "b 1 n n"]:
    """Both at once: what the decoder's self-attention may look at.

    m_bij = (token_bj != pad) and (j <= i)

    Shapes: (batch, n) -> (batch, 1, n, n).
    """
    return padding_mask(tokens, pad) & causal_mask(tokens.shape[-1], device=tokens.device)


def without_garbage(x: Float[Tensor, "b n d"], mask: Tensor | None) -> Float[Tensor, "b n d"]:
    """`x` with zeros for what is not finite in the rows that `mask` hides from everyone.

    Such a row is used up by nothing but itself; yet 0 times NaN would be NaN in the gradients of all weights that it
    goes through.

    Args:
        x: (batch, n, d).
        mask: broadcastable to (batch, heads, query, n), boolean or float.
    """
    if mask is None or mask.shape[-1] not in (1, x.shape[-2]):  # of other sizes: the attention says so
        return x
    return DenseLayout(mask if mask.dtype == torch.bool else mask != -torch.inf).zero_nonfinite_padding(x)
