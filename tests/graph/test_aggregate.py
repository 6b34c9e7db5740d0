"""rho and the e'_k that it aggregates: the same in every form, compared with loops, and zeros without edges."""

from typing import Any

import pytest
import torch
from torch import nn

from molattn.attention import ConcatHeads
from molattn.graph import (
    EDGES_TO_GRAPH,
    EDGES_TO_NODES,
    AttentionEdgeUpdate,
    GraphNetBlock,
    max_all_edges,
    max_edges,
    mean_all_edges,
    mean_edges,
    sum_all_edges,
    sum_edges,
)
from molattn.graph.blocks import GatedSum, GritEdgeUpdate, MixedEdgeUpdate, RelativeEdgeUpdate
from tests.assertions import assert_close
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
DENSITIES = [None, 0.4, 0.0]


class RootMeanSquare(nn.Module):
    """A custom rho with a weight: w * sqrt(mean_k e'_k^2 + 1)."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(HEADS * HEAD_DIM))

    def forward(self, messages):
        graph = messages.graph
        count = graph.count_edges().clamp_min(1).to(F64)[..., None]
        return self.w * ((graph.sum_edges(messages.per_edge().square()).flatten(-2) / count + 1).sqrt() - 1)


RHO = {
    "sum": lambda: "sum",
    "mean": lambda: "mean",
    "max": lambda: "max",
    "a function": lambda: lambda messages: messages.sum().tanh(),
    "a module": RootMeanSquare,
}
PHI_E = {
    "edges in keys, values, bias": lambda: AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM),
    "no edges": lambda: AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM),
    "relative": lambda: RelativeEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM),
    "mixed": lambda: MixedEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM, lambdas=(0.4, 0.3, 0.2, 0.1)),
    "edges of each head": lambda: GritEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM),
}
every_form = pytest.mark.parametrize("form", FORMS)
every_rho = pytest.mark.parametrize("rho", RHO)
every_phi_e = pytest.mark.parametrize("phi_e", PHI_E)
every_density = pytest.mark.parametrize("density", DENSITIES)


def block(rho):
    return double(GraphNetBlock(NODE_DIM, HEADS, EDGE_DIM, GLOBAL_DIM, hidden_dim=6, rho_ev=RHO[rho]()))


@every_rho
@every_density
def test_an_aggregation_has_the_same_values_and_gradients_in_every_form(rho, density):
    net = block(rho)
    graph = random_graphs(SIZES, density=density, requires_grad=True)
    learned = [*net.parameters(), *inputs_of(graph)]
    results = [through(net, graph, form) for form in FORMS]
    by_form = [(*result.tensors(), *gradients(loss_of(result), learned)) for result in results]
    for first, *others in zip(*by_form, strict=True):
        assert first.isfinite().all()
        for other in others:
            assert_close(other, first)


@every_rho
@every_form
def test_gradients_of_an_aggregation_agree_with_finite_differences(rho, form):
    assert gradcheck(block(rho), random_graphs([3, 1], density=0.7, requires_grad=True), form)


@every_phi_e
@every_rho
@pytest.mark.parametrize("density", [0.4, 0.0])
def test_a_node_without_incoming_edges_gets_zeros_from_every_aggregation(phi_e, rho, density):
    made = double(PHI_E[phi_e]())
    graph = random_graphs(SIZES, globals_=False, edges=phi_e != "no edges", density=density)
    chosen: Any = RHO[rho]()
    aggregate: Any = double(chosen) if isinstance(chosen, nn.Module) else EDGES_TO_NODES.get(chosen, chosen)
    isolated = ~graph.edges.any(-1)
    assert (isolated & graph.node_mask).any()
    assert (aggregate(made(graph))[isolated] == 0).all()
    listed = graph.to_edge_list()
    for messages in (made(listed), made.materialize(graph)):
        ebar = aggregate(messages)
        assert (ebar[listed.count_edges() == 0] == 0).all()
        assert ebar.shape == (len(listed.v), HEADS * HEAD_DIM)


def by_loops(rho, each, graph):
    """rho of e'_k, (m, h, d), one receiver at a time."""
    ebar = torch.zeros(len(graph.v), HEADS, HEAD_DIM, dtype=F64)
    for r in range(len(graph.v)):
        mine = each[graph.receiver == r]
        if len(mine) == 0:
            continue
        ebar[r] = {"sum": mine.sum(0), "mean": mine.mean(0), "max": mine.amax(0)}[rho]
    return ebar.flatten(-2)


@every_phi_e
@pytest.mark.parametrize("rho", ["sum", "mean", "max"])
@every_density
def test_an_aggregation_matches_its_equation_by_loops_over_receivers(phi_e, rho, density):
    made = double(PHI_E[phi_e]())
    graph = random_graphs(SIZES, globals_=False, edges=phi_e != "no edges", density=density)
    listed = graph.to_edge_list()
    aggregate = EDGES_TO_NODES[rho]
    expected = by_loops(rho, made.materialize(graph).e, listed)
    assert_close(aggregate(made.materialize(graph)), expected)
    assert_close(aggregate(made(listed)), expected)
    assert_close(aggregate(made(graph))[graph.node_mask], expected)


