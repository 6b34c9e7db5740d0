"""Graph and DenseGraph: the direction of edges, and conversion between the two forms."""

import jaxtyping
import pytest
import torch
from torch_geometric.data import Batch, Data

from molattn.attention import DenseLayout, PaddedGraphLayout
from molattn.graph import (
    NODES_TO_GRAPH,
    AttentionEdgeUpdate,
    DenseGraph,
    Graph,
    max_nodes,
    mean_nodes,
    sum_edges,
    sum_nodes,
)
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import EDGE_DIM, F64, NODE_DIM, double, random_graphs


def test_row_0_of_an_edge_index_is_the_sender_and_row_1_the_receiver():
    x = torch.randn(2, NODE_DIM, dtype=F64)
    from_0_to_1 = Graph.from_edge_index(x, torch.tensor([[0], [1]]))
    assert from_0_to_1.sender.tolist() == [0] and from_0_to_1.receiver.tolist() == [1]
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, num_heads=2, head_dim=4))
    ebar = sum_edges(phi_e(from_0_to_1))
    assert_close(ebar[1], phi_e.w_v(x[0]))  # node 1 receives from node 0 only
    assert (ebar[0] == 0).all()  # node 0 has no incoming edges


def test_a_dense_edge_points_from_column_to_row():
    x = torch.randn(1, 2, NODE_DIM, dtype=F64)
    from_0_to_1 = torch.tensor([[[False, False], [True, False]]])
    graph = DenseGraph(x, torch.ones(1, 2, dtype=torch.bool), edge_mask=from_0_to_1)
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, num_heads=2, head_dim=4))
    ebar = sum_edges(phi_e(graph))
    assert_close(ebar[0, 1], phi_e.w_v(x[0, 0]))
    assert (ebar[0, 0] == 0).all()
    edge_list = graph.to_edge_list()
    assert edge_list.sender.tolist() == [0] and edge_list.receiver.tolist() == [1]


def test_a_graph_from_pygs_tensors():
    batch = Batch.from_data_list(
        [
            Data(x=torch.randn(n, 4), edge_index=torch.randint(n, (2, m)), edge_attr=torch.randn(m, 3))
            for n, m in ((3, 5), (1, 1), (2, 4))
        ]
    )
    u = torch.randn(3, 2)
    graph = Graph.from_edge_index(batch.x, batch.edge_index, batch.edge_attr, u, batch.batch, batch.num_graphs)
    assert graph.v is batch.x and graph.e is batch.edge_attr and graph.u is u
    assert graph.num_graphs == 3
    assert graph.count_nodes().tolist() == [3, 1, 2]
    assert_identical(torch.stack([graph.sender, graph.receiver]), batch.edge_index)
    single = Graph.from_edge_index(batch.x, batch.edge_index)
    assert single.num_graphs == 1 and single.node_graph.tolist() == [0] * 6
    batch.edge_attr = batch.edge_attr[:, 0]  # one number for each edge, as many transforms of PyG give
    assert_identical(Graph.from_pyg(batch).e, batch.edge_attr[:, None])


def test_an_edge_list_keeps_order_and_drops_the_padding():
    dense = random_graphs([3, 1, 2], seed=1)
    graph = dense.to_edge_list()
    assert graph.num_graphs == 3
    assert graph.node_graph.tolist() == [0, 0, 0, 1, 2, 2]
    expected = [
        (b, i, j) for b, n in enumerate([3, 1, 2]) for i in range(n) for j in range(n)
    ]  # by graph, then receiver, then sender
    starts = [0, 3, 4]
    assert graph.receiver.tolist() == [starts[b] + i for b, i, j in expected]
    assert graph.sender.tolist() == [starts[b] + j for b, i, j in expected]
    assert_identical(graph.v, torch.stack([dense.v[b, i] for b, n in enumerate([3, 1, 2]) for i in range(n)]))
    assert graph.e is not None and dense.e is not None
    assert_identical(graph.e, torch.stack([dense.e[edge] for edge in expected]))
    assert graph.u is dense.u


