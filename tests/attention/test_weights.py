"""attention_weights: a distribution over the valid keys, for any logits and masks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from molattn.attention import NORMALIZERS, SCORES, DenseLayout, EdgeListLayout, attend, attention_weights
from tests.assertions import assert_close, assert_identical, few_examples

F64 = torch.float64
SIZES = st.integers(1, 7)
SEEDS = st.integers(0, 10_000)
DENSITIES = st.sampled_from([0.0, 0.2, 0.6, 1.0])


def random_rows(heads, i, j, d, density, seed):
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(heads, i, d, generator=g, dtype=F64)
    k = torch.randn(heads, j, d, generator=g, dtype=F64)
    return q, k, torch.rand(heads, i, j, generator=g) < density


def random_segments(heads, receivers, senders, d, edges, seed):
    """Edges that leave the last receiver without any."""
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(receivers + 1, heads, d, generator=g, dtype=F64)
    k = torch.randn(senders, heads, d, generator=g, dtype=F64)
    sender = torch.randint(senders, (edges,), generator=g)
    receiver = torch.randint(receivers, (edges,), generator=g)
    return q, k, EdgeListLayout(sender, receiver, receivers + 1)


@few_examples
@given(SIZES, SIZES, SIZES, SIZES, DENSITIES, SEEDS)
def test_rows_sum_to_one_over_valid_keys_and_are_exactly_zero_elsewhere(heads, i, j, d, density, seed):
    q, k, mask = random_rows(heads, i, j, d, density, seed)
    w = attention_weights(q, k, mask)
    assert w.shape == (heads, i, j)
    assert (w >= 0).all()
    assert (w[~mask] == 0).all()
    assert_close(w.sum(-1), mask.any(-1).to(F64))


@few_examples
@given(SIZES, SIZES, SIZES, SIZES, st.integers(0, 12), SEEDS)
def test_edge_weights_sum_to_one_over_the_edges_into_a_receiver(heads, receivers, senders, d, edges, seed):
    q, k, layout = random_segments(heads, receivers, senders, d, edges, seed)
    w = attention_weights(q, k, layout)
    assert w.shape == (edges, heads)
    assert (w >= 0).all()
    reached = torch.bincount(layout.receiver, minlength=layout.num_receivers) > 0
    total = torch.zeros(layout.num_receivers, heads, dtype=F64).index_add(0, layout.receiver, w)
    assert_close(total, reached.to(F64).unsqueeze(-1).expand(-1, heads))


def test_a_receiver_without_incoming_edges_gets_zeros_and_zero_gradients():
    q, k, layout = random_segments(2, 3, 4, 5, 6, seed=0)
    q.requires_grad_()
    k.requires_grad_()
    output = attend(q, k, torch.ones(4, 2, 3, dtype=F64), layout)
    assert (output[-1] == 0).all()
    output.square().sum().backward()
    assert q.grad is not None and k.grad is not None
    assert q.grad.isfinite().all() and k.grad.isfinite().all()
    assert (q.grad[-1] == 0).all()


def test_without_edges_the_output_is_zeros():
    none = torch.zeros(0, dtype=torch.long)
    x = torch.randn(3, 2, 4, requires_grad=True)
    output, weights = attend(x, x, x, EdgeListLayout(none, none, 3), return_weights=True)
    assert weights.shape == (0, 2)
    assert_identical(output, torch.zeros(3, 2, 4))
    output.sum().backward()
    assert x.grad is not None and (x.grad == 0).all()


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_query_without_a_valid_key_gets_zeros_and_zero_gradients(return_weights, with_bias, dropout, dtype):
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 3, n, 8, dtype=dtype, requires_grad=True) for n in (4, 5, 5))
    mask = torch.rand(2, 3, 4, 5) > 0.4
    mask[:, :, 1] = False
    mask[1, 2] = False
    bias = torch.randn(3, 4, 5, dtype=dtype, requires_grad=True) if with_bias else None
    result = attend(q, k, v, mask, bias=bias, dropout=dropout, return_weights=return_weights)
    output = result[0] if isinstance(result, tuple) else result
    assert (output[:, :, 1] == 0).all() and (output[1, 2] == 0).all()
    if isinstance(result, tuple):
        assert (result[1][:, :, 1] == 0).all() and (result[1][1, 2] == 0).all()
    output.square().sum().backward()
    for x in (q, k, v, bias):
        if x is not None:
            assert x.grad is not None and x.grad.isfinite().all()
    assert q.grad is not None and k.grad is not None
    assert (q.grad[:, :, 1] == 0).all() and (q.grad[1, 2] == 0).all()
    assert (k.grad[1, 2] == 0).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_logits_do_not_overflow(sign, dtype):
    logits = sign * torch.tensor([[1e4, 9e3, 0.0], [1e4, 1e4, -1e4]], dtype=dtype)
    one, ones = torch.ones(1, dtype=dtype), torch.ones(2, 1, dtype=dtype)
    dense = attention_weights(ones, torch.zeros(3, 1, dtype=dtype), bias=logits)
    sender, receiver = torch.arange(3).repeat(2), torch.arange(2).repeat_interleave(3)
    edges = attention_weights(
        ones, torch.zeros(3, 1, dtype=dtype), EdgeListLayout(sender, receiver, 2), bias=logits.flatten()
    )
    expected = torch.tensor([[1, 0, 0], [0.5, 0.5, 0]] if sign > 0 else [[0, 0, 1], [0, 0, 1]], dtype=dtype)
    assert_identical(dense, expected)
    assert_identical(edges.view(2, 3), expected)
    by_products = attention_weights(one * sign * 1e4, torch.tensor([[1], [0.9], [0]], dtype=dtype), score="dot")
    assert_identical(by_products, expected[0])


@few_examples
@given(SIZES, SIZES, SIZES, SEEDS, st.floats(-50, 50))
def test_a_constant_added_to_the_logits_of_a_row_changes_nothing(i, j, d, seed, constant):
    q, k, mask = random_rows(2, i, j, d, 0.7, seed)
    row = constant * torch.arange(1, i + 1, dtype=F64).view(i, 1)
    assert_close(attention_weights(q, k, mask, bias=row), attention_weights(q, k, mask))
    v = torch.ones(2, j, 3, dtype=F64) * torch.arange(j).view(j, 1)
    assert_close(attend(q, k, v, mask, bias=row), attend(q, k, v, mask))


def test_a_constant_added_to_the_logits_of_a_receiver_changes_nothing():
    q, k, layout = random_segments(2, 4, 5, 3, 20, seed=2)
    constant = torch.randn(layout.num_receivers, 2, dtype=F64) * 30
    assert_close(attention_weights(q, k, layout, bias=constant[layout.receiver]), attention_weights(q, k, layout))


def test_a_bias_is_added_to_the_logits():
    q, k, _ = random_rows(2, 3, 4, 5, 1.0, seed=3)
    bias = torch.randn(2, 3, 4, dtype=F64)
    expected = torch.softmax(q @ k.mT / 5**0.5 + bias, dim=-1)
    assert_close(attention_weights(q, k, bias=bias), expected)
    assert_close(attention_weights(q, k, bias=bias, score="dot"), torch.softmax(q @ k.mT + bias, dim=-1))


@few_examples
@given(SIZES, SIZES, SIZES, DENSITIES, SEEDS)
def test_minus_infinity_in_a_float_mask_equals_false_in_a_boolean_mask(i, j, d, density, seed):
    q, k, mask = random_rows(2, i, j, d, density, seed)
    forbidding = torch.zeros(2, i, j, dtype=F64).masked_fill(~mask, -torch.inf)
    assert_close(attention_weights(q, k, forbidding), attention_weights(q, k, mask))
    assert_close(attend(q, k, k, forbidding, return_weights=True)[0], attend(q, k, k, mask, return_weights=True)[0])
    assert_close(attend(q, k, k, forbidding), attend(q, k, k, mask))


def test_finite_numbers_in_a_float_mask_are_added_and_add_up_with_a_bias():
    q, k, mask = random_rows(2, 4, 5, 3, 0.7, seed=4)
    added, bias = torch.randn(2, 4, 5, dtype=F64), torch.randn(4, 5, dtype=F64)
    float_mask = added.masked_fill(~mask, -torch.inf)
    expected = attention_weights(q, k, mask, bias=added + bias)
    assert_close(attention_weights(q, k, float_mask, bias=bias), expected)
    assert_close(attend(q, k, k, float_mask, bias=bias), expected @ k)


def test_a_learned_float_mask_gets_finite_gradients():
    q, k, mask = random_rows(1, 4, 5, 3, 0.5, seed=5)
    mask[0, 2] = False
    learned = torch.zeros(1, 4, 5, dtype=F64).masked_fill(~mask, -torch.inf).requires_grad_()
    attend(q, k, k, learned).square().sum().backward()
    assert learned.grad is not None and learned.grad.isfinite().all()
    assert (learned.grad[~mask] == 0).all()


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 5), (4, 1), (4, 5), (3, 1, 5), (2, 1, 1, 5), (2, 3, 4, 5)])
def test_masks_and_biases_broadcast_to_the_logits_in_both_implementations(shape):
    torch.manual_seed(6)
    q, k, v = torch.randn(2, 3, 4, 8, dtype=F64), torch.randn(2, 3, 5, 8, dtype=F64), torch.randn(2, 3, 5, 6, dtype=F64)
    mask, bias = torch.rand(shape) > 0.3, torch.randn(shape, dtype=F64)
    whole = attention_weights(q, k, mask.expand(2, 3, 4, 5), bias=bias.expand(2, 3, 4, 5))
    assert_close(attention_weights(q, k, mask, bias=bias), whole)
    assert_close(attend(q, k, v, mask, bias=bias), whole @ v)
    assert_close(attend(q, k, v, bias=bias), attend(q, k, v, bias=bias.expand(2, 3, 4, 5)))


def test_an_integer_mask_raises():
    x = torch.randn(3, 4)
    with pytest.raises(TypeError, match="boolean"):
        attend(x, x, x, torch.ones(3, 3, dtype=torch.long))
    with pytest.raises(TypeError, match="boolean"):
        DenseLayout(torch.ones(3, 3))


@pytest.mark.parametrize("argument", ["score", "normalizer"])
def test_an_unknown_name_raises_with_the_known_ones(argument):
    x = torch.randn(3, 4)
    table = {"score": SCORES, "normalizer": NORMALIZERS}[argument]
    with pytest.raises(ValueError, match=f"unknown {argument} 'nope'.*{next(iter(table))}"):
        attention_weights(x, x, **{argument: "nope"})
    with pytest.raises(ValueError, match=f"unknown {argument} 'nope'.*{next(iter(table))}"):
        attend(x, x, x, **{argument: "nope"})


def test_score_and_normalizer_may_be_functions():
    q, k, mask = random_rows(1, 3, 4, 5, 0.7, seed=7)

    def negative_dot(q, k, layout):
        return -layout.pairwise_dot(q, k)

    def shifted_softmax(logits, layout):
        return layout.softmax(logits + 1)

    expected = attention_weights(-q, k, mask, score="dot")
    assert_close(attention_weights(q, k, mask, score=negative_dot, normalizer=shifted_softmax), expected)