@every_phi_e
@every_density
def test_per_edge_messages_equal_the_materialized_ones_and_their_sum(phi_e, density):
    made = double(PHI_E[phi_e]())
    graph = random_graphs(SIZES, globals_=False, edges=phi_e != "no edges", density=density)
    materialized, listed, dense = made.materialize(graph), made(graph.to_edge_list()), made(graph)
    assert materialized.per_edge() is materialized.e
    assert_close(listed.per_edge(), materialized.e)
    everything = dense.per_edge()  # (b, i, j, h, d)
    assert_close(everything[graph.edges], materialized.e)
    assert (everything[~graph.edges] == 0).all()
    assert_close(everything.sum(2).flatten(-2)[graph.node_mask], dense.sum()[graph.node_mask])
    assert_close(listed.graph.sum_edges(listed.per_edge()).flatten(-2), listed.sum())
    assert_close(materialized.graph.sum_edges(materialized.per_edge()).flatten(-2), materialized.sum())


@every_phi_e
def test_dropout_is_the_same_in_per_edge_messages_and_their_sum(phi_e):
    made = double(PHI_E[phi_e]()).train()
    made.dropout = 0.5
    graph = random_graphs(SIZES, globals_=False, edges=phi_e != "no edges", density=0.7)
    torch.manual_seed(3)
    for messages in (made(graph), made(graph.to_edge_list())):
        each = messages.graph.sum_edges(messages.per_edge()).flatten(-2)
        assert_close(each, messages.sum())
        assert (messages.weights_after_dropout != messages.weights).any()


@pytest.mark.parametrize("rho", ["max", "a module"])
def test_garbage_in_padded_nodes_reaches_no_message(rho):
    net = block(rho)
    graph = random_graphs([4, 2], density=0.7)
    padding = ~graph.node_mask.unsqueeze(-1)
    clean, dirty = (through(net, graph.replace(v=graph.v.masked_fill(padding, x)), "dense") for x in (0.0, torch.nan))
    for ours, theirs in zip(dirty.tensors(), clean.tensors(), strict=True):
        assert_close(ours, theirs, 0.0)


@every_phi_e
@pytest.mark.parametrize("rho", EDGES_TO_GRAPH)
@every_density
def test_an_aggregation_of_edges_to_graphs_matches_its_equation_by_loops_over_graphs(phi_e, rho, density):
    made = double(PHI_E[phi_e]())
    graph = random_graphs(SIZES, globals_=False, edges=phi_e != "no edges", density=density)
    materialized = made.materialize(graph)
    edge_graph = materialized.graph.node_graph[materialized.graph.receiver]
    expected = torch.zeros(len(SIZES), HEADS * HEAD_DIM, dtype=F64)
    for b in range(len(SIZES)):
        if len(mine := materialized.e.flatten(-2)[edge_graph == b]):
            expected[b] = {"sum": mine.sum(0), "mean": mine.mean(0), "max": mine.amax(0)}[rho]
    for messages in (materialized, made(materialized.graph), made(graph)):
        assert_close(EDGES_TO_GRAPH[rho](messages), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_edge_counts_are_exact_for_features_of_any_dtype(dtype):
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM)).to(dtype)
    many = random_graphs([1], edges=False, globals_=False).replace(
        v=torch.ones(1, 70, NODE_DIM, dtype=dtype), node_mask=torch.ones(1, 70, dtype=torch.bool)
    )
    for graph in (many, many.to_edge_list()):
        assert int(graph.count_all_edges()) == 4900
        messages = phi_e(graph)
        assert_close(mean_all_edges(messages), sum_all_edges(messages) / 4900)


def test_names_of_aggregations_are_functions():
    assert {"sum": sum_all_edges, "mean": mean_all_edges, "max": max_all_edges} == EDGES_TO_GRAPH
    assert {"sum": sum_edges, "mean": mean_edges, "max": max_edges} == EDGES_TO_NODES
    with pytest.raises(ValueError, match="unknown aggregation 'median': choose one of sum, mean, max"):
        GraphNetBlock(NODE_DIM, HEADS, rho_ev="median")


def test_a_mean_does_not_grow_with_the_edges_and_a_sum_of_weights_one_does_not_either():
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM))
    one = random_graphs([1], edges=False, globals_=False)
    many = one.replace(v=one.v.expand(1, 6, -1), node_mask=torch.ones(1, 6, dtype=torch.bool))
    assert_close(sum_edges(phi_e(many))[0, 0], sum_edges(phi_e(one))[0, 0])
    assert_close(mean_edges(phi_e(many))[0, 0], sum_edges(phi_e(one))[0, 0] / 6)


def test_a_gate_of_one_half_halves_the_sum_and_puts_the_receiver_in_front():
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM))
    gated = double(GatedSum(NODE_DIM, HEADS, HEAD_DIM))
    with torch.no_grad():
        gated.w_g.weight.zero_()
        gated.w_g.bias.zero_()
    graph = random_graphs(SIZES, globals_=False, density=0.5)
    messages = phi_e(graph)
    assert_close(gated(messages), torch.cat([graph.v, messages.sum() / 2], -1))


def test_the_join_can_be_replaced():
    ours = double(GraphNetBlock(NODE_DIM, HEADS, join=ConcatHeads(HEADS, HEAD_DIM, NODE_DIM, bias=False)))
    assert ours.join.linear.bias is None
    graph = random_graphs(SIZES, edges=False, globals_=False)
    dense, *others = (through(ours, graph, form).v for form in FORMS)
    for other in others:
        assert_close(other, dense)