def test_a_sparse_edge_list_has_the_edges_of_the_mask():
    dense = random_graphs([4, 2, 3], density=0.4, edges=False, globals_=False, seed=2)
    graph = dense.to_edge_list()
    assert graph.e is None and graph.u is None
    starts = [0, 4, 6]
    assert dense.edge_mask is not None
    expected = [(starts[b] + j, starts[b] + i) for b, i, j in dense.edge_mask.nonzero().tolist()]
    assert list(zip(graph.sender.tolist(), graph.receiver.tolist(), strict=True)) == expected


def test_nodes_that_are_padding_need_not_come_last():
    node_mask = torch.tensor([[False, True, True], [True, False, True]])
    v = torch.arange(6.0).view(2, 3, 1)
    graph = DenseGraph(v, node_mask).to_edge_list()
    assert graph.v.flatten().tolist() == [1, 2, 3, 5]
    assert list(zip(graph.receiver.tolist(), graph.sender.tolist(), strict=True)) == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3),
    ]  # fmt: skip


def test_an_edge_mask_makes_no_edges_to_the_padding():
    graph = random_graphs([2, 1])
    everywhere = graph.replace(edge_mask=torch.ones(2, 2, 2, dtype=torch.bool))
    assert_identical(everywhere.edges, graph.edges)
    assert_identical(everywhere.to_edge_list().sender, graph.to_edge_list().sender)


def test_sum_grows_with_the_graph_and_mean_does_not_in_both_forms():
    dense = random_graphs([3, 1, 2])
    edge_list = dense.to_edge_list()
    totals = torch.stack([dense.v[b, :n].sum(0) for b, n in enumerate([3, 1, 2])])
    means = torch.stack([dense.v[b, :n].mean(0) for b, n in enumerate([3, 1, 2])])
    for graph in (dense, edge_list):
        assert_close(sum_nodes(graph.v, graph), totals)
        assert_close(mean_nodes(graph.v, graph), means)
        assert graph.count_nodes().tolist() == [3, 1, 2]
    assert {"sum": sum_nodes, "mean": mean_nodes, "max": max_nodes} == NODES_TO_GRAPH


def test_graphs_without_nodes_have_zero_sums_and_means():
    empty = Graph(torch.randn(2, 4), *torch.zeros(2, 0, dtype=torch.long), torch.tensor([1, 1]), num_graphs=3)
    for rho in NODES_TO_GRAPH.values():
        totals = rho(empty.v, empty)
        assert totals.shape == (3, 4)
        assert (totals[[0, 2]] == 0).all()
    dense = DenseGraph(torch.full((1, 2, 4), torch.nan), torch.zeros(1, 2, dtype=torch.bool))
    for rho in NODES_TO_GRAPH.values():
        assert_identical(rho(dense.v, dense), torch.zeros(1, 4))


def test_broadcast_to_nodes():
    dense = random_graphs([2, 1, 3])
    edge_list = dense.to_edge_list()
    assert dense.u is not None
    assert_identical(edge_list.broadcast_to_nodes(dense.u), dense.u[[0, 0, 1, 2, 2, 2]])
    assert_identical(
        dense.broadcast_to_nodes(dense.u).expand(-1, 3, -1)[dense.node_mask], edge_list.broadcast_to_nodes(dense.u)
    )


WITH_LONELY_NODES = {"complete": None, "sparse": 0.4, "without edges": 0.0}
every_density = pytest.mark.parametrize("density", WITH_LONELY_NODES.values(), ids=WITH_LONELY_NODES)


def senders_of(graph, r):
    return [int(s) for s, other in zip(graph.sender, graph.receiver, strict=True) if other == r]


