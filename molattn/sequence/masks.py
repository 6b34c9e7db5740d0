"""Masks: who may look at whom. Boolean, True where one may, broadcastable to (batch, heads, query, key)."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

PAD = 0


def padding_mask(tokens: Int[Tensor, "b n"], pad: int = PAD) -> Bool[Tensor, "b 1 1 n"]:
    """Padding is not looked at.

    m_bj = (token_bj != pad)

    Shapes: (batch, n) -> (batch, 1, 1, n), the same for every head and every query.

    >>> padding_mask(torch.tensor([[5, 7, 0]])).tolist()
    [[[[True, True, False]]]]
    """
    return (tokens != pad)[:, None, None, :]


def causal_mask(length: int, *, seen: int = 0, device: torch.device | str | None = None) -> Bool[Tensor, "i j"]:
    """A token looks at itself and at what came before it.

    m_ij = (j <= seen + i)

    Args:
        length: how many tokens look.
        seen: how many tokens came before the first of them, and are looked at too.
        device: of the mask.

    Returns:
        (length, seen + length).

    >>> causal_mask(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(length, seen + length, dtype=torch.bool, device=device).tril(seen)


def causal_padding_mask(tokens: Int[Tensor, "b n"], pad: int = PAD) -> Bool[Tensor, "b 1 n n"]:
    """Both at once: what the decoder's self-attention may look at.

    m_bij = (token_bj != pad) and (j <= i)

    Shapes: (batch, n) -> (batch, 1, n, n).
    """
    return padding_mask(tokens, pad) & causal_mask(tokens.shape[-1], device=tokens.device)
