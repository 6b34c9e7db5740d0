"""Normalizers: hardmax, softmax, uniform attention and sparsemax, and their limits."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from molattn.attention import (
    DenseLayout,
    EdgeListLayout,
    Softmax,
    attend,
    attention_weights,
    hardmax,
    softmax,
    sparsemax,
)
from tests.assertions import assert_close, assert_identical, few_examples

F64 = torch.float64
ALL = {
    "softmax": softmax,
    "T = 0.3": Softmax(0.3),
    "T = 0": Softmax(0),
    "T = inf": Softmax(torch.inf),
    "hardmax": hardmax,
    "sparsemax": sparsemax,
}


def row(normalizer, *logits, dtype=F64):
    return normalizer(torch.tensor(logits, dtype=dtype), DenseLayout())


def as_edges(logits, mask):
    """Logits (i, j) as an edge list, shuffled, and back."""
    receiver, sender = mask.nonzero(as_tuple=True)
    order = torch.randperm(len(receiver), generator=torch.Generator().manual_seed(0))
    receiver, sender = receiver[order], sender[order]

    def back(weights):
        return torch.zeros_like(logits).index_put((receiver, sender), weights)

    return logits[receiver, sender], EdgeListLayout(sender, receiver, len(mask)), back


# The worked example of the book's chapter on attention layers.
LOGITS = [0.0, 1, -4, 7, 0, 5]


def test_the_limits_of_the_temperature_are_continuous():
    assert_close(row(Softmax(1e-4), *LOGITS), row(Softmax(0), *LOGITS))
    assert_close(row(Softmax(1e14), *LOGITS), row(Softmax(torch.inf), *LOGITS))


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1, 2, 3.5])
def test_a_temperature_divides_the_logits(temperature):
    expected = torch.tensor(LOGITS, dtype=F64).div(temperature).softmax(-1)
    assert_close(row(Softmax(temperature), *LOGITS), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_normal_temperature_is_not_too_small(dtype):
    tiny = torch.finfo(dtype).tiny
    expected = row(Softmax(1), 0.0, -1.0, dtype=dtype)
    assert_close(row(Softmax(tiny), 0.0, -tiny, dtype=dtype), expected, tol=1e-6)
    assert_identical(row(Softmax(tiny / 2), 0.0, -tiny, dtype=dtype), torch.tensor([1.0, 0.0], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [5e-324, 1e-306, 1e-300, 1e-40, 1e-37, 1e-30, 1e30, 1e300])
def test_no_temperature_overflows(temperature, dtype):
    hard_or_uniform = Softmax(0 if temperature < 1 else torch.inf)
    for logits in ([1e4, 9e3, -1e4, 1e4], [3.0, 1.0, 3.0]):
        assert_identical(row(Softmax(temperature), *logits, dtype=dtype), row(hard_or_uniform, *logits, dtype=dtype))


@pytest.mark.parametrize("temperature", [-1, -0.5, -torch.inf, torch.nan])
def test_a_temperature_below_zero_is_refused(temperature):
    with pytest.raises(ValueError, match="temperature"):
        Softmax(temperature)


def test_ties_share_equally_whatever_their_order():
    for order in ([7, 1, 7, 0], [0, 7, 7, 1], [7, 7, 0, 1]):
        assert sorted(row(hardmax, *order).tolist()) == [0, 0, 0.5, 0.5]
    assert row(hardmax, 2, 2, 2).tolist() == [1 / 3] * 3
    assert row(Softmax(0), -5, -5).tolist() == [0.5, 0.5]


def test_hardmax_ignores_masked_keys():
    mask = torch.tensor([[True, False, True], [False, False, False], [False, True, False]])
    logits = torch.tensor([[1.0, 9, 3], [1, 2, 3], [9, 1, 9]], dtype=F64)
    expected = torch.tensor([[0, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=F64)
    assert_identical(hardmax(logits, DenseLayout(mask)), expected)
    edge_logits, edges, back = as_edges(logits, mask)
    assert_identical(back(hardmax(edge_logits, edges)), expected)


def test_sparsemax_of_two_is_the_hard_sigmoid():
    for difference in (-1.5, -1.0, -0.3, 0.0, 0.4, 1.0, 2.0):
        share = min(max((difference + 1) / 2, 0), 1)
        assert_close(row(sparsemax, difference, 0.0), torch.tensor([share, 1 - share], dtype=F64))


def test_sparsemax_is_the_identity_on_the_simplex():
    assert_close(row(sparsemax, 0.5, 0.2, 0.0, 0.3), torch.tensor([0.5, 0.2, 0.0, 0.3], dtype=F64))


@few_examples
@given(st.integers(1, 6), st.integers(1, 8), st.sampled_from([0.0, 0.4, 1.0]), st.floats(0.01, 30), st.integers(0, 999))
def test_sparsemax_is_the_nearest_point_of_the_simplex(i, j, density, scale, seed):
    # Optimality of the projection: x - w is the same at every j where w_j > 0, and no larger anywhere else.
    g = torch.Generator().manual_seed(seed)
    logits, mask = scale * torch.randn(i, j, generator=g, dtype=F64), torch.rand(i, j, generator=g) < density
    edge_logits, edges, back = as_edges(logits, mask)
    for w in (sparsemax(logits, DenseLayout(mask)), back(sparsemax(edge_logits, edges))):
        assert (w >= 0).all() and (w[~mask] == 0).all()
        assert_close(w.sum(-1), mask.any(-1).to(F64))
        for n in range(i):
            if mask[n].any():
                gap = (logits[n] - w[n])[mask[n]]
                chosen = w[n][mask[n]] > 0
                assert (gap[chosen] - gap[chosen][0]).abs().max() < 1e-12 * max(scale, 1)
                assert (gap <= gap[chosen][0] + 1e-12 * max(scale, 1)).all()


@pytest.mark.parametrize("normalizer", ALL)
@pytest.mark.parametrize("shift", [1e6, -1e6])
def test_a_constant_added_to_every_logit_changes_nothing(normalizer, shift):
    logits = [0.25, 1.5, -4.0, 1.25]
    shifted = row(ALL[normalizer], *(x + shift for x in logits))
    assert_close(shifted, row(ALL[normalizer], *logits), tol=1e-9)


@pytest.mark.parametrize("normalizer", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_query_without_a_valid_key_gets_zeros_and_zero_gradients(normalizer, dtype):
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 3, n, 8, dtype=dtype, requires_grad=True) for n in (4, 5, 5))
    mask = torch.rand(2, 3, 4, 5) > 0.4
    mask[:, :, 1] = False
    mask[1, 2] = False
    output, weights = attend(q, k, v, mask, normalizer=ALL[normalizer], return_weights=True)
    assert (output[:, :, 1] == 0).all() and (weights[1, 2] == 0).all()
    output.square().sum().backward()
    for x in (q, k, v):
        assert x.grad is not None and x.grad.isfinite().all()
    assert q.grad is not None and (q.grad[:, :, 1] == 0).all() and (q.grad[1, 2] == 0).all()


@pytest.mark.parametrize("normalizer", ALL)
def test_a_receiver_without_incoming_edges_gets_zeros_also_without_any_edges(normalizer):
    x = torch.randn(3, 2, 4, dtype=F64, requires_grad=True)
    some = EdgeListLayout(torch.tensor([0, 2, 1]), torch.tensor([0, 0, 2]), 3)
    none = EdgeListLayout(torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long), 3)
    for edges, unreached in ((some, [1]), (none, [0, 1, 2])):
        output = attend(x, x, x, edges, normalizer=ALL[normalizer])
        assert (output[unreached] == 0).all()
        (gradient,) = torch.autograd.grad(output.square().sum(), x)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("normalizer", ALL)
@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(3, 0), (0, 5), (0, 0)])
def test_without_keys_there_are_zeros_and_without_queries_empty_outputs(
    normalizer, return_weights, masked, queries, keys
):
    q, k, v = torch.randn(2, queries, 4), torch.randn(2, keys, 4), torch.randn(2, keys, 3)
    mask = torch.ones(queries, keys, dtype=torch.bool) if masked else None
    result = attend(q, k, v, mask, normalizer=ALL[normalizer], return_weights=return_weights)
    assert_identical(result[0] if isinstance(result, tuple) else result, torch.zeros(2, queries, 3))


@pytest.mark.parametrize("normalizer", ALL)
def test_a_nan_among_the_logits_propagates(normalizer):
    assert row(ALL[normalizer], 1.0, torch.nan, 0.0).isnan().any()
    edges = EdgeListLayout(torch.arange(3), torch.zeros(3, dtype=torch.long), 1)
    assert ALL[normalizer](torch.tensor([1.0, torch.nan, 0.0]), edges).isnan().any()


def test_the_gradient_of_hard_and_of_uniform_attention_is_zero():
    for normalizer in (hardmax, Softmax(0), Softmax(torch.inf)):
        q, k = torch.randn(3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
        for gradient in torch.autograd.grad(attention_weights(q, k, normalizer=normalizer).sin().sum(), (q, k)):
            assert (gradient == 0).all()


def test_the_gradient_of_sparsemax_is_centred_on_its_support_and_zero_elsewhere():
    logits = torch.tensor([[1.0, 0.8, -2.0, 0.5]], dtype=F64, requires_grad=True)
    incoming = torch.tensor([[3.0, -1.0, 5.0, 2.0]], dtype=F64)
    weights = sparsemax(logits, DenseLayout())
    assert (weights > 0).tolist() == [[True, True, False, True]]
    (gradient,) = torch.autograd.grad(weights, logits, incoming)
    mean = (3.0 - 1.0 + 2.0) / 3
    assert_close(gradient, torch.tensor([[3 - mean, -1 - mean, 0, 2 - mean]], dtype=F64))


@pytest.mark.parametrize("layout", ["rows", "rows, sorted", "edges", "edges, bisected"])
def test_a_logit_at_the_threshold_of_sparsemax_is_outside_its_support(layout):
    # tau of the first two is (-0.5 - 1) / 2, which the third one reaches and does not exceed: S has two members.
    logits = torch.tensor([0.0, -0.5, -0.75], dtype=F64, requires_grad=True)
    one_receiver = EdgeListLayout(torch.arange(3), torch.zeros(3, dtype=torch.long), 1)
    all_keys = one_receiver if layout.startswith("edges") else DenseLayout()

    def of(logits):
        return sparsemax(logits, all_keys)

    weights = torch.func.vmap(of)(logits[None])[0] if "," in layout else of(logits)
    assert_identical(weights.detach(), torch.tensor([0.75, 0.25, 0.0], dtype=F64))
    (gradient,) = torch.autograd.grad(weights, logits, torch.tensor([3.0, 1.0, 8.0], dtype=F64))
    assert_identical(gradient, torch.tensor([1.0, -1.0, 0.0], dtype=F64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("normalizer", ["softmax", "hardmax", "sparsemax"])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0])
def test_sixteen_bit_weights_of_many_keys_sum_to_1(dtype, normalizer, spread):
    n = 3000
    logits = (spread * torch.randn(n, 1, generator=torch.Generator().manual_seed(0))).to(dtype)
    one, zeros = torch.ones(1, 1, dtype=dtype), torch.zeros(n, dtype=torch.long)
    layout = EdgeListLayout(torch.arange(n), zeros, 1)
    for weights in (
        attention_weights(one, logits, layout, score="dot", normalizer=normalizer),
        attention_weights(one, logits, score="dot", normalizer=normalizer),
    ):
        assert weights.dtype == dtype
        assert abs(weights.double().sum().item() - 1) < 0.02