@every_density
def test_counts_sums_and_maxima_of_the_edges_into_each_node(density):
    dense = random_graphs([4, 1, 3], density=density)
    listed = dense.to_edge_list()
    for x in (dense.e, dense.e[..., 0], dense.e.unsqueeze(-1) * torch.arange(1.0, 3.0, dtype=F64)):
        of_list = x[dense.edges]
        total, largest = listed.sum_edges(of_list), listed.max_edges(of_list)
        for r in range(8):
            mine = of_list[listed.receiver == r]
            assert listed.count_edges()[r] == len(mine)
            assert_close(total[r], mine.sum(0))
            assert_identical(largest[r], mine.amax(0) if len(mine) else torch.zeros_like(total[r]))
        assert_close(dense.sum_edges(x)[dense.node_mask], total)
        assert_identical(dense.max_edges(x)[dense.node_mask], largest)
        assert (dense.sum_edges(x)[~dense.node_mask] == 0).all()
        assert (dense.max_edges(x)[~dense.node_mask] == 0).all()
    assert dense.count_edges()[dense.node_mask].tolist() == listed.count_edges().tolist()
    assert (dense.count_edges()[~dense.node_mask] == 0).all()


@every_density
def test_means_and_maxima_of_the_senders_of_each_node(density):
    dense = random_graphs([4, 1, 3], density=density)
    listed = dense.to_edge_list()
    dirty = dense.replace(v=dense.v.masked_fill(~dense.node_mask.unsqueeze(-1), torch.nan))
    mean, largest = listed.mean_senders(listed.v), listed.max_senders(listed.v)
    for r in range(8):
        mine = listed.v[senders_of(listed, r)]
        assert_close(mean[r], mine.mean(0) if len(mine) else torch.zeros_like(mean[r]))
        assert_identical(largest[r], mine.amax(0) if len(mine) else torch.zeros_like(mean[r]))
    for graph in (dense, dirty):
        assert_close(graph.mean_senders(graph.v)[dense.node_mask], mean)
        assert_identical(graph.max_senders(graph.v)[dense.node_mask], largest)


@every_density
def test_the_largest_node_of_a_graph_is_found_in_both_forms_with_its_gradient(density):
    dense = random_graphs([3, 1, 2], density=density, requires_grad=True)
    largest = torch.stack([dense.v[b, :n].amax(0) for b, n in enumerate([3, 1, 2])])
    (expected,) = torch.autograd.grad(largest.square().sum(), dense.v)
    for graph in (dense, dense.to_edge_list()):
        found = max_nodes(graph.v, graph)
        assert_identical(found, largest)
        assert_identical(torch.autograd.grad(found.square().sum(), dense.v)[0], expected)


@pytest.mark.parametrize("negative", [False, True])
def test_gradients_of_maxima_are_the_same_in_both_forms_and_zero_for_empty_groups(negative):
    dense = random_graphs([4, 1, 3], density=0.4, requires_grad=True)
    listed = dense.to_edge_list()
    sign = -1.0 if negative else 1.0
    found = []
    for graph, real in ((dense, dense.node_mask), (listed, slice(None))):
        of_edges = graph.max_edges(sign * graph.e.abs())[real]
        of_senders = graph.max_senders(sign * graph.v.abs())[real]
        found.append(torch.autograd.grad(of_edges.square().sum() + of_senders.square().sum(), [dense.v, dense.e]))
        assert (of_edges[listed.count_edges() == 0] == 0).all()
    for by_dense, by_list in zip(*found, strict=True):
        assert_close(by_list, by_dense)


def test_gather_receivers_and_senders():
    dense = random_graphs([4, 1, 3], density=0.5)
    listed = dense.to_edge_list()
    b, i, j = dense.edges.nonzero(as_tuple=True)
    for x in (dense.v, dense.v[..., 0], dense.v.unflatten(-1, (2, -1))):
        of_list = x[dense.node_mask]
        assert_identical(listed.gather_receivers(of_list), x[b, i])
        assert_identical(listed.gather_senders(of_list), x[b, j])
        pairs = torch.broadcast_tensors(dense.gather_receivers(x), dense.gather_senders(x))
        assert_identical(pairs[0][dense.edges], x[b, i])
        assert_identical(pairs[1][dense.edges], x[b, j])


