"""VirtualNode: shapes, unchanged fields, and invariance to the padding."""

import pytest
import torch

from molattn.graph import GraphNetBlock, VirtualNode
from tests.assertions import assert_close, assert_equivariant, assert_identical
from tests.graph.graphs import EDGE_DIM, F64, GLOBAL_DIM, NODE_DIM, double, random_graphs

SIZES = [4, 1, 3]


def virtual_node(edges=True):
    return double(VirtualNode(NODE_DIM, EDGE_DIM if edges else 0))


def block(edges=True):
    return double(GraphNetBlock(NODE_DIM, num_heads=2, edge_dim=EDGE_DIM if edges else 0, global_dim=GLOBAL_DIM)).eval()


@pytest.mark.parametrize("edges", [True, False])
@pytest.mark.parametrize("density", [None, 0.4])
def test_nodes_edges_and_masks_grow_by_one(edges, density):
    layer, graph = virtual_node(edges), random_graphs(SIZES, edges=edges, density=density)
    after = layer(graph)
    assert_identical(after.v[:, 1:], graph.v)
    assert_identical(after.v[:, 0], layer.v.expand(3, -1))
    assert_identical(after.node_mask[:, 1:], graph.node_mask)
    assert after.node_mask[:, 0].all()
    assert after.u is graph.u
    if edges:
        assert_identical(after.e[:, 1:, 1:], graph.e)
        assert_identical(after.e[:, 0, 1:], layer.edge_features[0].expand(3, 4, -1))
        assert_identical(after.e[:, 1:, 0], layer.edge_features[1].expand(3, 4, -1))
        assert_identical(after.e[:, 0, 0], layer.edge_features[2].expand(3, -1))
    else:
        assert after.e is None
    if density is None:
        assert after.edge_mask is None
    else:
        assert_identical(after.edge_mask[:, 1:, 1:], graph.edge_mask)
    assert_identical(after.edges[:, 1:, 1:], graph.edges)
    assert_identical(after.edges[:, 0], after.node_mask)
    assert_identical(after.edges[:, :, 0], after.node_mask)


def test_to_virtual_is_what_the_virtual_node_receives():
    layer = virtual_node()
    graph = random_graphs([2])
    edges = layer(graph).to_edge_list()
    to_virtual = (edges.receiver == 0) & (edges.sender > 0)
    assert_identical(edges.e[to_virtual], layer.edge_features[0].expand(2, -1))


def test_the_order_of_the_nodes_does_not_matter():
    layer, order = virtual_node(), torch.tensor([2, 0, 3, 1])
    graph = random_graphs(SIZES, density=0.5)
    shifted = torch.cat([torch.zeros(1, dtype=torch.long), order + 1])

    def act(graph):
        return (
            graph.replace(
                v=graph.v[:, order],
                node_mask=graph.node_mask[:, order],
                e=graph.e[:, order][:, :, order],
                edge_mask=graph.edge_mask[:, order][:, :, order],
            ),
        )

    after = block()
    assert_equivariant(lambda g: after(layer(g)).v, (graph,), act, lambda v: v[:, shifted])
    assert_equivariant(lambda g: layer(g).e, (graph,), act, lambda e: e[:, shifted][:, :, shifted])
    assert_equivariant(lambda g: layer(g).edges.to(F64), (graph,), act, lambda edges: edges[:, shifted][:, :, shifted])


def test_values_in_the_padding_do_not_change_one_bit_of_the_virtual_node():
    layer, after, graph = virtual_node(), block(), random_graphs(SIZES)
    pairs = graph.node_mask.unsqueeze(-1) & graph.node_mask.unsqueeze(-2)
    other = graph.replace(
        v=graph.v.masked_fill(~graph.node_mask.unsqueeze(-1), -7.0), e=graph.e.masked_fill(~pairs.unsqueeze(-1), 5.0)
    )
    real = layer(graph).node_mask
    assert_identical(after(layer(other)).v[real], after(layer(graph)).v[real])


def test_batch_invariance():
    layer, after, graph = virtual_node(), block(), random_graphs(SIZES)
    together = after(layer(graph)).v
    for k, n in enumerate(SIZES):
        single = graph.replace(
            v=graph.v[k : k + 1, :n],
            node_mask=graph.node_mask[k : k + 1, :n],
            e=graph.e[k : k + 1, :n, :n],
            u=graph.u[k : k + 1],
        )
        assert_close(after(layer(single)).v[0], together[k, : n + 1])


def test_a_graph_without_nodes_has_a_virtual_node():
    graph = random_graphs([2, 1])
    empty = graph.replace(node_mask=torch.zeros_like(graph.node_mask))
    after = block()(virtual_node()(empty))
    assert after.v[after.node_mask].isfinite().all() and after.count_nodes().tolist() == [1, 1]


@pytest.mark.parametrize("edges", [True, False])
def test_gradients_agree_with_finite_differences(edges):
    layer = virtual_node(edges)
    graph = random_graphs([2, 1], edges=edges, requires_grad=True)
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def outputs(v, *values):
        after = torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (graph.replace(v=v),))
        return after.v if after.e is None else (after.v, after.e)

    assert torch.autograd.gradcheck(outputs, (graph.v, *parameters))


def test_features_of_another_size_raise():
    with pytest.raises(ValueError, match=f"{EDGE_DIM} features in e, the layer was made with edge_dim=0"):
        virtual_node(edges=False)(random_graphs(SIZES))
    with pytest.raises(ValueError, match=f"0 features in e, the layer was made with edge_dim={EDGE_DIM}"):
        virtual_node()(random_graphs(SIZES, edges=False))
    with pytest.raises(TypeError, match="DenseGraph"):
        virtual_node()(random_graphs(SIZES).to_edge_list())


def test_its_edge_features_can_be_fixed():
    features = torch.tensor([[0.0], [0.5], [1.0]], dtype=F64)
    layer = VirtualNode(NODE_DIM, 1, features)
    assert [name for name, _ in layer.named_parameters()] == ["v"]
    graph = random_graphs([3, 2])
    after = layer.double()(graph.replace(e=graph.e[..., :1]))
    assert (after.e[:, 0, 1:] == 0).all() and (after.e[:, 1:, 0] == 0.5).all() and (after.e[:, 0, 0] == 1).all()


def test_degrees_are_kept_and_that_of_the_virtual_node_is_0():
    graph = random_graphs([3, 2])
    degree = torch.tensor([[1, 2, 1], [1, 1, 0]])
    after = VirtualNode(NODE_DIM, EDGE_DIM).double()(graph.replace(degree=degree))
    assert after.degree.tolist() == [[0, 1, 2, 1], [0, 1, 1, 0]]


def test_edge_features_have_a_row_for_each_kind_of_edge():
    with pytest.raises(ValueError, match=r"edge_features \(3, 5\) are not 3 rows of edge_dim=4 channels"):
        VirtualNode(16, 4, edge_features=torch.zeros(3, 5))
