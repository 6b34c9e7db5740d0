"""MultiHeadAttention against torch's, and the promises it makes itself."""

import pytest
import torch
from torch import nn

from molattn.attention import ConcatHeads, MultiHeadAttention, merge_heads, split_heads
from tests.assertions import assert_close, assert_identical

F64 = torch.float64


def pair_of_layers(heads, bias=True, kdim=None, vdim=None, embed_dim=8):
    """torch's layer and ours with the same weights, biases not left at the zeros torch starts from."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(
        embed_dim, heads, bias=bias, kdim=kdim, vdim=vdim, batch_first=True, dtype=F64
    ).eval()
    ours = MultiHeadAttention(embed_dim, heads, bias=bias, key_dim=kdim, value_dim=vdim).to(F64).eval()
    if theirs.in_proj_weight is not None:
        q, k, v = theirs.in_proj_weight.chunk(3)
    else:
        q, k, v = theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight
    with torch.no_grad():
        for projection, weight in zip((ours.q_proj, ours.k_proj, ours.v_proj), (q, k, v), strict=True):
            projection.weight.copy_(weight)
        ours.join.linear.weight.copy_(theirs.out_proj.weight)
        if bias:
            theirs.in_proj_bias.normal_()
            theirs.out_proj.bias.normal_()
            parts = theirs.in_proj_bias.chunk(3)
            for projection, part in zip((ours.q_proj, ours.k_proj, ours.v_proj), parts, strict=True):
                projection.bias.copy_(part)
            ours.join.linear.bias.copy_(theirs.out_proj.bias)
    return theirs, ours


def check_same(theirs, ours, q, k, v, mask=None, **their_masks):
    expected, expected_weights = theirs(q, k, v, average_attn_weights=False, **their_masks)
    output, weights = ours(q, k, v, mask=mask, return_weights=True)
    assert_close(output, expected)
    assert_close(weights, expected_weights)
    assert_close(ours(q, k, v, mask=mask), expected)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", ["none", "boolean", "float", "padding"])
def test_it_equals_torch_with_the_same_weights(heads, bias, mask):
    theirs, ours = pair_of_layers(heads, bias)
    x, y = torch.randn(3, 4, 8, dtype=F64), torch.randn(3, 5, 8, dtype=F64)
    allowed = torch.rand(4, 5) > 0.4
    allowed[:, 0] = True
    if mask == "none":
        check_same(theirs, ours, x, y, y)
    elif mask == "boolean":
        check_same(theirs, ours, x, y, y, allowed, attn_mask=~allowed)
    elif mask == "float":
        added = torch.randn(4, 5, dtype=F64).masked_fill(~allowed, -torch.inf)
        check_same(theirs, ours, x, y, y, added, attn_mask=added)
    else:
        real = torch.arange(5) < torch.tensor([[2], [5], [3]])
        check_same(theirs, ours, x, y, y, real[:, None, None, :], key_padding_mask=~real)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
def test_it_equals_torch_with_keys_and_values_of_other_widths(heads, bias):
    theirs, ours = pair_of_layers(heads, bias, kdim=5, vdim=7)
    check_same(theirs, ours, *(torch.randn(2, n, c, dtype=F64) for n, c in ((4, 8), (6, 5), (6, 7))))


def test_it_has_the_gradients_of_torch():
    theirs, ours = pair_of_layers(2)
    x = torch.randn(2, 4, 8, dtype=F64, requires_grad=True)
    of_theirs = torch.autograd.grad(theirs(x, x, x)[0].sin().sum(), [x, *theirs.parameters()])
    names = ["q_proj", "k_proj", "v_proj"]
    weights = [getattr(ours, name).weight for name in names]
    biases = [getattr(ours, name).bias for name in names]
    last = ours.join.linear
    of_ours = torch.autograd.grad(ours(x).sin().sum(), [x, *weights, *biases, last.weight, last.bias])
    by_name = dict(zip([name for name, _ in theirs.named_parameters()], of_theirs[1:], strict=True))
    assert_close(of_ours[0], of_theirs[0])
    assert_close(torch.cat(of_ours[1:4]), by_name["in_proj_weight"])
    assert_close(torch.cat(of_ours[4:7]), by_name["in_proj_bias"])
    assert_close(of_ours[7], by_name["out_proj.weight"])
    assert_close(of_ours[8], by_name["out_proj.bias"])


def test_query_stands_in_for_key_and_key_for_value():
    _, layer = pair_of_layers(2)
    x, y = torch.randn(2, 4, 8, dtype=F64), torch.randn(2, 5, 8, dtype=F64)
    assert_identical(layer(x), layer(x, x, x))
    assert_identical(layer(x, y), layer(x, y, y))


def test_a_bias_is_added_to_the_logits_of_each_head():
    theirs, ours = pair_of_layers(2)
    x = torch.randn(3, 4, 8, dtype=F64)
    bias = torch.randn(3, 2, 4, 4, dtype=F64)
    expected, expected_weights = theirs(x, x, x, attn_mask=bias.flatten(0, 1), average_attn_weights=False)
    output, weights = ours(x, bias=bias, return_weights=True)
    assert_close(output, expected)
    assert_close(weights, expected_weights)
    assert_close(ours(x, bias=bias), expected)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_a_query_with_nobody_gets_the_output_bias_and_finite_gradients(return_weights, training):
    torch.manual_seed(1)
    layer = MultiHeadAttention(8, 2, dropout=0.5).to(F64).train(training)
    nn.init.normal_(layer.join.linear.bias)
    x = torch.randn(2, 4, 8, dtype=F64, requires_grad=True)
    mask = torch.rand(4, 4) > 0.3
    mask[1] = False
    result = layer(x, mask=mask, return_weights=return_weights)
    output = result[0] if return_weights else result
    assert_identical(output[:, 1], layer.join.linear.bias.expand(2, -1))
    if return_weights:
        assert (result[1][:, :, 1] == 0).all()
        assert (result[1][..., ~mask] == 0).all()
    output.square().sum().backward()
    for tensor in (x, *layer.parameters()):
        assert tensor.grad is not None and tensor.grad.isfinite().all()


def test_an_item_where_nobody_may_look_at_anything_stays_finite():
    layer = MultiHeadAttention(8, 2).to(F64)
    x = torch.randn(2, 3, 8, dtype=F64, requires_grad=True)
    mask = torch.tensor([True, False]).view(2, 1, 1, 1)
    output = layer(x, mask=mask)
    assert_identical(output[1], layer.join.linear.bias.expand(3, -1))
    (gradient,) = torch.autograd.grad(output.sin().sum(), x)
    assert gradient.isfinite().all()
    assert (gradient[1] == 0).all()


def test_heads_of_a_width_of_their_own():
    layer = MultiHeadAttention(6, 4, head_dim=5)
    output, weights = layer(torch.randn(2, 3, 6), return_weights=True)
    assert output.shape == (2, 3, 6) and weights.shape == (2, 4, 3, 3)
    assert layer.q_proj.out_features == 20
    with pytest.raises(ValueError, match="head_dim"):
        MultiHeadAttention(6, 4)


def test_dropout_acts_in_training_only_and_the_weights_are_those_before_it():
    torch.manual_seed(2)
    layer = MultiHeadAttention(8, 2, dropout=0.5).to(F64)
    x = torch.randn(2, 4, 8, dtype=F64)
    quiet, weights = layer.eval()(x, return_weights=True)
    assert_identical(layer(x), layer(x))
    assert_close(layer(x), quiet)
    noisy, weights_in_training = layer.train()(x, return_weights=True)
    assert_identical(weights_in_training, weights)
    assert (noisy - quiet).abs().max() > 1e-3
    assert (layer(x) - layer(x)).abs().max() > 1e-3


def test_dropout_leaves_the_expectation():
    torch.manual_seed(3)
    layer = MultiHeadAttention(4, 2, dropout=0.3).to(F64)
    x = torch.randn(1, 3, 4, dtype=F64)
    draws = 4000
    output = layer.train()(x.expand(draws, -1, -1)).detach()
    quiet = layer.eval()(x)[0]
    assert ((output.mean(0) - quiet).abs() < 5 * output.std(0) / draws**0.5).all()


def test_splitting_heads_cuts_neighbouring_channels_and_merging_undoes_it():
    x = torch.arange(12.0).view(1, 2, 6)
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 2, 2)
    assert heads[0, 1].tolist() == [[2, 3], [8, 9]]
    assert_identical(merge_heads(heads), x)


def test_heads_are_joined_by_the_weight_tensor_w_jhl():
    torch.manual_seed(4)
    join = ConcatHeads(num_heads=3, head_dim=2, out_dim=5).to(F64)
    x = torch.randn(4, 3, 2, dtype=F64)
    w = join.linear.weight.view(5, 3, 2)  # l, h, j
    assert_close(join(x.flatten(-2)), torch.einsum("nhj,lhj->nl", x, w) + join.linear.bias)
