"""MultiHeadAttention: its options and guarantees. Parity with torch and Keras is tested in modules of its own."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from molattn.attention import (
    JOINS,
    NORMALIZERS,
    Additive,
    MultiHeadAttention,
    Softmax,
    attention_weights,
    causal_mask,
    merge_heads,
    padding_mask,
    split_heads,
)
from tests.assertions import assert_close, assert_identical
from tests.attention.reference import SCORE_NAMES

F64 = torch.float64


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_a_query_without_a_valid_key_gets_the_output_bias_and_finite_gradients(return_weights, training):
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


def test_an_item_without_any_valid_pair_stays_finite():
    layer = MultiHeadAttention(8, 2).to(F64)
    x = torch.randn(2, 3, 8, dtype=F64, requires_grad=True)
    mask = torch.tensor([True, False]).view(2, 1, 1, 1)
    output = layer(x, mask=mask)
    assert_identical(output[1], layer.join.linear.bias.expand(3, -1))
    (gradient,) = torch.autograd.grad(output.sin().sum(), x)
    assert gradient.isfinite().all()
    assert (gradient[1] == 0).all()


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e300])
@pytest.mark.parametrize("form", ["keys of all heads and queries", "one head sees more", "one query sees more"])
@pytest.mark.parametrize("return_weights", [False, True])
def test_padding_does_not_change_the_result_bit_for_bit(garbage, form, return_weights):
    torch.manual_seed(2)
    layer = MultiHeadAttention(8, 2).to(F64)
    nn.init.normal_(layer.k_proj.bias), nn.init.normal_(layer.v_proj.bias)
    query = torch.randn(2, 3, 8, dtype=F64)
    there = torch.arange(5) < torch.tensor([[3], [5]])
    mask = padding_mask(there)
    if form != "keys of all heads and queries":
        mask = mask.expand(2, 2, 3, 5).clone()
        mask[(0, 0) if form == "one head sees more" else (0, slice(None), 0)] &= torch.arange(5) < 2

    def run(fill):
        key = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(3), dtype=F64)
        key[~there] = fill
        inputs = [key.requires_grad_(), *layer.parameters()]
        result = layer(query, key, mask=mask, return_weights=return_weights)
        output, *rest = result if isinstance(result, tuple) else (result,)
        return [output, *rest, *torch.autograd.grad(output.sin().sum(), inputs)]

    for clean, dirty in zip(run(0.0), run(garbage), strict=True):
        assert clean.isfinite().all()
        assert_identical(dirty, clean)


PADDED = ["padding", "padding and past", "float", "float and past", "one head sees less", "padded queries masked"]


def padding_masks(kind, there):
    """Masks that mask the same keys for every query."""
    n = there.shape[1]
    mask = padding_mask(there)
    if "past" in kind:
        mask = mask & causal_mask(n)
    if kind == "one head sees less":
        mask = mask.expand(-1, 2, n, n).clone()
        mask[:, 1, :, 1] = False
    if kind == "padded queries masked":
        mask = mask & there[:, None, :, None]
    if "float" in kind:
        added = torch.randn(n, n, generator=torch.Generator().manual_seed(5), dtype=F64)
        mask = added.expand(mask.shape[0], 1, n, n).masked_fill(~mask, -torch.inf)
    return mask


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("kind", PADDED)
@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("alone", [True, False])
def test_nan_in_the_padding_of_self_attention_reaches_no_other_row_and_no_gradient(
    garbage, kind, return_weights, alone
):
    # The padding is also among the queries, which share their projection weights.
    torch.manual_seed(2)
    layer = MultiHeadAttention(8, 2).to(F64)
    there = torch.arange(5) < torch.tensor([[3], [5], [1]])
    mask = padding_masks(kind, there)

    def run(fill):
        x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(3), dtype=F64)
        x[~there] = fill
        x.requires_grad_()
        result = layer(*((x,) if alone else (x, x, x)), mask=mask, return_weights=return_weights)
        output = (result[0] if isinstance(result, tuple) else result)[there]
        return [output, *torch.autograd.grad(output.sin().sum(), [x, *layer.parameters()])]

    for clean, dirty in zip(run(0.0), run(garbage), strict=True):
        assert clean.isfinite().all()
        assert_close(dirty, clean)


@pytest.mark.parametrize("return_weights", [False, True])
def test_nan_in_a_query_without_a_valid_key_does_not_propagate(return_weights):
    torch.manual_seed(2)
    layer = MultiHeadAttention(8, 2).to(F64)
    mask = torch.rand(2, 1, 4, 5, generator=torch.Generator().manual_seed(1)) > 0.3
    mask[0, :, 1:3] = False
    x, y = torch.randn(2, 4, 8, dtype=F64), torch.randn(2, 5, 8, dtype=F64)
    x[0, 1:3] = torch.nan
    inputs = [x.requires_grad_(), y.requires_grad_(), *layer.parameters()]
    result = layer(x, y, mask=mask, return_weights=return_weights)
    output = result[0] if isinstance(result, tuple) else result
    for tensor in (output, *torch.autograd.grad(output.sin().sum(), inputs)):
        assert tensor.isfinite().all()


@pytest.mark.parametrize("kind", PADDED)
def test_nan_in_a_valid_row_propagates(kind):
    layer = MultiHeadAttention(8, 2).to(F64)
    there = torch.arange(5) < torch.tensor([[3], [5]])
    x = torch.randn(2, 5, 8, dtype=F64)
    x[0, 2] = torch.nan
    output = layer(x, mask=padding_masks(kind, there))
    assert output[0, 2].isnan().all()
    assert output[1].isfinite().all()


def test_head_dim():
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


def test_key_defaults_to_query_and_value_to_key():
    layer = MultiHeadAttention(8, 2).to(F64)
    x, y = torch.randn(2, 4, 8, dtype=F64), torch.randn(2, 5, 8, dtype=F64)
    assert_close(layer(x), layer(x, x, x))
    assert_close(layer(x, y), layer(x, y, y))


def test_all_widths_may_differ():
    layer = MultiHeadAttention(6, 4, head_dim=5, value_head_dim=3, key_dim=7, value_dim=2, output_dim=9, bias=False)
    output, weights = layer(torch.randn(2, 3, 6), torch.randn(2, 8, 7), torch.randn(2, 8, 2), return_weights=True)
    assert output.shape == (2, 3, 9) and weights.shape == (2, 4, 3, 8)
    sizes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert sizes == {
        "q_proj.weight": (20, 6),
        "k_proj.weight": (20, 7),
        "v_proj.weight": (12, 2),
        "join.linear.weight": (9, 12),
    }


def test_a_bias_is_added_to_the_logits_of_each_head():
    layer = MultiHeadAttention(8, 2).to(F64)
    x, bias = torch.randn(3, 4, 8, dtype=F64), torch.randn(3, 2, 4, 4, dtype=F64)
    q, k = split_heads(layer.q_proj(x), 2), split_heads(layer.k_proj(x), 2)
    output, weights = layer(x, bias=bias, return_weights=True)
    assert_close(weights, torch.softmax(q @ k.mT / 2 + bias, -1))
    assert_close(layer(x, bias=bias), output)


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("key_bias", ["shared", "per_position"])
@pytest.mark.parametrize("normalizer", [*NORMALIZERS, Softmax(0.5)], ids=str)
@pytest.mark.parametrize("score", SCORE_NAMES)
def test_all_options_combine(score, normalizer, key_bias, join):
    torch.manual_seed(0)
    layer = MultiHeadAttention(6, 2, score=score, normalizer=normalizer, key_bias=key_bias, join=join, max_length=7).to(
        F64
    )
    x, y = torch.randn(2, 4, 6, dtype=F64), torch.randn(2, 5, 6, dtype=F64)
    mask = padding_mask(torch.tensor([[True] * 5, [True, True, True, False, False]]))
    mask = mask & (torch.arange(4) != 1).view(4, 1)
    output, weights = layer(x, y, mask=mask, return_weights=True)
    q, k = split_heads(layer.q_proj(x), 2), split_heads(layer.k_proj(y), 2)
    if key_bias == "per_position":
        k = k + layer.key_bias[:, :5]
    assert_close(weights, attention_weights(q, k, mask, score=layer.score, normalizer=normalizer))
    assert_close(output, layer.join(merge_heads(weights @ split_heads(layer.v_proj(y), 2))))
    assert_close(layer(x, y, mask=mask), output)
    assert (weights[:, :, 1] == 0).all()
    assert_close(weights.sum(-1), mask.any(-1).to(F64).expand(2, 2, 4))
    if join != "concat":
        assert (output[:, 1] == 0).all()
    output.sin().sum().backward()
    for name, parameter in layer.named_parameters():
        if score != "location" or name not in (
            "k_proj.weight",
            "k_proj.bias",
            "key_bias",
        ):  # it does not depend on the keys
            assert parameter.grad is not None and parameter.grad.isfinite().all(), name


def test_with_equal_rows_the_key_bias_per_position_is_the_shared_one():
    torch.manual_seed(2)
    shared = MultiHeadAttention(6, 2).to(F64)
    layer = MultiHeadAttention(6, 2, key_bias="per_position", max_length=5).to(F64)
    state = shared.state_dict()
    state["key_bias"] = state.pop("k_proj.bias").view(2, 1, 3).expand(2, 5, 3)
    layer.load_state_dict(state)
    x = torch.randn(2, 4, 6, dtype=F64)  # fewer keys than positions: the first rows of the bias are used
    assert_close(layer(x), shared(x))


def test_only_a_key_bias_per_position_distinguishes_positions():
    # Equal rows: with a shared bias no position can be preferred, with one per position a head can prefer one.
    torch.manual_seed(3)
    x = torch.randn(1, 1, 6, dtype=F64).expand(1, 5, 6)
    for key_bias, prefers in (("shared", False), ("per_position", True)):
        layer = MultiHeadAttention(6, 2, key_bias=key_bias, max_length=5).to(F64)
        _, weights = layer(x, return_weights=True)
        assert bool((weights - 0.2).abs().max() > 1e-3) is prefers


def test_a_key_bias_per_position_has_its_gradients():
    torch.manual_seed(4)
    layer = MultiHeadAttention(4, 2, key_bias="per_position", max_length=3).to(F64)
    x = torch.randn(1, 3, 4, dtype=F64, requires_grad=True)
    assert gradcheck(lambda x, *_: layer(x, mask=causal_mask(3)), (x, *layer.parameters()))


def test_a_custom_score_with_weights_works_in_the_layer():
    layer = MultiHeadAttention(6, 2, score=Additive(3, 3, hidden_dim=11))
    assert "score.w.weight" in dict(layer.named_parameters())
    assert layer.score.w.weight.shape == (1, 11)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"score": "nope"}, "unknown score 'nope'"),
        ({"normalizer": "nope"}, "unknown normalizer 'nope'.*sparsemax"),
        ({"join": "nope"}, "unknown join 'nope'"),
        ({"key_bias": "nope"}, "unknown key_bias 'nope'"),
        ({"score": "location"}, "max_length"),
        ({"key_bias": "per_position"}, "max_length"),
        ({"key_bias": "per_position", "max_length": 4, "bias": False}, "bias=True"),
        ({"num_heads": 0}, "num_heads must be at least 1, not 0"),
        ({"num_heads": -2}, "num_heads"),
        ({"embed_dim": 0}, "embed_dim"),
        ({"head_dim": 0}, "head_dim must be at least 1"),
        ({"value_head_dim": 0}, "value_head_dim"),
        ({"key_dim": 0}, "key_dim"),
        ({"value_dim": -1}, "value_dim"),
        ({"output_dim": 0}, "output_dim"),
        ({"max_length": 0, "key_bias": "per_position"}, "max_length"),
        ({"dropout": 1.0}, "from 0 to below 1"),
        ({"dropout": -0.1}, "from 0 to below 1"),
        ({"dropout": torch.nan}, "from 0 to below 1"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**{"embed_dim": 8, "num_heads": 2, **settings})


@pytest.mark.parametrize("name", ["score", "normalizer", "join"])
def test_a_choice_that_is_neither_a_name_nor_a_function_raises(name):
    with pytest.raises(TypeError, match=rf"the {name} is a name or a function, not 0\.5|Type-check error"):
        MultiHeadAttention(8, 2, **{name: 0.5})


def test_more_keys_than_positions_raise():
    layer = MultiHeadAttention(8, 2, key_bias="per_position", max_length=4)
    with pytest.raises(ValueError, match="5 keys are more than the 4 positions"):
        layer(torch.randn(1, 5, 8))


def test_a_negative_position_raises():
    layer, x = MultiHeadAttention(8, 2, key_bias="per_position", max_length=4), torch.randn(1, 2, 8)
    for offset in (-1, -5):
        with pytest.raises(ValueError, match=f"offset must be at least 0, .* not {offset}"):
            layer.project_keys_and_values(x, offset=offset)


@pytest.mark.parametrize("name", ["mask", "bias"])
def test_a_mask_or_bias_that_is_no_tensor_raises(name):
    layer, x = MultiHeadAttention(8, 2), torch.randn(2, 1, 8)
    message = rf"the {name} is a tensor.*, not of type list: pass torch.as_tensor\({name}\)|Type-check error"
    pairwise: Any = [[1.0]]
    with pytest.raises(TypeError, match=message):  # also the error of the check of annotations
        layer(x, **{name: pairwise})
    with pytest.raises(TypeError, match=message):
        layer.attend_to(x, *layer.project_keys_and_values(x), **{"layout" if name == "mask" else name: pairwise})


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("kind", [torch.bool, torch.float])
@pytest.mark.parametrize("lead", [1, 2, 3])
def test_a_mask_per_item_needs_a_head_dimension(lead, kind, return_weights):
    # With as many items as heads, or one item, it would silently broadcast to the heads.
    layer = MultiHeadAttention(8, 2)
    x, y = torch.randn(lead, 3, 8), torch.randn(lead, 4, 8)
    mask = torch.ones(lead, 3, 4).to(kind)
    with pytest.raises(ValueError, match=r"mask.unsqueeze\(1\)"):
        layer(x, y, mask=mask, return_weights=return_weights)
    with pytest.raises(ValueError, match=r"mask.unsqueeze\(1\)"):
        layer.attend_to(x, *layer.project_keys_and_values(y), mask)
    layer(x, y, mask=mask.unsqueeze(1), return_weights=return_weights)


@pytest.mark.parametrize("kind", [torch.bool, torch.float])
@pytest.mark.parametrize(
    ("query", "mask", "message"),
    [
        ((2, 3, 8), (4,), "padding_mask"),
        ((2, 3, 8), (2, 4), "does not broadcast"),  # a mask of the keys: needs padding_mask
        ((2, 3, 8), (4, 4), "does not broadcast"),
        ((2, 3, 8), (2, 3, 3, 4), r"does not broadcast to \(2, 2, 3, 4\)"),
        ((2, 3, 8), (3, 1, 3, 4), "does not broadcast"),
        ((2, 3, 8), (2, 1, 1, 1, 4), "5 dimensions"),
        ((3, 8), (1, 1, 3, 4), "it needs 2, .* or 3"),
        ((3, 8), (4, 3, 4), r"does not broadcast to \(2, 3, 4\)"),
    ],
)
def test_a_mask_of_the_wrong_shape_raises(query, mask, message, kind):
    layer = MultiHeadAttention(8, 2)
    key = torch.randn(*query[:-2], 4, 8)
    with pytest.raises(ValueError, match=message):
        layer(torch.randn(query), key, mask=torch.ones(mask).to(kind))


@pytest.mark.parametrize(
    ("query", "bias", "message"),
    [
        ((2, 3, 8), (2, 3, 4), r"a bias \(2, 3, 4\) of 3 dimensions is ambiguous .* bias.unsqueeze\(1\)"),
        ((2, 3, 8), (4,), "a bias .* it needs 2, .* including one for the heads$"),
        ((2, 3, 8), (2, 3, 3, 4), r"a bias .* does not broadcast to \(2, 2, 3, 4\)"),
        ((3, 8), (4, 3, 4), r"a bias .* does not broadcast to \(2, 3, 4\)"),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_of_the_wrong_shape_raises(query, bias, message, masked):
    layer = MultiHeadAttention(8, 2)
    x, y = torch.randn(query), torch.randn(*query[:-2], 4, 8)
    mask = torch.ones(3, 4, dtype=torch.bool) if masked else None
    with pytest.raises(ValueError, match=message):
        layer(x, y, mask=mask, bias=torch.zeros(bias))
    with pytest.raises(ValueError, match=message):
        layer.attend_to(x, *layer.project_keys_and_values(y), mask, torch.zeros(bias))


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1), (2, 3, 4), (1, 3, 4), (2, 1, 1)])
def test_without_a_batch_the_first_of_three_dimensions_are_the_heads(shape):
    layer = MultiHeadAttention(8, 2).to(F64)
    x, y = torch.randn(3, 8, dtype=F64), torch.randn(4, 8, dtype=F64)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    in_a_batch = layer(x[None], y[None], mask=mask if mask.dim() == 2 else mask[None])[0]
    assert_close(layer(x, y, mask=mask), in_a_batch)


def test_repr_of_a_layer():
    assert "embed_dim=8, num_heads=2, head_dim=4, score=scaled_dot, normalizer=softmax" in repr(
        MultiHeadAttention(8, 2)
    )
    layer = MultiHeadAttention(8, 2, value_head_dim=3, score="additive", normalizer=Softmax(0.5), dropout=0.1)
    assert "value_head_dim=3, normalizer=Softmax(temperature=0.5), dropout=0.1" in repr(layer)
    assert "(score): Additive(" in repr(layer)
    assert "normalizer=sparsemax" in repr(MultiHeadAttention(8, 2, normalizer="sparsemax"))
