"""Attention layouts: the operations of scores and normalizers, the same for dense matrices and edge lists."""

import inspect

import pytest
import torch

from molattn.attention import AttentionLayout, DenseLayout, EdgeListLayout, PaddedGraphLayout
from molattn.attention.layout import all_true, mask_any, mask_or
from tests.assertions import assert_close, assert_identical

F64 = torch.float64
MASK = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=torch.bool)
RECEIVER, SENDER = MASK.nonzero(as_tuple=True)
DENSE, EDGES = DenseLayout(MASK), EdgeListLayout(SENDER, RECEIVER, 3)


def logits():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=F64)


def test_both_are_attention_layouts():
    assert isinstance(DENSE, AttentionLayout) and isinstance(EDGES, AttentionLayout)


def test_sums_and_maxima_are_over_the_valid_keys_and_expanded_to_each_of_them():
    x = logits()
    for i in (0, 2):
        allowed = x[i][MASK[i]]
        assert_close(DENSE.sum_over_keys(x)[i], allowed.sum().expand(4))
        assert_identical(DENSE.max_over_keys(x)[i], allowed.max().expand(4))
    assert (DENSE.sum_over_keys(x)[1] == 0).all() and DENSE.max_over_keys(x).isfinite().all()
    assert_close(EDGES.sum_over_keys(x[MASK]), DENSE.sum_over_keys(x)[MASK])
    assert_identical(EDGES.max_over_keys(x[MASK]), DENSE.max_over_keys(x)[MASK])
    assert_close(DenseLayout().sum_over_keys(x), x.sum(-1, keepdim=True).expand(3, 4))


def test_the_maximum_is_detached_and_the_sum_is_not():
    x = logits().requires_grad_()
    assert not DENSE.max_over_keys(x).requires_grad and not EDGES.max_over_keys(x[MASK]).requires_grad
    assert DENSE.sum_over_keys(x).requires_grad and EDGES.sum_over_keys(x[MASK]).requires_grad


def test_masked_pairs_are_zeroed():
    x = logits()
    assert_identical(DENSE.zero_masked(x), torch.where(MASK, x, 0.0))
    assert_identical(EDGES.zero_masked(x[MASK]), x[MASK])
    assert_identical(DenseLayout().zero_masked(x), x)


def test_keys_that_no_query_attends_to_are_zeroed():
    k = torch.full((4, 2), 7.0)
    for layout in (DENSE, EDGES):
        assert layout.zero_unattended(k)[:, 0].tolist() == [7, 0, 7, 7]
    assert_identical(DenseLayout().zero_unattended(k), k)
    assert DenseLayout(torch.tensor([True, False, True, True])).zero_unattended(k)[:, 0].tolist() == [7, 0, 7, 7]


def test_pairwise_products_and_sums():
    q, k = torch.randn(3, 5, dtype=F64), torch.randn(4, 5, dtype=F64)
    sums = torch.stack([torch.stack([q_i + k_j for k_j in k]) for q_i in q])
    assert_identical(DenseLayout().pairwise_sum(q, k), sums)
    assert_identical(DenseLayout().pairwise_sum(q[0], k), sums[0])
    assert_identical(EDGES.pairwise_sum(q, k), sums[MASK])
    assert_close(EDGES.pairwise_dot(q, k), (q @ k.T)[MASK])
    assert_close(DenseLayout().pairwise_dot(q, k), q @ k.T)


