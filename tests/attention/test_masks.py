"""Padding masks and causal masks, separately and combined."""

import pytest
import torch

from molattn.attention import MultiHeadAttention, attention_weights, causal_mask, causal_padding_mask, padding_mask
from tests.assertions import assert_close, assert_identical

F64 = torch.float64


def test_a_causal_mask_masks_later_keys():
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert_identical(causal_mask(2, 5), causal_mask(5)[3:])
    with pytest.raises(ValueError, match="3 queries cannot be the last of 2"):
        causal_mask(3, 2)


def test_changing_a_later_row_changes_no_earlier_output_bit_for_bit():
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2).to(F64)
    x = torch.randn(2, 5, 8, dtype=F64)
    later = x.clone()
    later[:, 3:] = torch.randn(2, 2, 8, dtype=F64)
    for return_weights in (False, True):
        one, other = (layer(z, mask=causal_mask(5), return_weights=return_weights) for z in (x, later))
        if return_weights:
            assert_identical(one[1][:, :, :3], other[1][:, :, :3])
            one, other = one[0], other[0]
        assert_identical(one[:, :3], other[:, :3])
        assert (one[:, 3:] - other[:, 3:]).abs().min() > 0


def test_masks_combine_and_broadcast_over_heads_and_queries():
    real = torch.tensor([[True, True, False, False], [True] * 4, [False, True, True, False]])
    q = torch.randn(3, 2, 4, 8, generator=torch.Generator().manual_seed(0), dtype=F64)
    weights = attention_weights(q, q, padding_mask(real) & causal_mask(4))
    for b in range(3):
        for i in range(4):
            allowed = [j for j in range(i + 1) if real[b, j]]
            for h in range(2):
                if allowed:
                    assert_close(weights[b, h, i, allowed].sum(), torch.tensor(1.0, dtype=F64))
                others = [j for j in range(4) if j not in allowed]
                assert (weights[b, h, i, others] == 0).all()
    assert (weights[2, :, 0] == 0).all()


def test_causal_padding_mask():
    valid = torch.tensor([[4, 2, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]]) != 0
    mask = causal_padding_mask(valid)
    assert mask.shape == (3, 1, 4, 4)
    for b in range(3):
        for i in range(4):
            for j in range(4):
                assert mask[b, 0, i, j].item() == (j <= i and valid[b, j].item())