def test_an_edge_list_keeps_the_degrees():
    dense = random_graphs([4, 1, 3], degree=True)
    listed = dense.to_edge_list()
    assert dense.degree is not None and listed.degree is not None
    assert listed.degree.tolist() == [dense.degree[b, i].item() for b, n in enumerate([4, 1, 3]) for i in range(n)]
    assert random_graphs([4, 1, 3]).to_edge_list().degree is None
    assert dense.replace(v=dense.v + 1).degree is dense.degree


def test_replace_changes_neither_the_other_fields_nor_the_old_graph():
    graph = random_graphs([2, 1])
    after = graph.replace(u=None)
    assert after.u is None and graph.u is not None
    assert after.v is graph.v and after.e is graph.e
    with pytest.raises(AttributeError):
        graph.v = after.v


@pytest.mark.parametrize("sizes", [[3, 2], [NODE_DIM, 3]])
def test_there_is_a_count_for_each_node_and_each_graph(sizes):
    listed = random_graphs(sizes).to_edge_list()
    assert listed.count_edges().tolist() == [n for n in sizes for _ in range(n)]
    assert listed.count_nodes().tolist() == sizes
    assert tuple(listed.sum_edges(listed.e).shape) == tuple(listed.max_edges(listed.e).shape) == (sum(sizes), EDGE_DIM)
    own = listed.readout_layout()
    assert own.sender.tolist() == list(range(sum(sizes))) and own.num_receivers == len(sizes)
    assert_identical(own.receiver, listed.node_graph)


@pytest.mark.parametrize("density", [None, 0.4, 0.0])
def test_the_edges_of_a_graph_are_those_into_its_nodes(density):
    graph = random_graphs([4, 1, 3, 2], density=density)
    listed = graph.to_edge_list()
    counts = [int((listed.node_graph[listed.receiver] == g).sum()) for g in range(4)]
    assert graph.count_all_edges().tolist() == listed.count_all_edges().tolist() == counts
    assert counts == [int(edges.sum()) for edges in graph.edges]


def test_the_attention_layout_has_the_edges_of_the_graph_in_every_head():
    graph = random_graphs([4, 1, 3], density=0.5)
    mask = graph.attention_layout.mask
    assert mask is not None and mask.shape == (3, 1, 4, 4)
    assert_identical(mask.expand(3, 2, 4, 4)[:, 1], graph.edges)


def test_the_attention_layout_that_a_compiler_traces_has_the_same_edges(monkeypatch):
    for density in (None, 0.5):
        graph = random_graphs([4, 1, 3], density=density)
        eager = graph.attention_layout
        assert isinstance(eager, PaddedGraphLayout)  # which kernels take, and compilers cannot trace
        with monkeypatch.context() as patch:
            patch.setattr(torch.compiler, "is_compiling", lambda: True)
            traced = graph.attention_layout
        assert type(traced) is DenseLayout and traced.mask is not None and eager.mask is not None
        assert_identical(traced.mask, eager.mask)


def test_right_padded_sizes_are_computed_again_for_another_mask():
    graph = random_graphs([4, 2, 0])
    assert graph.right_padded_sizes is not None and graph.right_padded_sizes.tolist() == [4, 2, 0]
    assert graph.replace(v=graph.v + 1).right_padded_sizes is graph.right_padded_sizes
    assert graph.replace(node_mask=graph.node_mask.flip(-1)).right_padded_sizes is None
    fewer = graph.replace(node_mask=graph.node_mask & (torch.arange(4) < 3))
    assert fewer.right_padded_sizes is not None and fewer.right_padded_sizes.tolist() == [3, 2, 0]
    uncached = random_graphs([4, 2]).replace(u=None)
    assert uncached.right_padded_sizes is not None and uncached.right_padded_sizes.tolist() == [4, 2]