SHAPES = [(5,), (1, 5), (4, 5), (1, 1, 5), (2, 1, 5), (3, 4, 5), (2, 1, 1, 5), (2, 1, 4, 5), (2, 2, 1, 5), (2, 3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_before_projection_only_rows_that_no_query_of_any_head_attends_to_are_zeroed(shape):
    g = torch.Generator().manual_seed(0)
    mask = torch.rand(shape, generator=g) < 0.4
    mask[..., 2] = False
    heads = max(shape[-3] if len(shape) > 2 else 1, 1)
    seen = mask.expand(2, heads, 4, 5).any(2).any(1)
    x = torch.randn(2, 5, 6, generator=g, dtype=F64).masked_fill(~seen.unsqueeze(-1), torch.nan)
    zeroed = DenseLayout(mask).zero_padding(x)
    assert_identical(zeroed, torch.where(seen.unsqueeze(-1), x, 0.0))
    for layout in (DenseLayout(), DenseLayout(torch.ones(shape, dtype=torch.bool))):
        assert layout.zero_padding(x) is x


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nonfinite_numbers_are_zeroed_only_in_rows_that_no_query_of_any_head_attends_to(shape):
    g = torch.Generator().manual_seed(0)
    mask = torch.rand(shape, generator=g) < 0.4
    mask[..., 2] = False
    mask[..., 0] = True
    heads = max(shape[-3] if len(shape) > 2 else 1, 1)
    pairs = mask.expand(2, heads, 4, 5)
    seen = pairs.any(2).any(1).unsqueeze(-1)
    x = torch.randn(2, 5, 6, generator=g, dtype=F64)
    x[:, :, 1], x[:, :, 3] = torch.inf, -torch.inf
    assert_identical(DenseLayout(mask).zero_nonfinite_padding(x), torch.where(seen | x.isfinite(), x, 0.0))
    assert DenseLayout().zero_nonfinite_padding(x) is x
    finite = x[..., :1]
    assert DenseLayout(mask).zero_nonfinite_padding(finite) is finite


@pytest.mark.parametrize("self_attention", [False, True])
def test_queries_without_a_valid_key_are_made_finite(self_attention):
    mask = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=torch.bool)
    x = torch.tensor([[torch.inf, 1.0], [torch.inf, 2.0], [torch.inf, 3.0]], dtype=F64)
    # The second row has no valid key and is attended to by no query.
    assert_identical(
        DenseLayout(mask).zero_nonfinite_queries(x, self_attention),
        torch.tensor([[torch.inf, 1], [0, 2], [torch.inf, 3]], dtype=F64),
    )
    # The third has a valid key but is attended to by no query: kept as a query, zeroed if it is also a key.
    unattended = mask & torch.tensor([True, True, False])
    found = DenseLayout(unattended).zero_nonfinite_queries(x, self_attention)
    assert_identical(found[2], torch.tensor([0.0 if self_attention else torch.inf, 3.0], dtype=F64))
    assert DenseLayout().zero_nonfinite_queries(x, self_attention) is x


def test_nodes_of_padded_graphs_attend_within_their_graph_in_every_head():
    nodes = torch.tensor([[True, True, False], [True, True, True]])
    edges = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(1)) < 0.6
    pairs = torch.stack([torch.outer(of, of) for of in nodes])
    for node_mask, edge_mask, wanted in ((nodes, None, pairs), (None, edges, edges), (nodes, edges, pairs & edges)):
        mask = PaddedGraphLayout(node_mask, edge_mask).mask
        assert mask is not None
        assert_identical(mask, wanted[:, None])
    assert PaddedGraphLayout().mask is None
    for wrong, name in (((nodes.int(), None), "node_mask"), ((None, edges.float()), "edge_mask")):
        with pytest.raises(TypeError, match=f"{name} must be boolean"):
            PaddedGraphLayout(*wrong)


def test_padding_that_is_known_to_be_finite_is_not_zeroed():
    layout = PaddedGraphLayout(torch.tensor([[True, False]]))
    finite = layout.with_finite_padding()
    k = torch.ones(1, 1, 2, 3)
    assert_identical(layout.zero_unattended(k)[0, 0, 1], torch.zeros(3))
    assert finite.zero_unattended(k) is k
    assert finite.node_mask is layout.node_mask and not layout.padding_is_finite


def test_every_edge_may_have_its_own_key():
    values = torch.randn(len(RECEIVER), 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    weights = torch.rand(len(RECEIVER), generator=torch.Generator().manual_seed(2), dtype=F64)
    own = EDGES.with_key_per_edge()
    expected = torch.zeros(3, 2, dtype=F64)
    for k, i in enumerate(RECEIVER.tolist()):
        expected[i] += weights[k] * values[k]
    assert_close(own.weighted_sum(weights, values), expected)
    assert_identical(own.zero_unattended(values), values)
    assert_identical(own.max_over_keys(weights), EDGES.max_over_keys(weights))


@pytest.mark.parametrize("size", [3, 64, 65, 200])
@pytest.mark.parametrize("dim", [-1, -2])
def test_mask_any_of_large_and_small_masks(size, dim):
    mask = torch.rand(2, size, size, generator=torch.Generator().manual_seed(size)) < 1 / size
    mask[:, 0] = mask[:, :, 0] = False
    found = mask_any(mask, dim)
    assert found.dtype == torch.bool and not found.all()
    assert_identical(found, mask.any(dim))
    unchecked = inspect.unwrap(mask_any)  # without the shape checks of the tests, which torch 2.7 cannot trace
    for batched in (
        torch.vmap(lambda of: mask_any(of, dim)),
        torch.compile(lambda of: unchecked(of, dim), backend="eager"),
    ):
        assert_identical(batched(mask), mask.any(dim))


@pytest.mark.parametrize("size", [3, 200])
def test_mask_or_of_large_and_small_masks(size):
    g = torch.Generator().manual_seed(size)
    a, b = (torch.rand(2, size, size, generator=g) < 0.3 for _ in range(2))
    for joined in (mask_or, torch.vmap(mask_or), torch.compile(mask_or, backend="eager")):
        assert_identical(joined(a, b), a | b)


def test_a_mask_is_known_to_be_true_only_if_reading_it_is_free(monkeypatch):
    true = torch.ones(2, 3, dtype=torch.bool)
    assert all_true(true) and not all_true(true & torch.tensor([True, True, False]))
    assert not all_true(true.to("meta"))  # a device without data: reading it would raise
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not all_true(true)
