"""Padding masks and causal padding masks."""

import torch

from molattn.sequence import causal_padding_mask, padding_mask

TOKENS = torch.tensor([[4, 2, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])


def test_padding_is_token_0_by_default():
    mask = padding_mask(TOKENS)
    assert mask.shape == (3, 1, 1, 4) and mask.dtype == torch.bool
    assert mask[:, 0, 0].tolist() == [[True, True, False, False], [True, True, True, False], [False] * 4]
    assert padding_mask(TOKENS, pad=1)[1, 0, 0].tolist() == [False, False, False, True]


def test_causal_padding_mask():
    mask = causal_padding_mask(TOKENS)
    assert mask.shape == (3, 1, 4, 4)
    for b in range(3):
        for i in range(4):
            for j in range(4):
                assert mask[b, 0, i, j].item() == (j <= i and TOKENS[b, j].item() != 0)
