"""Competitors: the few operations that scores and normalizers are written with, the same over rows and edges."""

import pytest
import torch

from molattn.attention import Competitors, PaddedNodes, Rows, Segments
from molattn.attention.competitors import all_true, any_along, either
from tests.assertions import assert_close, assert_identical

F64 = torch.float64
MASK = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=torch.bool)
RECEIVER, SENDER = MASK.nonzero(as_tuple=True)
ROWS, EDGES = Rows(MASK), Segments(SENDER, RECEIVER, 3)


def logits():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=F64)


def test_both_are_competitors():
    assert isinstance(ROWS, Competitors) and isinstance(EDGES, Competitors)


def test_total_and_largest_count_only_those_allowed_and_come_back_to_each_of_them():
    x = logits()
    for i in (0, 2):
        allowed = x[i][MASK[i]]
        assert_close(ROWS.total(x)[i], allowed.sum().expand(4))
        assert_identical(ROWS.largest(x)[i], allowed.max().expand(4))
    assert (ROWS.total(x)[1] == 0).all() and ROWS.largest(x).isfinite().all()
    assert_close(EDGES.total(x[MASK]), ROWS.total(x)[MASK])
    assert_identical(EDGES.largest(x[MASK]), ROWS.largest(x)[MASK])
    assert_close(Rows().total(x), x.sum(-1, keepdim=True).expand(3, 4))


def test_the_largest_is_a_constant_to_the_gradient_and_the_total_is_not():
    x = logits().requires_grad_()
    assert not ROWS.largest(x).requires_grad and not EDGES.largest(x[MASK]).requires_grad
    assert ROWS.total(x).requires_grad and EDGES.total(x[MASK]).requires_grad


def test_keep_leaves_zeros_where_a_pair_may_not_compete():
    x = logits()
    assert_identical(ROWS.keep(x), torch.where(MASK, x, 0.0))
    assert_identical(EDGES.keep(x[MASK]), x[MASK])
    assert_identical(Rows().keep(x), x)


def test_seen_blanks_what_no_query_may_look_at():
    k = torch.full((4, 2), 7.0)
    for over in (ROWS, EDGES):
        assert over.seen(k)[:, 0].tolist() == [7, 0, 7, 7]
    assert_identical(Rows().seen(k), k)
    assert Rows(torch.tensor([True, False, True, True])).seen(k)[:, 0].tolist() == [7, 0, 7, 7]


def test_pairs_are_dotted_and_summed():
    q, k = torch.randn(3, 5, dtype=F64), torch.randn(4, 5, dtype=F64)
    sums = torch.stack([torch.stack([q_i + k_j for k_j in k]) for q_i in q])
    assert_identical(Rows().pair_sum(q, k), sums)
    assert_identical(Rows().pair_sum(q[0], k), sums[0])
    assert_identical(EDGES.pair_sum(q, k), sums[MASK])
    assert_close(EDGES.pair_dot(q, k), (q @ k.T)[MASK])
    assert_close(Rows().pair_dot(q, k), q @ k.T)


