"""Masks: who may attend to whom, True where a query may. Combine them with `&`; they broadcast to the logits."""

import torch
from jaxtyping import Bool
from torch import Tensor


def padding_mask(real: Bool[Tensor, "b j"]) -> Bool[Tensor, "b 1 1 j"]:
    """Nobody attends to padding: from (batch, j), True where there is a key, to (batch, 1, 1, j), for every head.

    It is the opposite of torch's `key_padding_mask`, which is True where there is none.

    >>> padding_mask(torch.tensor([[True, True, False]]))
    tensor([[[[ True,  True, False]]]])
    """
    return real[:, None, None, :]


def causal_mask(
    num_queries: int, num_keys: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "i j"]:
    """Nobody attends to what comes later: query i, at position i + num_keys - num_queries, sees keys up to there.

    Args:
        num_queries: i; the queries are the last of the positions, as when keys of earlier steps were kept.
        num_keys: j, at least num_queries; the same number by default.

    Raises:
        ValueError: fewer keys than queries.

    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    num_keys = num_queries if num_keys is None else num_keys
    if num_keys < num_queries:
        raise ValueError(f"{num_queries} queries cannot be the last of {num_keys} positions")
    everyone = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    return everyone.tril(num_keys - num_queries)
