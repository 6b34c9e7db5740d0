"""Keras' own tests of attention, restated for ours; for parity with its layers, see test_keras_parity.

keras/src/layers/attention/multi_head_attention_test.py, 31 tests: 18 are restated. Thirteen do not apply: flash
attention by name (2), masks that travel with tensors (2), windows as a setting (2; as a mask they are here), axes other
than the one before the last, an output of several dimensions, subclasses of an inner method, constraints, LoRA, dtype
policies and int8.

attention_test.py, 32 tests: 16 are restated. Sixteen do not apply: masks that travel with tensors (13), inputs as a
list, a seed in the settings, and symbolic calls with side effects. additive_attention_test.py, 4 tests: 3 are
restated; inputs are no list here. grouped_query_attention_test.py, 19 tests: none, there are no grouped queries.
"""

import inspect

import pytest
import torch

from molattn.attention import MultiHeadAttention, attend, attention_weights, causal_mask, padding_mask
from molattn.attention.arguments import check_sizes
from tests.assertions import assert_close

F64 = torch.float64
QUERY = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=F64)
KEY, VALUE = QUERY.flip(1), torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], dtype=F64)


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


# multi_head_attention_test.py


@pytest.mark.parametrize("settings", [{}, {"value_head_dim": 4, "bias": False, "dropout": 0.5}])
def test_shapes_and_how_many_weights(settings):
    layer = MultiHeadAttention(16, 2, head_dim=2, **settings).to(F64)
    assert layer(rand(2, 8, 16), rand(2, 4, 16)).shape == (2, 8, 16)
    assert len(list(layer.parameters())) == (4 if settings else 8)


@pytest.mark.parametrize("lead", [(3,), (3, 5)])
@pytest.mark.parametrize("mask_dims", ["query and key", "all", "of every head"])
def test_several_batch_dimensions_equal_one(lead, mask_dims):
    layer = MultiHeadAttention(8, 2, head_dim=2).to(F64)
    query, value = rand(*lead, 3, 4, 8), rand(*lead, 3, 2, 8)
    shape = {"query and key": (4, 2), "all": (*lead, 3, 1, 4, 2), "of every head": (*lead, 3, 2, 4, 2)}[mask_dims]
    mask = rand(*shape) > 0.5
    output, weights = layer(query, value, mask=mask, return_weights=True)
    flat = mask if mask.dim() == 2 else mask.flatten(0, len(lead))
    expected = layer(query.flatten(0, len(lead)), value.flatten(0, len(lead)), mask=flat)
    assert output.shape == query.shape and weights.shape == (*lead, 3, 2, 4, 2)
    assert_close(output.flatten(0, len(lead)), expected)


@pytest.mark.parametrize("key_dim", [8, 3])
@pytest.mark.parametrize("value_dim", [8, 7])
@pytest.mark.parametrize("output_dim", [None, 1, 8])
@pytest.mark.parametrize("lead", [(7,), (7, 2)])
def test_meta_tensors_have_the_same_shapes(key_dim, value_dim, output_dim, lead):
    settings = {"head_dim": 2, "key_dim": key_dim, "value_dim": value_dim, "output_dim": output_dim}
    layer = MultiHeadAttention(8, 2, **settings).to(F64)
    inputs = rand(*lead, 4, 8), rand(*lead, 2, key_dim), rand(*lead, 2, value_dim)
    found = layer(*inputs, return_weights=True)
    symbolic = layer.to("meta")(*(x.to("meta") for x in inputs), return_weights=True)
    assert found[0].shape == symbolic[0].shape == (*lead, 4, output_dim or 8)
    assert found[1].shape == symbolic[1].shape == (*lead, 2, 4, 2)


def test_mismatched_widths_and_lengths_raise():
    layer = MultiHeadAttention(8, 4, head_dim=2)
    forward = inspect.unwrap(MultiHeadAttention.forward)
    with pytest.raises(ValueError, match="the key has 7 channels, and the layer expects 8"):
        forward(layer, torch.ones(2, 4, 8), torch.ones(2, 2, 7))
    with pytest.raises(ValueError, match="1 keys and 2 values"):
        forward(layer, torch.ones(2, 4, 8), torch.ones(2, 1, 8), torch.ones(2, 2, 8))
    with pytest.raises(ValueError, match="same batch"):
        forward(layer, torch.ones(2, 4, 2, 3, 8), torch.ones(2, 1, 15, 5, 8), torch.ones(2, 1, 1, 5, 8))