SHAPES = [(5,), (1, 5), (4, 5), (1, 1, 5), (2, 1, 5), (3, 4, 5), (2, 1, 1, 5), (2, 1, 4, 5), (2, 2, 1, 5), (2, 3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_before_there_are_heads_only_what_no_query_of_any_head_sees_is_blanked(shape):
    g = torch.Generator().manual_seed(0)
    mask = torch.rand(shape, generator=g) < 0.4
    mask[..., 2] = False
    heads = max(shape[-3] if len(shape) > 2 else 1, 1)
    seen = mask.expand(2, heads, 4, 5).any(2).any(1)
    x = torch.randn(2, 5, 6, generator=g, dtype=F64).masked_fill(~seen.unsqueeze(-1), torch.nan)
    blanked = Rows(mask).padding_blanked(x)
    assert_identical(blanked, torch.where(seen.unsqueeze(-1), x, 0.0))
    for over in (Rows(), Rows(torch.ones(shape, dtype=torch.bool))):
        assert over.padding_blanked(x) is x


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_not_finite_is_blanked_where_no_query_of_any_head_looks_and_nowhere_else(shape):
    g = torch.Generator().manual_seed(0)
    mask = torch.rand(shape, generator=g) < 0.4
    mask[..., 2] = False
    mask[..., 0] = True
    heads = max(shape[-3] if len(shape) > 2 else 1, 1)
    pairs = mask.expand(2, heads, 4, 5)
    seen = pairs.any(2).any(1).unsqueeze(-1)
    x = torch.randn(2, 5, 6, generator=g, dtype=F64)
    x[:, :, 1], x[:, :, 3] = torch.inf, -torch.inf
    assert_identical(Rows(mask).finite_where_hidden(x), torch.where(seen | x.isfinite(), x, 0.0))
    assert Rows().finite_where_hidden(x) is x
    finite = x[..., :1]
    assert Rows(mask).finite_where_hidden(finite) is finite


@pytest.mark.parametrize("alone", [False, True])
def test_queries_that_look_at_nobody_are_made_finite(alone):
    mask = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=torch.bool)
    x = torch.tensor([[torch.inf, 1.0], [torch.inf, 2.0], [torch.inf, 3.0]], dtype=F64)
    # Nobody looks at the second, which looks at nobody.
    assert_identical(
        Rows(mask).finite_queries(x, alone), torch.tensor([[torch.inf, 1], [0, 2], [torch.inf, 3]], dtype=F64)
    )
    # The third looks, and nobody looks at it: as a query it stays, as one of the keys it is nothing.
    unseen = mask & torch.tensor([True, True, False])
    found = Rows(unseen).finite_queries(x, alone)
    assert_identical(found[2], torch.tensor([0.0 if alone else torch.inf, 3.0], dtype=F64))
    assert Rows().finite_queries(x, alone) is x


def test_padded_nodes_attend_to_those_of_their_own_graph_in_every_head():
    nodes = torch.tensor([[True, True, False], [True, True, True]])
    edges = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(1)) < 0.6
    pairs = torch.stack([torch.outer(of, of) for of in nodes])
    for node_mask, edge_mask, wanted in ((nodes, None, pairs), (None, edges, edges), (nodes, edges, pairs & edges)):
        mask = PaddedNodes(node_mask, edge_mask).mask
        assert mask is not None
        assert_identical(mask, wanted[:, None])
    assert PaddedNodes().mask is None
    for wrong, name in (((nodes.int(), None), "node_mask"), ((None, edges.float()), "edge_mask")):
        with pytest.raises(TypeError, match=f"{name} is boolean"):
            PaddedNodes(*wrong)


def test_edges_may_bring_keys_of_their_own():
    values = torch.randn(len(RECEIVER), 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    weights = torch.rand(len(RECEIVER), generator=torch.Generator().manual_seed(2), dtype=F64)
    own = EDGES.own_keys()
    expected = torch.zeros(3, 2, dtype=F64)
    for k, i in enumerate(RECEIVER.tolist()):
        expected[i] += weights[k] * values[k]
    assert_close(own.reduce(weights, values), expected)
    assert_identical(own.seen(values), values)
    assert_identical(own.largest(weights), EDGES.largest(weights))


@pytest.mark.parametrize("size", [3, 64, 65, 200])
@pytest.mark.parametrize("dim", [-1, -2])
def test_masks_large_and_small_are_looked_through_alike(size, dim):
    mask = torch.rand(2, size, size, generator=torch.Generator().manual_seed(size)) < 1 / size
    mask[:, 0] = mask[:, :, 0] = False
    found = any_along(mask, dim)
    assert found.dtype == torch.bool and not found.all()
    assert_identical(found, mask.any(dim))
    for batched in (
        torch.vmap(lambda of: any_along(of, dim)),
        torch.compile(lambda of: any_along(of, dim), backend="eager"),
    ):
        assert_identical(batched(mask), mask.any(dim))


@pytest.mark.parametrize("size", [3, 200])
def test_masks_are_joined_alike_by_bytes_and_by_bits(size):
    g = torch.Generator().manual_seed(size)
    a, b = (torch.rand(2, size, size, generator=g) < 0.3 for _ in range(2))
    for joined in (either, torch.vmap(either), torch.compile(either, backend="eager")):
        assert_identical(joined(a, b), a | b)


def test_a_mask_is_known_to_be_true_only_where_looking_costs_nothing(monkeypatch):
    true = torch.ones(2, 3, dtype=torch.bool)
    assert all_true(true) and not all_true(true & torch.tensor([True, True, False]))
    assert not all_true(true.to("meta"))  # a device without values: a look would raise
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not all_true(true)
