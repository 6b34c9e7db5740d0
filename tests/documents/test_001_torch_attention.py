"""Document 001, `torch.nn.MultiheadAttention` recomputed by hand: the same numbers from its own weights."""

import numpy as np
import pytest
import torch
from torch import nn

from molattn.attention import MultiHeadAttention
from tests.documents.by_hand import F64, array, assert_same, softmax

both_biases = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])


def torch_layer(heads, bias=False, batch_first=True):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, heads, bias=bias, batch_first=batch_first, dtype=F64)
    if bias:
        nn.init.normal_(layer.in_proj_bias), nn.init.normal_(layer.out_proj.bias)
    return layer


def by_hand(layer, x, scale):
    """head = softmax(q k^T / scale) v,  output = [head_1, ...] W_o + b_o;  q, k, v = x W + b in each head.

    `in_proj_weight` holds W_q, W_k and W_v below each other; head h has its own d rows of each.
    """
    heads = layer.num_heads
    d = 4 // heads
    w_q, w_k, w_v = np.split(array(layer.in_proj_weight), 3)
    has_bias = layer.in_proj_bias is not None
    b_q, b_k, b_v = np.split(array(layer.in_proj_bias) if has_bias else np.zeros(12), 3)
    maps, outputs = [], []
    for h in range(heads):
        rows = slice(h * d, (h + 1) * d)
        q, k, v = (x @ w[rows].T + b[rows] for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v)))
        maps.append(softmax(q @ k.swapaxes(1, 2) / scale))
        outputs.append(maps[-1] @ v)
    output = np.concatenate(outputs, axis=-1) @ array(layer.out_proj.weight).T
    return output + (array(layer.out_proj.bias) if has_bias else 0), np.stack(maps, axis=1)


def inputs():
    """2 sequences of 5 vectors of 4 numbers."""
    return torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1), dtype=F64)


@both_biases
@pytest.mark.parametrize("heads", [1, 2], ids=["one head", "two heads"])
def test_document_001_ours_torchs_and_numpys_layer_are_the_same(heads, bias):
    theirs, x = torch_layer(heads, bias), inputs()
    expected, maps = by_hand(theirs, x.numpy(), scale=np.sqrt(4 / heads))
    output, weights = MultiHeadAttention.from_torch(theirs)(x, return_weights=True)
    assert_same(output, expected)
    assert_same(weights, maps)
    assert_same(theirs(x, x, x)[0], expected)


@pytest.mark.parametrize("heads", [1, 2])
def test_document_001_torch_returns_the_mean_of_our_weights_per_head(heads):
    theirs, x = torch_layer(heads), inputs()
    _, weights = MultiHeadAttention.from_torch(theirs)(x, return_weights=True)
    assert weights.shape == (2, heads, 5, 5)
    _, mean = theirs(x, x, x)
    _, per_head = theirs(x, x, x, average_attn_weights=False)
    assert_same(mean, array(weights).mean(1))
    assert_same(per_head, array(weights))


@both_biases
def test_document_001_ours_puts_the_batch_first_whatever_torchs_layer_does(bias):
    theirs, x = torch_layer(2, bias, batch_first=False), inputs()
    swapped = x.transpose(0, 1)
    expected = theirs(swapped, swapped, swapped)[0].transpose(0, 1)
    assert_same(MultiHeadAttention.from_torch(theirs)(x), array(expected))


def test_document_001_slip_the_scale_is_the_root_of_the_channels_of_a_head():
    theirs, x = torch_layer(2), inputs()
    _, weights = MultiHeadAttention.from_torch(theirs)(x, return_weights=True)
    assert_same(weights, by_hand(theirs, x.numpy(), scale=np.sqrt(2))[1])
    assert np.abs(array(weights) - by_hand(theirs, x.numpy(), scale=2)[1]).max() > 1e-3