@pytest.mark.parametrize("bad", [0, -2, 1.5, 8.0])
@pytest.mark.parametrize("name", ["num_heads", "head_dim", "value_head_dim", "output_dim"])
def test_invalid_sizes_raise_by_name(bad, name):
    # As users call it: without the type checks that run under pytest.
    check, start = inspect.unwrap(check_sizes), inspect.unwrap(MultiHeadAttention.__init__)
    with pytest.raises(ValueError, match=f"^{name} must be"):
        check(**{name: bad})
    if isinstance(bad, int):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            start(MultiHeadAttention.__new__(MultiHeadAttention), **{"embed_dim": 8, "num_heads": 2, name: bad})
    MultiHeadAttention(8, 2, value_head_dim=None, output_dim=None)


def test_every_projection_is_initialized_independently():
    layer = MultiHeadAttention(8, 2)
    weights = [layer.q_proj.weight, layer.k_proj.weight, layer.v_proj.weight, layer.join.linear.weight]
    for i, one in enumerate(weights):
        for other in weights[:i]:
            assert not torch.equal(one, other)


@pytest.mark.parametrize("causal", [False, True])
def test_query_key_and_causal_masks_combine_into_one(causal):
    layer = MultiHeadAttention(8, 2, head_dim=2).to(F64)
    of_query = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]) > 0
    of_value = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]]) > 0
    mask = padding_mask(of_value) & of_query[:, None, :, None]
    # One pair at a time.
    by_hand = torch.zeros(3, 1, 5, 3, dtype=torch.bool)
    for b, _, i, j in torch.cartesian_prod(torch.arange(3), torch.zeros(1).long(), torch.arange(5), torch.arange(3)):
        by_hand[b, 0, i, j] = of_query[b, i] & of_value[b, j] & (not causal or j <= i)
    if causal:
        mask = mask & torch.ones(5, 3, dtype=torch.bool).tril()
    query, value = rand(3, 5, 8), rand(3, 3, 8, seed=1)
    assert_close(layer(query, value, mask=mask), layer(query, value, mask=by_hand))
    clean = layer(query, value.masked_fill(~of_value.unsqueeze(-1), 7.0), mask=mask)
    assert_close(clean, layer(query, value, mask=mask))


def test_a_mask_for_all_for_items_and_for_heads():
    layer, x = MultiHeadAttention(8, 2, head_dim=4).to(F64), rand(2, 5, 8)
    mask = causal_mask(5)
    expected = layer(x, x, mask=mask)
    assert_close(layer(x, x, mask=mask.expand(2, 1, 5, 5)), expected)
    assert_close(layer(x, x, mask=mask.expand(2, 2, 5, 5)), expected)
    with pytest.raises(ValueError, match=r"mask.unsqueeze\(1\)"):  # Keras takes it
        layer(x, x, mask=mask.expand(2, 5, 5))


@pytest.mark.parametrize("causal", [True, False])
def test_a_window_is_a_mask(causal):
    layer, x = MultiHeadAttention(8, 2, head_dim=4).to(F64), rand(1, 6, 8)
    apart = torch.arange(6)[:, None] - torch.arange(6)
    window = (apart.abs() < 3) & (causal_mask(6) if causal else torch.ones(6, 6, dtype=torch.bool))
    _, weights = layer(x, mask=window, return_weights=True)
    assert ((weights > 0) == window).all()


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("dims", [3, 4])
def test_no_weight_falls_on_the_future_whichever_way_it_is_computed(dropout, extra, dims):
    layer = MultiHeadAttention(8, 2, head_dim=4, dropout=dropout).to(F64).eval()
    x = rand(*(3, 1)[: dims - 2], 6, 8)
    mask = causal_mask(6)
    if extra:
        mask = mask.clone()
        mask[3, 1] = False
    output, weights = layer(x, mask=mask, return_weights=True)
    assert (weights[..., ~mask] == 0).all() and (weights[..., mask] > 0).all()
    assert_close(layer(x, mask=mask), output)
    added = torch.zeros(6, 6, dtype=F64).masked_fill(~mask, -torch.inf)
    assert_close(layer(x, mask=added), output)
    later = x.clone()
    later[..., 4:, :] += 1.0
    assert_close(layer(later, mask=mask)[..., :4, :], output[..., :4, :])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, F64])
def test_with_identity_projections_it_is_the_softmax_of_the_products(dtype):
    d = 8
    layer = MultiHeadAttention(d, d, head_dim=d, bias=True).to(dtype)
    with torch.no_grad():
        for p in (layer.q_proj, layer.k_proj, layer.v_proj):
            p.weight.copy_(torch.eye(d).repeat(d, 1))
            p.bias.zero_()
        layer.join.linear.weight.copy_(torch.eye(d).repeat(1, d))
        layer.join.linear.bias.zero_()
    one = torch.eye(d, dtype=dtype)[None]
    value = (torch.arange(d * d).view(1, d, d) / 100).to(dtype)
    output, weights = layer(one, one, value, return_weights=True)
    expected = torch.softmax(torch.eye(d, dtype=F64) / d**0.5, -1)
    tol = 1e-12 if dtype == F64 else 2e-2
    assert_close(weights.to(F64), expected.expand(1, d, d, d), tol)
    assert_close(output.to(F64), d * expected @ value.to(F64), tol)
    assert_close(layer(one, one, value).to(F64), output.to(F64), tol)


