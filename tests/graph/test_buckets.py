"""Buckets: the best cut, the same numbers, the order kept."""

import itertools

import pytest
import torch

from molattn.graph import BucketedGraphs, EdgeTerms, bucketed_edge_attention, cut_by_size, edge_attention
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import EDGE_DIM, F64, random_graphs

SIZES = [4, 1, 9, 3, 1, 5, 8, 2]


def work(sizes, buckets, per_bucket, per_node):
    total = 0
    for bucket in buckets:
        largest = max(sizes[i] for i in bucket)
        total += per_bucket + len(bucket) * (largest**2 + per_node * largest)
    return total


@pytest.mark.parametrize("per_bucket", [0, 1, 10, 50, 1e4])
def test_no_other_cut_of_the_sorted_sizes_is_less_work(per_bucket):
    buckets = cut_by_size(SIZES, per_bucket, per_node=3)
    assert sorted(itertools.chain(*buckets)) == list(range(len(SIZES)))
    order = sorted(range(len(SIZES)), key=SIZES.__getitem__)
    cuts = itertools.chain(*(itertools.combinations(range(1, len(SIZES)), k) for k in range(len(SIZES))))
    least = min(
        work(SIZES, [order[a:b] for a, b in itertools.pairwise((0, *cut, len(SIZES)))], per_bucket, 3) for cut in cuts
    )
    assert work(SIZES, buckets, per_bucket, 3) == least


def test_nothing_is_cut_into_nothing():
    assert cut_by_size([]) == []


@pytest.mark.parametrize("density", [None, 0.4])
@pytest.mark.parametrize("per_bucket", [0, 1e6])
def test_buckets_hold_the_graphs_and_give_them_back_in_order(density, per_bucket):
    graph = random_graphs(SIZES, density=density).to_edge_list()
    shuffled = torch.randperm(len(graph.sender), generator=torch.Generator().manual_seed(1))
    mixed = graph.replace(sender=graph.sender[shuffled], receiver=graph.receiver[shuffled], e=graph.e[shuffled])
    bucketed = BucketedGraphs.from_graph(mixed, per_bucket=per_bucket)
    assert len(bucketed.buckets) == (1 if per_bucket else len(set(SIZES)))
    assert_identical(bucketed.in_order(bucketed.v), graph.v)
    edges = sum(int(bucket.edges.sum()) for bucket in bucketed.buckets)
    assert edges == len(graph.sender)
    if density is None:
        assert all(bucket.edge_mask is None for bucket in bucketed.buckets)


def test_an_edge_that_is_there_twice_is_refused():
    graph = random_graphs([3]).to_edge_list()
    twice = graph.replace(sender=graph.sender.repeat(2), receiver=graph.receiver.repeat(2), e=graph.e.repeat(2, 1))
    with pytest.raises(ValueError, match="twice"):
        BucketedGraphs.from_graph(twice)


@pytest.mark.parametrize("density", [None, 0.4])
@pytest.mark.parametrize("per_bucket", [0, 60, 1e6])
def test_attention_in_buckets_is_attention(density, per_bucket):
    h, d = 2, 3
    dense = random_graphs(SIZES, density=density)
    bucketed = BucketedGraphs.from_graph(dense.to_edge_list(), per_bucket=per_bucket)
    g = torch.Generator().manual_seed(2)
    w = torch.randn(4 * h * d, dense.v.shape[-1], generator=g, dtype=F64)
    w_ke, w_ve = torch.randn(2, h, d, EDGE_DIM, generator=g, dtype=F64)

    def attended(x):
        return (x @ w.T).unflatten(-1, (4, h, d))

    terms = EdgeTerms(attended(dense.v), dense.e, w_ke, w_ve, None, dense.node_mask, dense.edge_mask)
    expected = edge_attention(terms)[dense.node_mask]
    output = bucketed_edge_attention(attended(bucketed.v), bucketed, w_ke, w_ve)
    assert_close(bucketed.in_order(output), expected)
