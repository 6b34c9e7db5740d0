"""Masks: who may look at whom. Boolean, True where one may, broadcastable to (batch, heads, query, key)."""

from jaxtyping import Bool, Int
from torch import Tensor

from molattn import attention
from molattn.attention import causal_mask

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
