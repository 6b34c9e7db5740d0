"""Sinusoidal positions against loops over the formula, and the embedding that adds them."""

import math

import numpy as np
import pytest
import torch

from molattn.sequence import CHANNEL_ORDERS, PositionalEmbedding, sinusoidal_positions
from tests.assertions import assert_close

F64 = torch.float64


def sine_and_cosine_columns(d_model, channel_order):
    """Which column holds the i-th sine and the i-th cosine."""
    sines = (d_model + 1) // 2
    if channel_order == "concatenated":
        return list(range(sines)), list(range(sines, d_model))
    return list(range(0, d_model, 2)), list(range(1, d_model, 2))


@pytest.mark.parametrize("channel_order", CHANNEL_ORDERS)
@pytest.mark.parametrize(("length", "d_model"), [(8, 10), (1, 2), (50, 16), (5, 7), (3, 1), (0, 4)])
def test_both_channel_orders_equal_a_loop_over_the_formula(channel_order, length, d_model):
    expected = np.zeros((length, d_model))
    sine_columns, cosine_columns = sine_and_cosine_columns(d_model, channel_order)
    for p in range(length):
        for i, column in enumerate(sine_columns):
            expected[p, column] = math.sin(p / 10000 ** (2 * i / d_model))
        for i, column in enumerate(cosine_columns):
            expected[p, column] = math.cos(p / 10000 ** (2 * i / d_model))
    assert_close(sinusoidal_positions(length, d_model, channel_order, dtype=F64), torch.from_numpy(expected))


def test_the_channel_orders_have_the_same_columns():
    one, other = (sinusoidal_positions(2048, 512, channel_order) for channel_order in ("concatenated", "interleaved"))
    assert_close(one, torch.cat([other[:, 0::2], other[:, 1::2]], dim=1))


def test_float32_is_accurate_at_large_positions():
    assert_close(
        sinusoidal_positions(3, 64, offset=100_000).double(), sinusoidal_positions(100_003, 64, dtype=F64)[-3:], 1e-7
    )


def test_an_offset_gives_the_later_rows():
    assert_close(sinusoidal_positions(4, 6, offset=3, dtype=F64), sinusoidal_positions(7, 6, dtype=F64)[3:])


def test_an_unknown_channel_order_raises_at_construction():
    with pytest.raises(ValueError, match="unknown channel order 'zigzag': choose one of concatenated, interleaved"):
        sinusoidal_positions(2, 4, "zigzag")
    with pytest.raises(ValueError, match="unknown channel order"):
        PositionalEmbedding(5, 4, "zigzag")


def test_the_embedding_is_scaled_by_the_root_of_d_model():
    embed = PositionalEmbedding(7, 16).to(F64)
    tokens = torch.tensor([[3, 0, 6]])
    rows = torch.stack([embed.embedding.weight[t] for t in (3, 0, 6)])
    assert_close(embed(tokens)[0], 4 * rows + sinusoidal_positions(3, 16, dtype=F64))
    assert_close(embed(tokens[:, 1:], offset=1), embed(tokens)[:, 1:])


def test_padding_has_no_embedding_and_no_gradient():
    embed = PositionalEmbedding(7, 4)
    embed(torch.tensor([[0, 2]])).sum().backward()
    assert embed.embedding.weight[0].eq(0).all()
    assert embed.embedding.weight.grad is not None
    assert embed.embedding.weight.grad[0].eq(0).all() and embed.embedding.weight.grad[2].ne(0).all()
