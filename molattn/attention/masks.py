"""Attention masks: True where a query may attend to a key. Combine them with `&`; they broadcast to the logits."""

import torch
from jaxtyping import Bool
from torch import Tensor


def padding_mask(valid: Bool[Tensor, "b j"]) -> Bool[Tensor, "b 1 1 j"]:
    """A mask of padded keys: from (batch, j), True for keys and False for padding, to (batch, 1, 1, j), for every head.

    Args:
        valid: (batch, j), the negation of torch's `key_padding_mask`, which is True for padding.

    >>> import torch
    >>> from molattn.attention import padding_mask
    >>> padding_mask(torch.tensor([[True, True, False]]))
    tensor([[[[ True,  True, False]]]])
    """
    return valid[:, None, None, :]


def causal_padding_mask(valid: Bool[Tensor, "b n"]) -> Bool[Tensor, "b 1 n n"]:
    """The padding mask combined with the causal mask: for the self-attention of a decoder.

    m_bij = valid_bj and (j <= i)

    Args:
        valid: (batch, n), True for tokens and False for padding.

    Returns:
        (batch, 1, n, n), True where token i may attend to token j.

    >>> import torch
    >>> from molattn.attention import causal_padding_mask
    >>> causal_padding_mask(torch.tensor([[True, True, False]]))[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    """
    return padding_mask(valid) & causal_mask(valid.shape[-1], device=valid.device)


def causal_mask(
    num_queries: int, num_keys: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "i j"]:
    """A causal mask: query i, at position i + num_keys - num_queries, attends to the keys up to this position.

    Args:
        num_queries: number of queries; they are at the last positions, as in decoding with cached keys.
        num_keys: number of keys, at least num_queries; num_queries by default.
        device: of the mask; torch's default by default.

    Returns:
        (num_queries, num_keys), True where query i may attend to key j.

    Raises:
        ValueError: there are fewer keys than queries.

    >>> from molattn.attention import causal_mask
    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    num_keys = num_queries if num_keys is None else num_keys
    if num_keys < num_queries:
        raise ValueError(f"{num_queries} queries cannot be the last of {num_keys} positions")
    return torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).tril(num_keys - num_queries)
