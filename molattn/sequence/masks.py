"""Attention masks of token sequences: True where a query may attend, broadcastable to (batch, heads, query, key)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from molattn import attention
from molattn.attention import DenseLayout, causal_mask

PAD = 0


def padding_mask(tokens: Int[Tensor, "b n"], pad: int = PAD) -> Bool[Tensor, "b 1 1 n"]:
    """The mask of padded sequences.

    m_bj = (token_bj != pad)

    Shapes: (batch, n) -> (batch, 1, 1, n), the same for all heads and queries.

    >>> import torch
    >>> padding_mask(torch.tensor([[5, 7, 0]])).tolist()
    [[[[True, True, False]]]]
    """
    return attention.padding_mask(tokens != pad)


def causal_padding_mask(tokens: Int[Tensor, "b n"], pad: int = PAD) -> Bool[Tensor, "b 1 n n"]:
    """The padding mask combined with the causal mask: for the self-attention of a decoder.

    m_bij = (token_bj != pad) and (j <= i)

    Shapes: (batch, n) -> (batch, 1, n, n).
    """
    return padding_mask(tokens, pad) & causal_mask(tokens.shape[-1], device=tokens.device)


def zero_nonfinite_padding(x: Float[Tensor, "b n d"], mask: Tensor | None) -> Float[Tensor, "b n d"]:
    """`x` with zeros for NaN and infinity in rows that `mask` masks for every query.

    Such rows do not affect the output of other rows, but 0 times NaN would be NaN in the gradients of the weights.

    Args:
        x: (batch, n, d).
        mask: broadcastable to (batch, heads, query, n), boolean or float.
    """
    if mask is None or mask.shape[-1] not in (1, x.shape[-2]):  # wrong sizes: the attention raises the error
        return x
    return DenseLayout(mask if mask.dtype == torch.bool else mask != -torch.inf).zero_nonfinite_padding(x)
