"""phi_v, phi_u and ResidualEdges: their equations, in every form."""

import inspect

import pytest
import torch
import torch.nn.functional as F

from molattn.graph import AttentionEdgeUpdate, GlobalUpdate, GraphNetBlock, NodeUpdate, ResidualEdges
from molattn.graph.blocks import GritEdgeUpdate, RelativeEdgeUpdate
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import (
    EDGE_DIM,
    F64,
    FORMS,
    GLOBAL_DIM,
    NODE_DIM,
    double,
    gradcheck,
    gradients,
    inputs_of,
    loss_of,
    random_graphs,
    through,
)

SIZES = [4, 1, 3, 1, 5]
HEADS, HEAD_DIM = 2, 4
EDGE_UPDATES = {"attention": AttentionEdgeUpdate, "relative": RelativeEdgeUpdate, "grit": GritEdgeUpdate}
every_edge_update = pytest.mark.parametrize("phi_e", EDGE_UPDATES)


def carrying(phi_e="attention"):
    return double(
        GraphNetBlock(
            NODE_DIM,
            HEADS,
            EDGE_DIM,
            hidden_dim=6,
            phi_e=EDGE_UPDATES[phi_e](NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM),
            edges=ResidualEdges(EDGE_DIM, HEADS, HEAD_DIM),
        )
    )


def norm(layer, x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.weight + layer.bias


@pytest.mark.parametrize("globals_", [True, False])
def test_the_node_update_matches_its_equation_in_both_forms(globals_):
    phi_v = double(NodeUpdate(NODE_DIM, global_dim=GLOBAL_DIM if globals_ else 0, hidden_dim=6))
    graph = random_graphs([4, 2], globals_=globals_)
    ebar = torch.randn(graph.v.shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    first, last = phi_v.feed_forward[0], phi_v.feed_forward[-1]
    x = graph.v + ebar
    if globals_:
        x = x + (graph.u @ phi_v.w_u.weight.T)[:, None]
    expected = (x + last(F.gelu(first(norm(phi_v.norm, x)))))[graph.node_mask]
    assert_close(phi_v(ebar, graph)[graph.node_mask], expected)
    assert_close(phi_v(ebar[graph.node_mask], graph.to_edge_list()), expected)


def test_the_global_update_matches_its_equation():
    phi_u = double(GlobalUpdate(NODE_DIM, global_dim=GLOBAL_DIM, hidden_dim=6))
    g = torch.Generator().manual_seed(1)
    ebar, vbar, u = (torch.randn(3, d, generator=g, dtype=F64) for d in (NODE_DIM, NODE_DIM, GLOBAL_DIM))
    layer, first, _, last = phi_u.feed_forward
    expected = u + last(F.gelu(first(norm(layer, torch.cat([ebar, vbar, u], -1)))))
    assert_close(phi_u(ebar, vbar, u), expected)


@every_edge_update
@pytest.mark.parametrize("density", [None, 0.4, 0.0])
def test_residual_edges_match_their_equation_in_every_form_with_gradients(phi_e, density):
    net = carrying(phi_e)
    graph = random_graphs(SIZES, globals_=False, density=density, requires_grad=True)
    listed, messages = graph.to_edge_list(), net.materialize(graph)[1]
    expected = listed.e + norm(net.edges.norm, messages.e.flatten(-2)) @ net.edges.w.weight.T + net.edges.w.bias
    results = [through(net, graph, form) for form in FORMS]
    learned = [*net.parameters(), *inputs_of(graph)]
    for result in results:
        assert_close(result.e, expected)
    by_form = [(*result.tensors(), *gradients(loss_of(result), learned)) for result in results]
    for first, *others in zip(*by_form, strict=True):
        assert first.isfinite().all()
        for other in others:
            assert_close(other, first)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_through_residual_edges_agree_with_finite_differences(form):
    assert gradcheck(carrying(), random_graphs([3, 1], globals_=False, density=0.7, requires_grad=True), form)


def test_edges_updated_by_two_blocks_are_the_same_in_every_form():
    first, second = carrying(), double(carrying(), seed=1)
    graph = random_graphs(SIZES, globals_=False, density=0.6)
    dense, listed = second(first(graph)), second(first(graph.to_edge_list()))
    materialized = second.materialize(first.materialize(graph)[0])[0]
    assert_close(listed.e, dense.e[graph.edges], 1e-11)
    assert_close(materialized.e, listed.e, 1e-11)
    assert_close(listed.v, dense.v[graph.node_mask], 1e-11)
    assert (dense.e - graph.e)[graph.edges].abs().min() > 0


def test_edges_are_unchanged_without_an_update_and_values_in_the_padding_have_no_effect():
    graph = random_graphs([4, 2], globals_=False)
    kept = double(GraphNetBlock(NODE_DIM, HEADS, EDGE_DIM))
    assert kept(graph).e is graph.e and kept.edges is None
    net, results = carrying(), []
    for fill in (0.0, 1e3):
        dirty = graph.replace(
            v=graph.v.masked_fill(~graph.node_mask.unsqueeze(-1), fill),
            e=graph.e.masked_fill(~graph.edges.unsqueeze(-1), fill),
        )
        results.append(through(net, dirty, "dense"))
    assert_identical(results[1].e, results[0].e)
    assert_identical(results[1].v, results[0].v)


def test_an_update_that_reads_u_raises_without_u():
    graph = random_graphs([3])
    graph = graph.replace(u=None)
    with pytest.raises(ValueError, match="the node update needs u, but the graph has none"):
        double(NodeUpdate(NODE_DIM, global_dim=GLOBAL_DIM, hidden_dim=6))(torch.zeros_like(graph.v), graph)
    phi_u = double(GlobalUpdate(NODE_DIM, global_dim=GLOBAL_DIM, hidden_dim=6))
    with pytest.raises(ValueError, match="the global update needs u, but the graph has none"):
        phi_u(*(torch.zeros(1, NODE_DIM, dtype=F64),) * 2, None)


def test_the_sizes_of_the_updates_are_given_by_name():
    for update in (NodeUpdate, GlobalUpdate):
        with pytest.raises(TypeError, match="positional"):
            inspect.unwrap(update.__init__)(update.__new__(update), 8, 5, 6)
