"""GraphNetBlock compared with algorithm 1 of the paper, with custom phi and rho: `tests/graph/algorithm_1.py`."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

from molattn.graph import AttentionEdgeUpdate, GlobalUpdate, GraphNetBlock, NodeUpdate, ResidualEdges, mean_nodes
from tests.assertions import assert_close
from tests.graph.algorithm_1 import Functions, Parts, by_algorithm_1, reduced
from tests.graph.graphs import EDGE_DIM, F64, FORMS, GLOBAL_DIM, NODE_DIM, double, inputs_of, random_graphs, through

HEADS = (3, 2)  # e' has 6 channels, v' 7 and u' 4: none of them what they were before
WIDTH, V_WIDTH, U_WIDTH = 6, 7, 4
NAMES = ("sum", "mean", "max")
GRAPHS: dict[str, tuple[list[int], float | None]] = {
    "complete": ([3, 1, 4], None),
    "sparse, with a node that no edge reaches": ([4, 1, 5], 0.4),
    "without edges": ([3, 1], 0.0),
    "one": ([4], 0.6),
    "without nodes among them": ([0, 3, 0], 0.7),
}
every_form = pytest.mark.parametrize("form", FORMS)
every_kind = pytest.mark.parametrize("kind", GRAPHS)


def added(width, seed, *of):
    """tanh of the sum of linear maps of the arguments that are not None, over the last dimension."""
    g = torch.Generator().manual_seed(seed)
    maps = [torch.randn(d, width, generator=g, dtype=F64) for d in of]

    def f(*xs):
        return torch.tanh(sum((x @ w for x, w in zip(xs, maps, strict=True) if x is not None), torch.zeros(width)))

    return f


def parts(rho_ev="sum", rho_eu="sum", rho_vu="sum"):
    return Parts(
        phi_e=added(WIDTH, 1, EDGE_DIM, NODE_DIM, NODE_DIM, GLOBAL_DIM),
        phi_v=added(V_WIDTH, 2, WIDTH, NODE_DIM, GLOBAL_DIM),
        phi_u=added(U_WIDTH, 3, WIDTH, V_WIDTH, GLOBAL_DIM),
        heads=HEADS,
        v_width=V_WIDTH,
        rho_ev=rho_ev,
        rho_eu=rho_eu,
        rho_vu=rho_vu,
    )


def stacked(rows, width):
    return torch.stack(rows) if rows else torch.zeros(0, width, dtype=F64)


def assert_is_algorithm_1(net, of: Functions, graph, forms=FORMS):
    """Edges, nodes and u of every form, and their gradients by nodes, edges and u."""
    e, v, u = by_algorithm_1(graph, of)
    expected = stacked(e, WIDTH), stacked(v, V_WIDTH), torch.stack(u)
    inputs = inputs_of(graph)
    wanted = torch.autograd.grad(sum(x.sin().sum() for x in expected), inputs, materialize_grads=True)
    for form in forms:
        after = through(net, graph, form)
        found = after.e, after.v, after.u
        for ours, theirs in zip(found, expected, strict=True):
            assert_close(ours, theirs)
        mine = torch.autograd.grad(sum(x.sin().sum() for x in found), inputs, materialize_grads=True)
        for ours, theirs in zip(mine, wanted, strict=True):
            assert_close(ours, theirs)


@every_kind
@pytest.mark.parametrize("rho", list(product(NAMES, repeat=3)), ids="-".join)
def test_a_block_equals_algorithm_1(rho, kind):
    sizes, density = GRAPHS[kind]
    made = parts(*rho)
    net = made.block(global_dim=GLOBAL_DIM)
    assert_is_algorithm_1(net, made.functions(net), random_graphs(sizes, density=density, requires_grad=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("edges", "globals_"), [(True, False), (False, True), (False, False)])
def test_a_block_equals_algorithm_1_without_edge_or_graph_features(edges, globals_, name):
    made = parts(name, name, name)
    net = made.block()
    graph = random_graphs([4, 2], edges=edges, globals_=globals_, density=0.5, requires_grad=True)
    assert_is_algorithm_1(net, made.functions(net), graph)


@pytest.mark.parametrize("name", NAMES)
def test_a_block_equals_algorithm_1_with_duplicate_edges_and_interleaved_graphs(name):
    listed = random_graphs([4, 3, 2], density=0.6).to_edge_list()
    g = torch.Generator().manual_seed(1)
    edges = torch.randint(len(listed.sender), (12,), generator=g)
    nodes = torch.randperm(len(listed.v), generator=g)
    renamed = nodes.argsort()
    mixed = listed.replace(
        v=listed.v[nodes].requires_grad_(),
        node_graph=listed.node_graph[nodes],
        sender=renamed[listed.sender][edges],
        receiver=renamed[listed.receiver][edges],
        e=listed.e[edges].requires_grad_(),
    )
    made = parts(name, name, name)
    net = made.block(global_dim=GLOBAL_DIM)
    assert_is_algorithm_1(net, made.functions(net), mixed, ("edge list", "materialized"))


@every_kind
@pytest.mark.parametrize("name", NAMES)
def test_a_block_with_attention_equals_algorithm_1_from_its_messages_on(name, kind):
    sizes, density = GRAPHS[kind]
    graph = random_graphs(sizes, density=density)
    made = parts(name, name, name)
    phi_e = AttentionEdgeUpdate(NODE_DIM, *HEADS, EDGE_DIM, GLOBAL_DIM)
    net = made.block(phi_e=phi_e, edge_dim=EDGE_DIM, global_dim=GLOBAL_DIM)
    each = net.materialize(graph)[1].e.flatten(-2)
    numbered = graph.to_edge_list().replace(e=torch.arange(len(each), dtype=F64).unsqueeze(-1))
    of = replace(made.functions(net), phi_e=lambda number, *_: each[int(number)])
    _, v, u = by_algorithm_1(numbered, of)
    for form in FORMS:
        after = through(net, graph, form)
        assert_close(after.e, each)
        assert_close(after.v, stacked(v, V_WIDTH))
        assert_close(after.u, torch.stack(u))


@every_form
@every_kind
def test_every_aggregation_can_be_a_function_or_a_module(kind, form):
    """The least of the edges into a node, of those of a graph, and of its nodes: rho in one line each."""

    class Least(nn.Module):
        def forward(self, messages):
            return -messages.graph.max_edges(-messages.per_edge()).flatten(-2)

    sizes, density = GRAPHS[kind]
    graph = random_graphs(sizes, density=density)
    made = parts()
    net = made.block(
        rho_ev=Least(),
        rho_eu=lambda messages: -messages.graph.max_all_edges(-messages.per_edge().flatten(-2)),
        rho_vu=lambda v, graph: -graph.max_nodes(-v),
        global_dim=GLOBAL_DIM,
    )
    of = replace(
        made.functions(net),
        rho_ev=reduced("min", WIDTH),
        rho_eu=reduced("min", WIDTH),
        rho_vu=reduced("min", V_WIDTH),
    )
    _, v, u = by_algorithm_1(graph, of)
    after = through(net, graph, form)
    assert_close(after.v, stacked(v, V_WIDTH))
    assert_close(after.u, torch.stack(u))


def test_rho_arguments_override_global_aggr():
    net = GraphNetBlock(NODE_DIM, 2, global_aggr="max", rho_eu="sum", rho_vu=mean_nodes)
    plain = GraphNetBlock(NODE_DIM, 2, global_aggr="sum")
    assert net.rho_eu is plain.rho_eu and net.rho_vu is mean_nodes
    for name in ("rho_eu", "rho_vu"):
        with pytest.raises(ValueError, match="unknown aggregation 'median'"):
            GraphNetBlock(NODE_DIM, 2, **{name: "median"})


# What is passed, and what the others make of it.


@every_form
def test_a_global_update_that_is_passed_runs_where_global_dim_is_0(form):
    made = parts()
    net = made.block()
    assert net.norm_u is None
    graph = random_graphs([4, 2])
    _, _, u = by_algorithm_1(graph, made.functions(net))
    assert_close(through(net, graph, form).u, torch.stack(u))


@every_form
def test_a_global_update_that_is_passed_can_make_u_for_the_next_block(form):
    first = double(GraphNetBlock(NODE_DIM, 2, EDGE_DIM, phi_u=added(GLOBAL_DIM, 1, NODE_DIM, NODE_DIM, 1)))
    graph = random_graphs([4, 2], globals_=False)
    u = through(first, graph, form).u
    assert u.shape == (2, GLOBAL_DIM)
    second = double(GraphNetBlock(NODE_DIM, 2, EDGE_DIM, GLOBAL_DIM))
    assert through(second, graph.replace(u=u), form).u.shape == (2, GLOBAL_DIM)


@every_form
def test_updates_that_read_u_raise_for_a_graph_without(form):
    graph = random_graphs([4, 2], globals_=False)
    of_nodes = GraphNetBlock(NODE_DIM, 2, EDGE_DIM, phi_v=NodeUpdate(NODE_DIM, global_dim=GLOBAL_DIM, hidden_dim=6))
    of_graph = GraphNetBlock(NODE_DIM, 2, EDGE_DIM, phi_u=GlobalUpdate(NODE_DIM, global_dim=GLOBAL_DIM, hidden_dim=6))
    for net, what in ((of_nodes, "node"), (of_graph, "global")):
        with pytest.raises(ValueError, match=f"the {what} update needs u, but the graph has none"):
            through(double(net), graph, form)


@pytest.mark.parametrize("form", ["dense", "edge list"])
@pytest.mark.parametrize("name", NAMES)
def test_join_and_global_update_follow_the_channels_of_the_edge_update(name, form):
    phi_e = AttentionEdgeUpdate(NODE_DIM, *HEADS, EDGE_DIM, GLOBAL_DIM)
    net = double(GraphNetBlock(NODE_DIM, 2, EDGE_DIM, GLOBAL_DIM, global_aggr=name, phi_e=phi_e))
    assert net.join.linear.in_features == WIDTH
    assert net.phi_u.feed_forward[1].in_features == WIDTH + NODE_DIM + GLOBAL_DIM
    graph = random_graphs([4, 1, 3], density=0.5)
    after, materialized = through(net, graph, form), through(net, graph, "materialized")
    assert_close(after.v, materialized.v)
    assert_close(after.u, materialized.u)


def test_passed_modules_are_submodules_of_the_block_and_functions_are_not():
    update = GlobalUpdate(NODE_DIM, global_dim=GLOBAL_DIM, hidden_dim=6)
    net: Any = GraphNetBlock(NODE_DIM, 2, global_dim=GLOBAL_DIM, phi_u=update, phi_v=lambda ebar, graph: graph.v + ebar)
    assert net.phi_u is update
    names = {name.split(".")[0] for name in net.state_dict()}
    assert names == {"norm_v", "norm_u", "phi_e", "join", "phi_u"}


def test_an_empty_sequence_is_a_part_and_not_a_missing_one():
    nothing = nn.Sequential()
    assert GraphNetBlock(NODE_DIM, 2, join=nothing).join is nothing


def test_the_parameters_of_a_block_have_the_names_and_shapes_that_saved_models_have():
    net = GraphNetBlock(8, 2, 3, 5, hidden_dim=6, edges=ResidualEdges(3, 2, 4))
    assert {name: tuple(p.shape) for name, p in net.state_dict().items()} == {
        "norm_v.weight": (8,),
        "norm_v.bias": (8,),
        "norm_u.weight": (5,),
        "norm_u.bias": (5,),
        "phi_e.w_q.weight": (8, 8),
        "phi_e.w_k.weight": (8, 8),
        "phi_e.w_v.weight": (8, 8),
        "phi_e.w_ke.weight": (8, 3),
        "phi_e.w_ve.weight": (8, 3),
        "phi_e.w_be.weight": (2, 3),
        "phi_e.w_qu.weight": (8, 5),
        "phi_e.w_ku.weight": (8, 5),
        "phi_e.w_vu.weight": (8, 5),
        "join.linear.weight": (8, 8),
        "join.linear.bias": (8,),
        "phi_v.w_u.weight": (8, 5),
        "phi_v.norm.weight": (8,),
        "phi_v.norm.bias": (8,),
        "phi_v.feed_forward.0.weight": (6, 8),
        "phi_v.feed_forward.0.bias": (6,),
        "phi_v.feed_forward.3.weight": (8, 6),
        "phi_v.feed_forward.3.bias": (8,),
        "phi_u.feed_forward.0.weight": (21,),
        "phi_u.feed_forward.0.bias": (21,),
        "phi_u.feed_forward.1.weight": (6, 21),
        "phi_u.feed_forward.1.bias": (6,),
        "phi_u.feed_forward.3.weight": (5, 6),
        "phi_u.feed_forward.3.bias": (5,),
        "edges.norm.weight": (8,),
        "edges.norm.bias": (8,),
        "edges.w.weight": (3, 8),
        "edges.w.bias": (3,),
    }


class Halved(NodeUpdate):
    """A custom node update whose class has the name of the default one."""

    def forward(self, ebar, graph):
        return super().forward(ebar, graph) / 2


PHI_V = {
    "a function": lambda ebar, graph: graph.v + ebar,
    "a class of its own": Halved(32, hidden_dim=48),
    "one that reads u": NodeUpdate(32, global_dim=GLOBAL_DIM, hidden_dim=48),
}


@pytest.mark.parametrize("phi_v", PHI_V)
def test_blocks_with_another_node_update_do_not_run_fused(phi_v):
    torch.manual_seed(0)
    net: Any = GraphNetBlock(32, 4, 5, phi_v=PHI_V[phi_v])
    assert net.fused_unsupported_reason(5)
    graph = random_graphs([3, 2], globals_=False, edge_dim=5)
    graph = graph.replace(v=torch.randn(2, 3, 32), e=torch.randn(2, 3, 3, 5))
    if phi_v == "one that reads u":
        with pytest.raises(ValueError, match="needs u"):
            net(graph)
    else:
        assert_close(net(graph).v, net.forward_with_messages(graph)[0].v, 1e-5)


def test_blocks_with_a_passed_node_update_run_fused_but_not_with_a_global_update():
    phi_v = NodeUpdate(32, hidden_dim=16)
    known: Any = GraphNetBlock(32, 4, 5, phi_v=phi_v)
    assert not known.fused_unsupported_reason(5)
    assert any(x is phi_v.feed_forward[0].weight for x in known.fused_weights().tensors)
    assert GraphNetBlock(32, 4, 5, phi_u=lambda _ebar, vbar, _u: vbar).fused_unsupported_reason(5)


def test_a_block_without_norms_does_not_run_fused_and_passes_unnormalised_nodes_to_phi_e():
    made = parts()
    net = made.block()
    net.norm_v = nn.Identity()
    graph = random_graphs([4, 2], density=0.6)
    e, _, _ = by_algorithm_1(graph, replace(made.functions(net), phi_e=made.phi_e))
    assert_close(through(net, graph, "dense").e, stacked(e, WIDTH))
    known: Any = GraphNetBlock(32, 4, 5)
    assert not known.fused_unsupported_reason(5)
    known.norm_v = nn.Identity()
    assert known.fused_unsupported_reason(5)