def test_the_maxima_of_graphs_without_nodes_are_zeros_in_both_forms():
    none = torch.zeros(0, dtype=torch.long)
    listed = Graph(torch.zeros(0, 4), none, none, none, num_graphs=2)
    dense = listed.to_dense()
    assert dense.v.shape == (2, 0, 4)
    for graph, edges in ((listed, torch.zeros(0, 3)), (dense, torch.zeros(2, 0, 0, 3))):
        assert_identical(graph.max_nodes(graph.v), torch.zeros(2, 4))
        assert_identical(graph.max_all_edges(edges), torch.zeros(2, 3))
        assert_identical(graph.max_senders(graph.v), graph.v)
        assert graph.max_edges(edges).shape == (*graph.v.shape[:-1], 3)


def test_an_empty_batch_converts_between_forms():
    none = torch.zeros(0, dtype=torch.long)
    empty = Graph(torch.zeros(0, 4), none, none, none, num_graphs=0, e=torch.zeros(0, 3), u=torch.zeros(0, 2))
    dense = empty.to_dense()
    assert (tuple(dense.v.shape), tuple(dense.e.shape), tuple(dense.u.shape)) == ((0, 0, 4), (0, 0, 0, 3), (0, 2))
    back = dense.to_edge_list()
    assert (len(back.v), len(back.sender), back.num_graphs) == (0, 0, 0)


@pytest.mark.parametrize("x", [torch.tensor([[-3.0, 5.0], [-1.0, -2.0], [-7.0, 0.5]])])
def test_maxima_of_negative_numbers_are_negative(x):
    listed = Graph.from_edge_index(x, torch.tensor([[0, 1, 2, 0], [1, 0, 0, 2]]))
    dense = listed.to_dense()
    expected = torch.tensor([[-1.0, 0.5], [-3.0, 5.0], [-3.0, 5.0]])
    assert_identical(listed.max_senders(x), expected)
    assert_identical(dense.max_senders(dense.v)[0], expected)
    for graph in (listed, dense):
        assert max_nodes(graph.v, graph).tolist() == [[-1.0, 5.0]]


@pytest.mark.annotations
@pytest.mark.parametrize(
    "wrong",
    [
        {"v": torch.zeros(2, 4, NODE_DIM)},
        {"e": torch.zeros(2, 3, 4, EDGE_DIM)},
        {"u": torch.zeros(3, 5)},
        {"node_mask": torch.ones(2, 3)},
        {"edge_mask": torch.ones(2, 3, dtype=torch.bool)},
        {"degree": torch.ones(2, 4, dtype=torch.long)},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_the_shape_checker_raises_for_mismatched_shapes(wrong):
    graph = random_graphs([3, 2])
    with pytest.raises(jaxtyping.TypeCheckError):
        graph.replace(**wrong)


@pytest.mark.annotations
def test_the_shape_checker_raises_for_edge_lists_of_mismatched_lengths():
    graph = random_graphs([3, 2]).to_edge_list()
    for wrong in ({"sender": graph.sender[1:]}, {"node_graph": graph.node_graph[1:]}, {"u": torch.zeros(5)}):
        with pytest.raises(jaxtyping.TypeCheckError):
            graph.replace(**wrong)


def test_nodes_of_a_dense_graph_come_one_graph_after_another():
    mixed = Graph(torch.randn(4, 3), torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([0, 1, 0, 1]), 2)
    with pytest.raises(ValueError, match="not one graph after another: sort them by node_graph"):
        mixed.to_dense()
    none = Graph(torch.randn(0, 3), *torch.zeros(3, 0, dtype=torch.int64), 0)
    with pytest.raises(ValueError, match="num_graphs is 0"):
        none.to_pyg()


def test_an_edge_between_two_graphs_has_no_place_in_a_pyg_batch():
    graph = random_graphs(sizes=(2, 3)).to_edge_list()
    crossing = graph.replace(sender=graph.sender.clone())
    crossing.sender[0] = len(graph.v) - 1
    with pytest.raises(
        ValueError, match="edge 0 is from a node of graph 1 to a node of graph 0: PyG has no edges between"
    ):
        crossing.to_pyg()
    assert graph.to_pyg().num_edges == len(graph.sender)
