"""Splitting channels into heads, and joining heads, against numpy's einsum."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from molattn.attention import (
    JOINS,
    ConcatHeads,
    MaxHeads,
    MeanHeads,
    MultiHeadAttention,
    TensorHeads,
    VectorHeads,
    make_join,
    merge_heads,
    split_heads,
)
from molattn.attention.heads import KEEPS_HEAD_DIM
from molattn.graph.blocks import BlockConfig
from tests.assertions import assert_close, assert_identical

F64 = torch.float64


def heads_side_by_side():
    """(batch, n, h, d) for numpy, and the same heads concatenated as in the layer, (batch, n, h * d)."""
    x = torch.randn(2, 4, 3, 5, generator=torch.Generator().manual_seed(0), dtype=F64)
    return x.numpy(), x.flatten(-2)


def test_splitting_heads_cuts_neighbouring_channels_and_merging_undoes_it():
    x = torch.arange(12.0).view(1, 2, 6)
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 2, 2)
    assert heads[0, 1].tolist() == [[2, 3], [8, 9]]
    assert_identical(merge_heads(heads), x)


def test_concatenation_and_a_linear_map_are_the_weight_tensor_w_jhl():
    x, flat = heads_side_by_side()
    join = ConcatHeads(num_heads=3, head_dim=5, out_dim=6).to(F64)
    w = join.linear.weight.detach().numpy().reshape(6, 3, 5)  # l, h, j
    expected = np.einsum("bnhj,lhj->bnl", x, w) + join.linear.bias.detach().numpy()
    assert_close(join(flat).detach(), torch.from_numpy(expected))


def test_heads_joined_by_the_weight_tensor_w_jhl():
    x, flat = heads_side_by_side()
    join = TensorHeads(num_heads=3, head_dim=5, out_dim=6).to(F64)
    assert join.w_jhl.shape == (5, 3, 6)
    expected = np.einsum("bnhj,jhl->bnl", x, join.w_jhl.detach().numpy())
    assert_close(join(flat).detach(), torch.from_numpy(expected))


def test_heads_joined_by_the_weight_vector_w_h():
    x, flat = heads_side_by_side()
    join = VectorHeads(num_heads=3).to(F64)
    expected = np.einsum("bnhj,h->bnj", x, join.w_h.detach().numpy())
    assert_close(join(flat).detach(), torch.from_numpy(expected))


def test_heads_joined_by_mean_and_by_max():
    x, flat = heads_side_by_side()
    assert_close(MeanHeads(3)(flat), torch.from_numpy(x.mean(2)))
    assert_identical(MaxHeads(3)(flat), torch.from_numpy(x.max(2)))


def test_a_weight_vector_of_equal_parts_is_the_mean():
    _, flat = heads_side_by_side()
    join = VectorHeads(3).to(F64)
    torch.nn.init.constant_(join.w_h, 1 / 3)
    assert_close(join(flat), MeanHeads(3)(flat))


@pytest.mark.parametrize("join", JOINS)
def test_every_join_works_in_the_layer_with_its_gradients(join):
    torch.manual_seed(1)
    layer = MultiHeadAttention(4, 2, join=join).to(F64)
    x = torch.randn(2, 3, 4, dtype=F64, requires_grad=True)
    output, weights = layer(x, return_weights=True)
    assert output.shape == (2, 3, 4 if join in ("concat", "w_jhl") else 2)
    heads = weights @ split_heads(layer.v_proj(x), 2)
    assert_close(output, layer.join(merge_heads(heads)))
    assert gradcheck(lambda x, *_: layer(x), (x, *layer.parameters()))


def test_a_join_may_be_a_custom_module():
    layer = MultiHeadAttention(4, 2, join=torch.nn.Identity())
    assert layer(torch.randn(2, 3, 4)).shape == (2, 3, 4)


def test_make_join_by_name_and_its_errors():
    assert isinstance(make_join("concat", 2, 3, 7), ConcatHeads)
    with pytest.raises(ValueError, match=r"unknown join 'nope'.*concat.*max"):
        make_join("nope", 2, 3, 7)
    for join in ("w_h", "mean", "max"):
        with pytest.raises(ValueError, match=f"'{join}' outputs the 3 channels of a head, not 7"):
            make_join(join, 2, 3, 7)
        with pytest.raises(ValueError, match="channels of a head"):
            MultiHeadAttention(8, 2, output_dim=5, join=join)


def test_a_join_has_out_dim_channels_or_the_error_names_it(monkeypatch):
    def minimum(num_heads, _head_dim, _out_dim, _bias):
        class Minimum(torch.nn.Module):
            def forward(self, x):
                return x.unflatten(-1, (num_heads, -1)).amin(-2)

        return Minimum()

    def gated(num_heads, head_dim, out_dim, bias):
        width = num_heads * head_dim
        return torch.nn.Sequential(torch.nn.Linear(width, 2 * out_dim, bias=bias), torch.nn.GLU())

    monkeypatch.setitem(JOINS, "minimum", minimum)
    monkeypatch.setitem(JOINS, "gated", gated)
    KEEPS_HEAD_DIM.add("minimum")
    try:
        for name, width in (("minimum", 4), ("gated", 8)):
            assert MultiHeadAttention(8, 2, join=name)(torch.randn(3, 5, 8)).shape == (3, 5, width)
            config = BlockConfig(8, 2, join=name)
            assert config.join_module(torch.randn(5, 8)).shape == (5, 8)
            assert isinstance(config.join_module[0], torch.nn.Linear) == (name == "gated")
    finally:
        KEEPS_HEAD_DIM.discard("minimum")


def test_only_the_layer_takes_a_module_in_place_of_a_join():
    with pytest.raises(ValueError, match="concat.*max, or pass a module; did you mean 'mean'"):
        MultiHeadAttention(8, 2, join="means")
    with pytest.raises(ValueError, match=r"concat.*max; did you mean 'mean'\?$"):
        make_join("means", 2, 4, 4)
