"""Attention masks: True where a query may attend to a key. Combine them with `&`; they broadcast to the logits."""

import torch
from jaxtyping import Bool
from torch import Tensor


def padding_mask(valid: Bool[Tensor, "b j"]) -> Bool[Tensor, "b 1 1 j"]:
    """A mask of padded keys: from (batch, j), True for keys and False for padding, to (batch, 1, 1, j), for every head.

    `valid` is the negation of torch's `key_padding_mask`, which is True for padding.

    >>> padding_mask(torch.tensor([[True, True, False]]))
    tensor([[[[ True,  True, False]]]])
    """
    return valid[:, None, None, :]


def causal_padding_mask(valid: Bool[Tensor, "b n"]) -> Bool[Tensor, "b 1 n n"]:
    """The padding mask combined with the causal mask: for the self-attention of a decoder.

    m_bij = valid_bj and (j <= i)

    Shapes: (batch, n) -> (batch, 1, n, n).
    """
    return padding_mask(valid) & causal_mask(valid.shape[-1], device=valid.device)


def causal_mask(
    num_queries: int, num_keys: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "i j"]:
    """A causal mask: query i, at position i + num_keys - num_queries, attends to the keys up to this position.

    Args:
        num_queries: number of queries; they are at the last positions, as in decoding with cached keys.
        num_keys: number of keys, at least num_queries; num_queries by default.

    Raises:
        ValueError: there are fewer keys than queries.

    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    num_keys = num_queries if num_keys is None else num_keys
    if num_keys < num_queries:
        raise ValueError(f"{num_queries} queries cannot be the last of {num_keys} positions")
    return torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).tril(num_keys - num_queries)
