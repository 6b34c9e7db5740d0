"""attend: all implementations agree, and masked keys have no effect."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from molattn.attention import EdgeListLayout, General, Softmax, attend, attention_weights, backend
from tests.assertions import assert_close, assert_equivariant, assert_identical, few_examples

F64 = torch.float64
SIZES = st.integers(1, 7)
SEEDS = st.integers(0, 10_000)
GARBAGE = [torch.nan, torch.inf, -torch.inf, 1e300]


def random_qkv(lead, i, j, d, c, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(*lead, n, m, generator=g, dtype=F64) for n, m in ((i, d), (j, d), (j, c)))


@pytest.fixture
def kernel_calls(monkeypatch):
    """The keyword arguments of every call of the fused kernel."""
    calls = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def spy(*args, **kwargs):
        calls.append(kwargs)
        return kernel(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    return calls


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_fused_kernel_runs_without_return_weights_and_agrees(kernel_calls, score, masked, with_bias):
    q, k, v = random_qkv((2, 3), 4, 5, 8, 6)
    g = torch.Generator().manual_seed(1)
    mask = torch.rand(2, 1, 4, 5, generator=g) > 0.4 if masked else None
    bias = torch.randn(3, 4, 5, generator=g, dtype=F64) if with_bias else None
    fused = attend(q, k, v, mask, bias=bias, score=score)
    assert len(kernel_calls) == 1
    plain, weights = attend(q, k, v, mask, bias=bias, score=score, return_weights=True)
    assert len(kernel_calls) == 1
    assert_close(fused, plain)
    assert_close(fused, weights @ v)
    assert_identical(weights, attention_weights(q, k, mask, bias=bias, score=score))
    assert len(kernel_calls) == 1


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_the_fused_kernel_runs_for_any_number_of_batch_dimensions(kernel_calls, lead):
    q, k, v = random_qkv(lead, 4, 5, 8, 6)
    assert_close(attend(q, k, v), torch.softmax(q @ k.mT / 8**0.5, dim=-1) @ v)
    assert len(kernel_calls) == 1


def test_the_fused_kernel_does_not_run_for_other_scores_and_layouts(kernel_calls):
    q, k, v = random_qkv((), 4, 5, 8, 6)
    attend(q, k, v, score=General(8, 8).to(F64))
    attend(q, k, v, normalizer="sparsemax")
    attend(q, k, v, normalizer=Softmax(2.0))
    attend(q, k, v, normalizer=lambda logits, layout: layout.softmax(logits))
    attend(q[0], k, v)
    every_pair = EdgeListLayout(torch.arange(5).repeat(4), torch.arange(4).repeat_interleave(5), 4)
    attend(q, k, v, every_pair)
    assert kernel_calls == []


@few_examples
@given(SIZES, SIZES, SIZES, SIZES, SIZES, SEEDS, st.booleans())
def test_fused_is_weights_times_values_for_any_shape(heads, i, j, d, c, seed, masked):
    q, k, v = random_qkv((2, heads), i, j, d, c, seed)
    mask = torch.rand(2, heads, i, j, generator=torch.Generator().manual_seed(seed)) > 0.4 if masked else None
    assert_close(attend(q, k, v, mask), attention_weights(q, k, mask) @ v)


def test_fused_and_plain_have_the_same_gradients():
    mask = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(2)) > 0.4
    mask[0, 0, 1] = False
    of = {}
    for return_weights in (False, True):
        q, k, v = (x.requires_grad_() for x in random_qkv((2, 3), 4, 5, 8, 6))
        bias = torch.zeros(4, 5, dtype=F64, requires_grad=True)
        result = attend(q, k, v, mask, bias=bias, return_weights=return_weights)
        output = result[0] if isinstance(result, tuple) else result
        of[return_weights] = torch.autograd.grad(output.sin().sum(), (q, k, v, bias))
    for fused, plain in zip(of[False], of[True], strict=True):
        assert_close(fused, plain)


@few_examples
@given(SIZES, SIZES, SIZES, st.sampled_from([0.0, 0.3, 0.7, 1.0]), SEEDS, st.booleans())
def test_dense_layouts_and_edge_lists_give_the_same_attention(heads, i, j, density, seed, with_bias):
    q, k, v = random_qkv((heads,), i, j, 4, 3, seed)
    g = torch.Generator().manual_seed(seed)
    mask = torch.rand(i, j, generator=g) < density
    bias = torch.randn(heads, i, j, generator=g, dtype=F64) if with_bias else None
    receiver, sender = mask.nonzero(as_tuple=True)
    edges = EdgeListLayout(sender, receiver, i)
    by_edge = (x.transpose(0, 1) for x in (q, k, v))
    edge_bias = None if bias is None else bias[:, receiver, sender].T
    sparse, w = attend(*by_edge, edges, bias=edge_bias, return_weights=True)
    dense, rows = attend(q, k, v, mask, bias=bias, return_weights=True)
    assert_close(w, rows[:, receiver, sender].T)
    assert_close(sparse, dense.transpose(0, 1))
    assert_close(sparse, attend(q, k, v, mask, bias=bias).transpose(0, 1))


def test_dense_layouts_and_edge_lists_have_the_same_gradients():
    mask = torch.rand(4, 5, generator=torch.Generator().manual_seed(3)) > 0.5
    mask[2] = False
    receiver, sender = mask.nonzero(as_tuple=True)
    q, k, v = (x.requires_grad_() for x in random_qkv((2,), 4, 5, 3, 3))
    dense = attend(q, k, v, mask)
    sparse = attend(q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), EdgeListLayout(sender, receiver, 4))
    of_dense = torch.autograd.grad(dense.sin().sum(), (q, k, v))
    of_sparse = torch.autograd.grad(sparse.sin().sum(), (q, k, v))
    for a, b in zip(of_dense, of_sparse, strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("return_weights", [False, True])
def test_padded_keys_and_values_do_not_change_the_result_bit_for_bit(garbage, with_bias, return_weights):
    q, k, v = random_qkv((2, 3), 4, 6, 8, 5)
    mask = torch.arange(6) < torch.tensor([4, 6]).view(2, 1, 1, 1)  # the first of the batch has two padded keys
    bias = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(4), dtype=F64) if with_bias else None

    def run(fill):
        padded = [x.clone() for x in (q, k, v)]
        padded[1][0, :, 4:] = padded[2][0, :, 4:] = fill
        inputs = [x.requires_grad_() for x in padded]
        result = attend(*inputs, mask, bias=bias, return_weights=return_weights)
        output, *rest = result if isinstance(result, tuple) else (result,)
        return [output, *rest, *torch.autograd.grad(output.sin().sum(), inputs)]

    clean, dirty = run(0.0), run(garbage)
    for a, b in zip(clean, dirty, strict=True):
        assert a.isfinite().all()
        assert_identical(b, a)
    for gradient in dirty[-2:]:
        assert (gradient[0, :, 4:] == 0).all()


@pytest.mark.parametrize("with_bias", [False, True])
def test_the_fused_kernel_never_gets_a_query_without_a_valid_key(kernel_calls, with_bias):
    # Some kernels return NaN there, others zeros: nothing here may depend on which.
    q, k, v = random_qkv((2,), 3, 4, 8, 5)
    mask = torch.tensor([[True, False, True, True], [False] * 4, [False, False, False, True]])
    bias = torch.zeros(3, 4, dtype=F64) if with_bias else None
    assert (attend(q, k, v, mask, bias=bias)[:, 1] == 0).all()
    (call,) = kernel_calls
    seen = call["attn_mask"]
    allowed = seen if seen.dtype == torch.bool else seen > torch.finfo(F64).min / 2
    assert allowed.any(-1).all()
    assert (allowed[[0, 2]] == mask[[0, 2]]).all()


@pytest.mark.parametrize("shape", [(4, 6), (1, 6), (2, 1, 4, 6)])
@pytest.mark.parametrize("density", [0.3, 0.9, 1.0])
def test_not_reading_the_mask_gives_the_same_result_bit_for_bit(monkeypatch, shape, density):
    # On a GPU and under a compiler, masked keys are zeroed without checking whether there are any.
    q, k, v = random_qkv((2, 3), 4, 6, 8, 5)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < density
    expected = attend(q, k, v, mask)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert_identical(attend(q, k, v, mask), expected)


@pytest.mark.parametrize("return_weights", [False, True])
def test_padded_keys_are_equivalent_to_no_keys(return_weights):
    q, k, v = random_qkv((2,), 4, 6, 8, 5)
    mask = torch.arange(6) < 4
    padded = attend(q, k, v, mask, return_weights=return_weights)
    bare = attend(q, k[:, :4], v[:, :4], return_weights=return_weights)
    if isinstance(padded, tuple) and isinstance(bare, tuple):
        assert_close(padded[1][..., :4], bare[1])
        padded, bare = padded[0], bare[0]
    assert_close(padded, bare)


@pytest.mark.parametrize("return_weights", [False, True])
def test_attend_is_equivariant_to_its_queries_and_invariant_to_the_order_of_keys(return_weights):
    q, k, v = random_qkv((2, 3), 4, 5, 8, 6)
    g = torch.Generator().manual_seed(5)
    mask, bias = torch.rand(4, 5, generator=g) > 0.4, torch.randn(4, 5, generator=g, dtype=F64)
    rows, columns = torch.randperm(4, generator=g), torch.randperm(5, generator=g)

    def f(q, k, v, mask, bias):
        result = attend(q, k, v, mask, bias=bias, return_weights=return_weights)
        return result[0] if isinstance(result, tuple) else result

    def permute(q, k, v, mask, bias):
        return q[..., rows, :], k[..., columns, :], v[..., columns, :], mask[rows][:, columns], bias[rows][:, columns]

    assert_equivariant(f, (q, k, v, mask, bias), permute, lambda output: output[..., rows, :])


def test_the_order_of_an_edge_list_does_not_matter():
    q, k, v = random_qkv((6,), 2, 2, 3, 3)
    g = torch.Generator().manual_seed(6)
    sender, receiver = torch.randint(6, (2, 15), generator=g)
    bias, order = torch.randn(15, 2, generator=g, dtype=F64), torch.randperm(15, generator=g)
    output, weights = attend(q, k, v, EdgeListLayout(sender, receiver, 6), bias=bias, return_weights=True)
    shuffled = EdgeListLayout(sender[order], receiver[order], 6)
    output_after, weights_after = attend(q, k, v, shuffled, bias=bias[order], return_weights=True)
    assert_close(output_after, output)
    assert_close(weights_after, weights[order])


@pytest.mark.parametrize("allowed", [[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
def test_a_single_query_equals_a_row_of_the_batch(allowed):
    q, k, v = random_qkv((), 1, 5, 8, 6)
    mask = torch.tensor(allowed, dtype=torch.bool)
    output, weights = attend(q[0], k, v, mask, return_weights=True)
    assert_close(output, attend(q, k, v, mask[None])[0])
    assert_close(weights, attention_weights(q, k, mask[None])[0])


def test_a_batch_equals_its_items_one_by_one():
    q, k, v = random_qkv((3, 2), 4, 5, 8, 6)
    mask = torch.rand(3, 2, 4, 5, generator=torch.Generator().manual_seed(7)) > 0.3
    batch = attend(q, k, v, mask)
    for b in range(3):
        assert_close(batch[b], attend(q[b], k[b], v[b], mask[b]))


def test_the_weights_returned_are_those_before_dropout():
    q, k, v = random_qkv((2,), 4, 5, 8, 6)
    _, weights = attend(q, k, v, dropout=0.5, return_weights=True)
    assert_identical(weights, attention_weights(q, k))


@pytest.mark.parametrize("return_weights", [False, True])
def test_dropout_drops_some_and_leaves_the_expectation(return_weights):
    torch.manual_seed(8)
    draws = 4000
    q, k, v = (x.expand(draws, -1, -1) for x in random_qkv((), 3, 4, 8, 2))
    expected = attend(q[0], k[0], v[0])
    result = attend(q, k, v, dropout=0.3, return_weights=return_weights)
    output = result[0] if isinstance(result, tuple) else result
    assert (output - expected).abs().amax((-1, -2)).gt(1e-3).float().mean() > 0.5
    spread = output.std(0) / draws**0.5
    assert ((output.mean(0) - expected).abs() < 5 * spread).all()


@pytest.mark.parametrize("single", [True, False])
def test_values_may_be_one_number_each_with_and_without_a_mask(single):
    g = torch.Generator().manual_seed(0)
    q, k = torch.randn(4, 3, generator=g, dtype=torch.float64), torch.randn(6, 3, generator=g, dtype=torch.float64)
    v = torch.randn(6, generator=g, dtype=torch.float64)
    q = q[0] if single else q
    mask = torch.tensor([True, True, False, True, True, True])
    for layout in (None, mask):
        as_columns = attend(q, k, v.unsqueeze(-1), layout).squeeze(-1)
        assert_close(attend(q, k, v, layout), as_columns)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("values", [3, 7])
def test_every_key_has_one_value(values, masked, return_weights):
    q, k, _ = random_qkv((2,), 4, 5, 8, 6)
    mask = torch.ones(4, 5, dtype=torch.bool) if masked else None
    with pytest.raises(ValueError, match=f"5 keys and {values} values"):
        attend(q, k, torch.randn(2, values, 6, dtype=F64), mask, return_weights=return_weights)
    edges = EdgeListLayout(torch.tensor([0, 1]), torch.tensor([1, 1]), 2)
    with pytest.raises(ValueError, match=f"5 keys and {values} values"):
        attend(q[0], k[0], torch.randn(values, 6, dtype=F64), edges)


@pytest.mark.parametrize("backends", [("compiled", "reference"), ("reference",)])
@pytest.mark.parametrize("num_receivers", [2, 5])
def test_every_receiver_has_one_query(num_receivers, backends):
    q = torch.randn(4, 3, 6)
    edges = EdgeListLayout(torch.tensor([0, 1]), torch.tensor([1, 1]), num_receivers)
    with backend(*backends), pytest.raises(ValueError, match=f"4 queries for {num_receivers} receivers"):
        attend(q, q, q, edges)
    with pytest.raises(ValueError, match=f"4 queries for {num_receivers} receivers"):
        attention_weights(q, q, edges)


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
@pytest.mark.parametrize("return_weights", [False, True])
def test_queries_without_channels_attend_to_all_keys_alike(score, return_weights):
    q, k, v = torch.ones(3, 0), torch.ones(4, 0), torch.arange(8.0).view(4, 2)
    out = attend(q, k, v, score=score, return_weights=return_weights)
    torch.testing.assert_close(
        out[0] if return_weights else out, torch.nn.functional.scaled_dot_product_attention(q, k, v)
    )


def test_edges_without_heads_give_an_empty_output():
    q = torch.randn(4, 0, 6)
    assert attend(q, q, q, EdgeListLayout(torch.tensor([0, 1]), torch.tensor([1, 1]), 4)).shape == (4, 0, 6)


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_a_dot_product_needs_equal_numbers_of_channels(score):
    q, _, v = random_qkv((2,), 4, 5, 8, 6)
    for channels in (7, 1):  # a single one would broadcast
        k = torch.randn(2, 5, channels, dtype=F64)
        with pytest.raises(ValueError, match=f"queries of 8 channels and keys of {channels}"):
            attend(q, k, v, score=score)
        with pytest.raises(ValueError, match=f"queries of 8 channels and keys of {channels}"):
            attention_weights(q, k, score=score)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("shape", [(4, 6), (5, 4), (3, 5), (2, 3, 5)])
def test_a_mask_of_the_wrong_size_raises(shape, return_weights):
    q, k, v = random_qkv((2,), 4, 5, 8, 6)
    with pytest.raises(ValueError, match="does not broadcast to 4 queries and 5 keys"):
        attend(q, k, v, torch.ones(shape, dtype=torch.bool), return_weights=return_weights)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1.5, torch.nan])
def test_an_invalid_dropout_probability_raises(dropout, return_weights):
    with pytest.raises(ValueError, match="from 0 to below 1"):
        attend(*random_qkv((), 4, 5, 8, 6), dropout=dropout, return_weights=return_weights)