def test_output_dim():
    assert MultiHeadAttention(16, 2, head_dim=16, output_dim=8)(torch.rand(2, 4, 16)).shape == (2, 4, 8)


# attention_test.py and additive_attention_test.py


def additive(q, k, layout):
    return torch.tanh(layout.pairwise_sum(q, k)).sum(-1)


@pytest.mark.parametrize("score", ["dot", additive], ids=["dot", "additive"])
def test_weights_and_outputs_by_hand(score):
    logits = torch.zeros(1, 2, 2, dtype=F64)
    for i in range(2):
        for j in range(2):
            q, k = QUERY[0, i], KEY[0, j]
            logits[0, i, j] = q @ k if score == "dot" else torch.tanh(q + k).sum()
    output, weights = attend(QUERY, KEY, VALUE, score=score, return_weights=True)
    assert_close(weights, logits.exp() / logits.exp().sum(-1, keepdim=True))
    assert_close(output, weights @ VALUE)
    # To three digits, as Keras has them.
    first = [0.269, 0.731] if score == "dot" else [0.636, 0.363]
    assert_close(weights[0], torch.tensor([first, first[::-1]], dtype=F64), 1e-3)


@pytest.mark.parametrize("score", ["scaled_dot", "dot", additive], ids=["scaled dot", "dot", "additive"])
def test_a_mask_of_values_and_one_of_queries(score):
    value, there = torch.ones(1, 2, 2, dtype=F64), torch.tensor([True, False])
    output, weights = attend(QUERY, value, value, there, score=score, return_weights=True)
    assert_close(weights, torch.tensor([[[1.0, 0.0], [1.0, 0.0]]], dtype=F64))
    # Keras masks a query after the weights; here it has no valid key.
    output, weights = attend(QUERY, value, value, there & there[:, None], score=score, return_weights=True)
    assert_close(output, torch.tensor([[[1.0, 1.0], [0.0, 0.0]]], dtype=F64))
    assert_close(weights, torch.tensor([[[1.0, 0.0], [0.0, 0.0]]], dtype=F64))


@pytest.mark.parametrize("score", ["dot", additive], ids=["dot", "additive"])
@pytest.mark.parametrize("lead", [(2,), (2, 8)])
@pytest.mark.parametrize("masked", [False, True])
def test_shapes_of_outputs_and_weights(score, lead, masked):
    query, key, value = rand(*lead, 3, 4), rand(*lead, 6, 4), rand(*lead, 6, 5)
    mask = torch.tensor([True, False, True, True, True, False]) if masked else None
    result = attend(query, key, value, mask, score=score, dropout=0.5, return_weights=True)
    assert isinstance(result, tuple)
    output, weights = result
    assert output.shape == (*lead, 3, 5) and weights.shape == (*lead, 3, 6)
    on_meta = attend(*(x.to("meta") for x in (query, key, value)), score=score, return_weights=True)
    assert on_meta[0].shape == output.shape and on_meta[1].shape == weights.shape


def test_dropout_changes_the_output():
    torch.manual_seed(0)
    value = rand(1, 20, 2)
    assert (attend(QUERY, value, value, dropout=0.2) - attend(QUERY, value, value)).abs().max() > 1e-3


def test_an_unknown_score_raises_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown score 'invalid_mode': choose one of dot, scaled_dot"):
        attention_weights(QUERY, KEY, score="invalid_mode")


def test_a_score_with_a_factor():
    query, key = rand(2, 3, 4), rand(2, 4, 4, seed=1)
    expected = torch.softmax(query @ key.mT * 1.7, -1)
    assert_close(attention_weights(query, key, score=lambda q, k, layout: layout.pairwise_dot(1.7 * q, k)), expected)


def test_a_causal_mask_with_and_without_a_mask_of_values():
    query, key = rand(2, 3, 4), rand(2, 4, 4, seed=1)
    values = torch.tensor([True, False, True, False])
    past = torch.ones(3, 4, dtype=torch.bool).tril()
    everyone = torch.ones(3, 4, dtype=torch.bool)
    assert_close(attention_weights(query, key, everyone), attention_weights(query, key))
    for mask in (past, past & values):
        assert ((attention_weights(query, key, mask) > 0) == mask).all()
