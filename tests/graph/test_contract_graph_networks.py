"""The tests of jraph and graph_nets of their graph networks, restated for `GraphNetBlock`.

jraph 51f5990, `models_test.py`: 17 cases, a test of several parameters being several cases; 16 are restated.

| their test                        | cases | here | what is not, and why                                        |
|-----------------------------------|-------|------|-------------------------------------------------------------|
| test_connect_graphnetwork         | 7     | 7    |                                                             |
| test_connect_graphnetwork_nones   | 4     | 4    |                                                             |
| test_connect_gnns                 | 5     | 5    |                                                             |
| test_graphnetwork_attention_error | 1     | 0    | logits and reduction are one part here, phi_e               |

Their features may be nested and "empty" as well as None, and each case runs compiled too; ours are tensors or None.

graph_nets adf2516, `modules_test.py`: 82 cases, 45 of them restated; `blocks_test.py`: 125 cases, 53 of them restated.

| their tests              | cases | here | what is not, and why                                                 |
|--------------------------|-------|------|----------------------------------------------------------------------|
| GraphNetworkTest         | 27    | 21   | 1 name of a module; 5 features of higher rank                        |
| GraphIndependentTest     | 7     | 2    | 2 names and shapes; 3 higher rank                                    |
| InteractionNetworkTest   | 12    | 4    | 2 names and shapes; 2 no nodes or no edge list; 4 higher rank        |
| RelationNetworkTest      | 11    | 4    | 2 names and shapes; 2 no nodes or no edge list; 3 higher rank        |
| DeepSetsTest             | 11    | 5    | 2 names and shapes; 1 no nodes; 3 higher rank                        |
| CommNetTest              | 9     | 4    | 2 names and shapes; 2 no nodes or no edge list; 1 higher rank        |
| SelfAttentionTest        | 5     | 5    |                                                                      |
| BroadcastersTest         | 13    | 4    | 4 higher rank; 5 None in place of what is broadcast                  |
| ReducersTest             | 2     | 2    |                                                                      |
| FieldAggregatorsTest     | 16    | 8    | 4 higher rank; 4 None in place of what is aggregated                 |
| EdgeBlockTest            | 29    | 11   | 5 shapes; 3 + 1 no nodes or no edge list; 8 higher rank; 1 no input  |
| NodeBlockTest            | 30    | 10   | 5 shapes; 2 no e'; 1 + 1 no nodes; 8 higher rank; 1 no input; 2 rho  |
| GlobalBlockTest          | 26    | 9    | 4 shapes; 2 + 1 no nodes or e'; 7 higher rank; 1 no input; 2 rho     |
| CommonBlockTests         | 9     | 9    |                                                                      |

Names and shapes: parts of a block take their sizes where they are made (the sizes of what each is fed are tested). No
nodes, no edge list: a `Graph` always has both, an edge list may be empty; e' is always there, too. Higher rank:
features are vectors. No input: a phi may ignore all it is given. Rho: none can be left out, each has a default.

What both add to algorithm 1, edges aggregated at their senders, is a custom rho_ev (`received_and_sent`).
"""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from molattn.attention import EdgeListLayout, softmax
from molattn.graph import AttentionEdgeUpdate, DenseGraph, Graph, GraphNetBlock, sum_all_edges, sum_edges, sum_nodes
from tests.assertions import assert_close, assert_identical
from tests.graph.algorithm_1 import OfEachEdge, Parts, by_algorithm_1, reduced
from tests.graph.graphs import F64, FORMS, double, through

V, E, U = 2, 4, 3
CHAIN, ONE, OUT, IN = [(0, 1), (1, 2)], [(1, 2)], [(1, 0), (1, 2)], [(0, 1), (2, 1)]
every_form = pytest.mark.parametrize("form", FORMS)


def graphs(*edge_lists, sizes=None, edges=True, globals_=True, seed=0, **gradients) -> Any:
    """Graphs of three nodes, or of these sizes, with edges (sender, receiver) and random features."""
    g = torch.Generator().manual_seed(seed)
    sizes = [3] * len(edge_lists) if sizes is None else sizes
    starts = [sum(sizes[:b]) for b in range(len(sizes))]
    ends = [(start + s, start + r) for start, pairs in zip(starts, edge_lists, strict=True) for s, r in pairs]
    sender, receiver = torch.tensor(ends, dtype=torch.long).view(-1, 2).T
    v, e, u = (
        torch.randn(rows, d, generator=g, dtype=F64).requires_grad_(bool(gradients))
        for rows, d in ((sum(sizes), V), (len(ends), E), (len(sizes), U))
    )
    node_graph = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return Graph(v, sender, receiver, node_graph, len(sizes), e if edges else None, u if globals_ else None)


def four(**how) -> Any:
    return graphs(CHAIN, ONE, OUT, IN, **how)


def odd(**how) -> Any:
    """Graphs of one, three, one, no, two, no and no nodes; loops, edges that come twice, graphs without edges."""
    loops, doubled = [(0, 0), (0, 0)], [(0, 1), (0, 0), (1, 2), (2, 1), (2, 0), (2, 0)]
    return graphs(loops, doubled, [], [], [(1, 0)], [], [], sizes=[1, 3, 1, 0, 2, 0, 0], **how)


def of_form(net, graph, form):
    """The output of the block in a form; the dense one is converted from the edge list, and may reorder its edges."""
    return through(net, graph.to_dense() if form == "dense" else graph, form)


def linear(out, widths, use=None, seed=0):
    """A linear map of the inputs that are used, concatenated."""
    g = torch.Generator().manual_seed(seed)
    maps = [torch.randn(d, out, generator=g, dtype=F64) for d in widths]
    use = [True] * len(maps) if use is None else use

    def f(*xs):
        chosen = [x @ w for x, w, used in zip(xs, maps, use, strict=True) if used]
        return sum(chosen[1:], chosen[0])

    return f


def same_e(e, _r, _s, _u):
    return e


def same_v(_ebar, v, _u):
    return v


def same_u(_ebar, _vbar, u):
    return u


def parts(phi_e=same_e, phi_v=same_v, phi_u=same_u, heads=(1, E), v_width=V, **rho) -> Parts:
    return Parts(phi_e, phi_v, phi_u, heads, v_width, **rho)


def block(of: Parts, **other) -> Any:
    """The block of these parts, without the norm of the nodes before the edge update."""
    net = of.block(node_dim=V, num_heads=1, **other)
    net.norm_v = nn.Identity()
    return net


def assert_same_graph(after, graph):
    for found, wanted in ((after.v, graph.v), (after.e, graph.e), (after.u, graph.u)):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            assert_close(found, wanted)


def assert_agrees(of: Parts, graph, form):
    """The block of these parts equals algorithm 1, and identities keep their inputs."""
    net = block(of)
    after = of_form(net, graph, form)
    # A dense graph has its edges by receiver; the edge list is brought into that order.
    graph = graph.to_dense().to_edge_list() if form == "dense" else graph
    e, v, u = by_algorithm_1(graph, of.functions(net))
    for found, wanted in ((after.e, e), (after.v, v), (after.u, u)):
        if not wanted:
            assert len(found) == 0
        elif wanted[0] is None:
            assert found is None
        else:
            assert_close(found, torch.stack(wanted))
    return after, graph


# jraph: identities give the graph back.


def same_parts(**other):
    return {"phi_v": lambda _ebar, graph: graph.v, "phi_u": lambda _ebar, _vbar, u: u, **other}


def own_edges(num_heads=1):
    """phi_e that returns e in `num_heads` heads, all with the same message."""
    return OfEachEdge(lambda e, r, _s, _u: (r[..., :1] if e is None else e).repeat(1, num_heads), num_heads, E)


NETWORKS = {
    "all updates": lambda e, _: GraphNetBlock(
        V, 1, e, **same_parts(phi_e=own_edges(), join=nn.Identity(), edges=lambda m, _: m.per_edge().flatten(-2))
    ),
    "no node update": lambda e, _: GraphNetBlock(
        V, 1, e, **same_parts(phi_e=own_edges(), join=nn.Identity(), rho_ev=lambda m: m.graph.v)
    ),
    "no edge update": lambda e, u: GraphNetBlock(V, 1, e, u, **same_parts()),
    "no global update": lambda e, _: GraphNetBlock(
        V, 1, e, phi_e=own_edges(), join=nn.Identity(), phi_v=lambda _ebar, graph: graph.v
    ),
    "attention": lambda e, u: GraphNetBlock(V, 1, e, u, **same_parts(edges=lambda _, e: e)),
    "attention of several heads": lambda e, _: GraphNetBlock(
        V, 1, e, **same_parts(phi_e=own_edges(3), join=nn.Identity(), edges=lambda m, _: m.per_edge()[..., 0, :])
    ),
    "GAT": lambda e, u: GraphNetBlock(
        V,
        1,
        e,
        u,
        **same_parts(phi_e=AttentionEdgeUpdate(V, 3, 2, e, u, edge_roles=("bias",), score="dot")),
    ),
}


@pytest.mark.parametrize("form", ["edge list", "materialized"])
@pytest.mark.parametrize("name", NETWORKS)
def test_identities_return_the_same_graph(name, form):
    graph = odd()
    assert_same_graph(through(double(NETWORKS[name](E, U)), graph, form), graph)


@pytest.mark.parametrize("form", ["edge list", "materialized"])
@pytest.mark.parametrize("features", ["no globals", "no edges"])
@pytest.mark.parametrize("name", ["all updates", "no node update", "no edge update", "no global update"])
def test_identities_return_a_graph_without_edge_or_graph_features(name, features, form):
    graph = odd(globals_=features != "no globals", edges=features != "no edges")
    e, u = (0 if x is None else x.shape[1] for x in (graph.e, graph.u))
    net: Any = double(NETWORKS[name](e, u))
    if features == "no edges" and name == "all updates":
        net.edges = None  # e' is always there
    if features == "no edges" and name in ("all updates", "no node update", "no global update"):
        net.phi_e = OfEachEdge(lambda _e, r, _s, _u: r, 1, V)
    assert_same_graph(through(net, graph, form), graph)


# Networks that are blocks with some inputs left out: jraph's test_connect_gnns, graph_nets' test_same_as_subblocks.

WIDE = 5
BOTH_RHO = ("sum", "max")


def interaction(rho):
    """Edges from e, sender and receiver, nodes from those and themselves; without u."""
    return parts(
        linear(WIDE, (E, V, V, U), (True, True, True, False)),
        linear(6, (WIDE, V, U), (True, True, False), seed=1),
        heads=(1, WIDE),
        v_width=6,
        rho_ev=rho,
    )


def relation(rho):
    """Edges from sender and receiver only, u from the edges only."""
    return parts(
        linear(WIDE, (E, V, V, U), (False, True, True, False)),
        phi_u=linear(6, (WIDE, V, U), (True, False, False), seed=1),
        heads=(1, WIDE),
        rho_eu=rho,
    )


def deep_sets(rho):
    """Nodes from themselves and u, u from the nodes only."""
    return parts(
        lambda _e, r, _s, _u: r,
        linear(WIDE, (V, V, U), (False, True, True)),
        linear(6, (V, WIDE, U), (False, True, False), seed=1),
        heads=(1, V),
        v_width=WIDE,
        rho_vu=rho,
    )


def comm_net(rho):
    """Edges from the sender only, nodes from those and from an encoding of themselves."""
    encode = linear(8, (V,), seed=2)
    mix = linear(6, (WIDE, 8), seed=1)
    return parts(
        linear(WIDE, (E, V, V, U), (False, False, True, False)),
        lambda ebar, v, _u: mix(ebar, encode(v)),
        heads=(1, WIDE),
        v_width=6,
        rho_ev=rho,
    )


def full(rho):
    """All inputs, linear."""
    return parts(
        linear(WIDE, (E, V, V, U)),
        linear(6, (WIDE, V, U), seed=1),
        linear(7, (WIDE, 6, U), seed=2),
        heads=(1, WIDE),
        v_width=6,
        rho_ev=rho,
        rho_eu=rho,
        rho_vu=rho,
    )


CASES = [(full, rho, "all") for rho in BOTH_RHO]
CASES += [(of, rho, "all") for of in (interaction, relation, deep_sets, comm_net) for rho in BOTH_RHO]
CASES += [(of, "sum", "no globals") for of in (interaction, relation, comm_net)]
CASES += [(of, "sum", "no edge data") for of in (relation, deep_sets, comm_net)]
CASES += [(deep_sets, "sum", "no edges")]


@every_form
@pytest.mark.parametrize(("of", "rho", "features"), CASES)
def test_a_network_equals_its_parts_applied_in_order(of, rho, features, form):
    graph = four(globals_=features != "no globals", edges=features != "no edge data")
    if features == "no edges":
        graph = graphs([], [], edges=False)
    made = of(rho)
    after, listed = assert_agrees(made, graph, form)
    if made.phi_v is same_v:
        assert_identical(after.v, listed.v)
    if made.phi_u is same_u and listed.u is not None:
        assert_identical(after.u, listed.u)


@pytest.mark.parametrize("form", ["edge list", "materialized"])
@pytest.mark.parametrize("of", [interaction, relation, deep_sets])
def test_a_network_equals_its_parts_for_odd_graphs(of, form):
    assert_agrees(of("sum"), odd(), form)


@every_form
def test_independent_updates_of_edges_nodes_and_u(form):
    """jraph's GraphMapFeatures, graph_nets' GraphIndependent: each has its own features, gradients as well."""
    maps = [linear(3, (d,), seed=d) for d in (E, V, U)]
    made = parts(
        lambda e, _r, _s, _u: maps[0](e),
        lambda _ebar, v, _u: maps[1](v),
        lambda _ebar, _vbar, u: maps[2](u),
        heads=(1, 3),
        v_width=3,
    )
    graph = four(gradients=True)
    after, _ = assert_agrees(made, graph, form)
    dense_order = form == "dense"
    listed = graph.to_dense().to_edge_list() if dense_order else graph
    for found, of, mapping in zip((after.e, after.v, after.u), (listed.e, listed.v, listed.u), maps, strict=True):
        assert_close(found, mapping(of))
    inputs = graph.e, graph.v, graph.u
    for output, own in zip((after.e, after.v, after.u), inputs, strict=True):
        found = torch.autograd.grad(output.sum(), inputs, materialize_grads=True, allow_unused=True, retain_graph=True)
        assert [bool(x.any()) for x in found] == [x is own for x in inputs]


@every_form
def test_attention_to_self_loops_only_returns_the_values(form):
    """jraph's GAT: three heads that copy the node, logits that allow no edge but the loop, their mean."""
    loops = [(0, 0), (1, 1), (2, 2)]
    graph = graphs(loops + CHAIN, loops + IN, loops + ONE)
    graph = graph.replace(
        e=torch.where(graph.sender == graph.receiver, 0.0, -1e10).to(F64)[:, None].expand(-1, 3), u=None
    )
    phi_e: Any = double(AttentionEdgeUpdate(V, 3, V, 3, edge_roles=("logits",)))
    with torch.no_grad():
        phi_e.w_v.weight.copy_(torch.eye(V).repeat(3, 1))
    net: Any = GraphNetBlock(
        V, 1, 3, phi_e=phi_e, join=nn.Identity(), phi_v=lambda ebar, _: ebar.unflatten(-1, (3, V)).mean(-2)
    )
    net.norm_v = nn.Identity()
    assert_close(of_form(net, graph, form).v, graph.v)


# graph_nets: what each part is given. True for what it uses of (e, receiver, sender, u), of nodes, of the graph.

EDGE_OPTIONS = [
    (True, True, True, True),
    (True, False, False, False),
    (False, True, False, False),
    (False, False, True, False),
    (False, False, False, True),
    (True, False, True, False),
    (False, True, False, True),
]


@every_form
@pytest.mark.parametrize("use", EDGE_OPTIONS)
def test_the_edge_update_with_some_of_its_inputs(use, form):
    made = parts(linear(10, (E, V, V, U), use), heads=(2, 5))
    after, listed = assert_agrees(made, four(), form)
    assert_identical(after.v, listed.v)
    assert_identical(after.u, listed.u)


def reduced_into(name, each, into, count):
    """One rho of algorithm 1 for each of `count` nodes or graphs, over the rows of `each` that belong to it."""
    rho = reduced(name, each.shape[-1])
    return torch.stack([rho([x for x, to in zip(each, into.tolist(), strict=True) if to == i]) for i in range(count)])


def over_edges(name):
    """A rho over the edges into nodes, or over those out of them in the reversed graph."""

    def rho(graph, each):
        return {
            "sum": lambda: graph.sum_edges(each),
            "mean": lambda: graph.sum_edges(each) / graph.count_edges().clamp_min(1).unsqueeze(-1),
            "max": lambda: graph.max_edges(each),
            "min": lambda: -graph.max_edges(-each),
        }[name]()

    return rho


def received_and_sent(received, sent):
    """A rho_ev that concatenates the edges into a node and those out of it; either name may be None."""

    def rho_ev(messages):
        graph, each = messages.graph, messages.per_edge().flatten(-2)
        if isinstance(graph, DenseGraph):
            turned, back = graph.replace(edge_mask=graph.edges.mT), each.transpose(1, 2)
        else:
            turned, back = graph.replace(sender=graph.receiver, receiver=graph.sender), each
        sides = ((received, graph, each), (sent, turned, back))
        return torch.cat([over_edges(name)(g, x) for name, g, x in sides if name], -1)

    return rho_ev


NODE_OPTIONS: list[tuple[str | None, str | None, bool, bool]] = [
    ("sum", "mean", True, True),
    ("max", None, False, False),
    (None, "min", False, False),
    (None, None, True, False),
    (None, None, False, True),
    ("min", None, True, False),
    (None, "max", False, True),
    ("sum", None, False, False),
    (None, "sum", False, False),
]


@every_form
@pytest.mark.parametrize(("received", "sent", "nodes", "globals_"), NODE_OPTIONS)
def test_the_node_update_with_some_of_its_inputs(received, sent, nodes, globals_, form):
    reducers = [name for name in (received, sent) if name]
    f = linear(10, (E * max(1, len(reducers)), V, U), (bool(reducers), nodes, globals_))
    rho_ev = received_and_sent(received, sent) if reducers else "sum"
    net = block(parts(phi_v=f), rho_ev=rho_ev)
    graph = four().to_dense().to_edge_list()
    after = of_form(net, graph, form)
    ends = ((received, graph.receiver), (sent, graph.sender))
    sides = [reduced_into(name, graph.e, end, len(graph.v)) for name, end in ends if name]
    expected = f(
        torch.cat(sides, -1) if sides else graph.e.new_zeros(len(graph.v), E),
        graph.v,
        graph.broadcast_to_nodes(graph.u),
    )
    assert_close(after.v, expected)
    assert_identical(after.e, graph.e)
    assert_identical(after.u, graph.u)


GLOBAL_OPTIONS = [
    ((True, True, True), "sum", "mean"),
    ((True, False, False), "max", "sum"),
    ((False, True, False), "sum", "min"),
    ((False, False, True), "sum", "sum"),
    ((True, True, False), "min", "max"),
    ((False, True, True), "sum", "min"),
    ((True, False, False), "sum", "sum"),
    ((False, True, False), "sum", "sum"),
    ((False, True, False), "sum", "max"),
]
OF_GRAPH = {
    "min": {
        "rho_eu": lambda messages: -messages.graph.max_all_edges(-messages.per_edge().flatten(-2)),
        "rho_vu": lambda v, graph: -graph.max_nodes(-v),
    }
}


@every_form
@pytest.mark.parametrize(("use", "of_edges", "of_nodes"), GLOBAL_OPTIONS)
def test_the_global_update_with_some_of_its_inputs(use, of_edges, of_nodes, form):
    f = linear(10, (E, V, U), use)
    own = {name: OF_GRAPH.get(rho, {}).get(name, rho) for name, rho in (("rho_eu", of_edges), ("rho_vu", of_nodes))}
    net = block(parts(phi_u=f), **own)
    graph = four().to_dense().to_edge_list()
    after = of_form(net, graph, form)
    ebar = reduced_into(of_edges, graph.e, graph.node_graph[graph.receiver], 4)
    vbar = reduced_into(of_nodes, graph.v, graph.node_graph, 4)
    assert_close(after.u, f(ebar, vbar, graph.u))
    assert_identical(after.e, graph.e)
    assert_identical(after.v, graph.v)


@every_form
def test_every_update_gets_the_features_of_the_one_before_it(form):
    """graph_nets' sizes of variables: each update gets its inputs with the sizes of the previous outputs."""
    seen = {}

    def noting(name, out, widths):
        f = linear(out, widths)

        def g(*xs):
            seen[name] = [x.shape[-1] for x in xs]
            return f(*xs)

        return g

    made = parts(
        noting("edges", 5, (E, V, V, U)),
        noting("nodes", 10, (5, V, U)),
        noting("u", 15, (5, 10, U)),
        heads=(1, 5),
        v_width=10,
    )
    after = of_form(block(made), four(), form)
    assert seen == {"edges": [E, V, V, U], "nodes": [5, V, U], "u": [5, 10, U]}
    assert (after.e.shape[-1], after.v.shape[-1], after.u.shape[-1]) == (5, 10, 15)


# graph_nets: features that are missing, other numbers of graphs, other types of numbers.


@every_form
@pytest.mark.parametrize("missing", ["edge data", "globals"])
def test_missing_features_that_a_part_reads_raise(missing, form):
    net = double(GraphNetBlock(V, 1, E, U))
    graph = four(edges=missing != "edge data", globals_=missing != "globals")
    with pytest.raises(ValueError, match="the graph has 0 features in " + ("e" if missing == "edge data" else "u")):
        of_form(net, graph, form)


@every_form
@pytest.mark.parametrize(("part", "use"), [("phi_v", (True, True, True)), ("phi_u", (False, False, True))])
def test_a_custom_part_that_reads_u_fails_without_u(part, use, form):
    made = replace(parts(), **{part: linear(10, (E, V, U), use)})
    with pytest.raises((TypeError, ValueError)):
        of_form(block(made), four(globals_=False), form)


@every_form
@pytest.mark.parametrize("part", ["phi_e", "phi_v", "phi_u"])
@pytest.mark.parametrize("missing", ["edge data", "globals"])
def test_features_that_a_part_does_not_use_can_be_missing(missing, part, form):
    """The part uses all inputs but the missing one; without e, e' is computed from nodes."""
    edges = missing != "edge data"
    of_edge = {
        "phi_e": linear(E, (E, V, V, U), (edges, True, True, not edges)),
        "heads": (1, E),
    }
    made = parts(**of_edge)
    if part == "phi_v":
        made = replace(made, phi_v=linear(10, (E, V, U), (edges, True, not edges)), v_width=10)
    if part == "phi_u":
        made = replace(made, phi_u=linear(10, (E, V, U), (edges, True, not edges)))
    assert_agrees(made, four(edges=edges, globals_=not edges), form)


@every_form
@pytest.mark.parametrize("part", ["all", "phi_e", "phi_v", "phi_u"])
def test_a_block_takes_any_number_of_graphs(part, form):
    linear_of = full("sum")
    made = linear_of if part == "all" else parts()
    if part == "phi_e":
        made = replace(made, phi_e=linear_of.phi_e, heads=linear_of.heads)
    if part == "phi_v":
        made = replace(made, phi_v=linear(10, (E, V, U)), v_width=10)
    if part == "phi_u":
        made = replace(made, phi_u=linear(10, (E, V, U)))
    net = block(made)
    for graph in (four(), graphs(CHAIN, ONE)):
        after = of_form(net, graph, form)
        assert [len(x) for x in (after.e, after.v, after.u)] == [len(x) for x in (graph.e, graph.v, graph.u)]


@every_form
@pytest.mark.parametrize("rho", ["sum", "mean", "max"])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtypes_of_features_and_indices_are_kept(dtype, index, rho, form):
    torch.manual_seed(0)
    net: Any = GraphNetBlock(V, 1, E, U, global_aggr=rho, rho_ev=rho, edges=lambda _, e: 2 * e).to(dtype)
    graph = four()
    graph = graph.replace(
        **{name: getattr(graph, name).to(index) for name in ("sender", "receiver", "node_graph")},
        **{name: getattr(graph, name).to(dtype) for name in ("v", "e", "u")},
    )
    after = of_form(net, graph, form)
    assert {x.dtype for x in after.tensors()} == {dtype}
    if form != "dense":
        out, _ = net.forward_with_messages(graph)
        assert out.sender.dtype == out.receiver.dtype == index


# graph_nets: what the parts are made of.


def test_broadcasts_of_nodes_and_u():
    graph = graphs(CHAIN, ONE)
    dense = graph.to_dense()
    at_edges = dense.edges.nonzero(as_tuple=True)
    of_graph = [[0, 0, 1], [0, 0, 0, 1, 1, 1]]
    assert_identical(graph.gather_senders(graph.v), graph.v[[0, 1, 4]])
    assert_identical(graph.gather_receivers(graph.v), graph.v[[1, 2, 5]])
    assert_identical(graph.gather_receivers(graph.broadcast_to_nodes(graph.u)), graph.u[of_graph[0]])
    assert_identical(graph.broadcast_to_nodes(graph.u), graph.u[of_graph[1]])
    shape = (*dense.edges.shape, -1)
    assert_identical(dense.gather_senders(dense.v).expand(shape)[at_edges], graph.v[[0, 1, 4]])
    assert_identical(dense.gather_receivers(dense.v).expand(shape)[at_edges], graph.v[[1, 2, 5]])
    assert_identical(
        dense.gather_receivers(dense.broadcast_to_nodes(dense.u)).expand(shape)[at_edges], graph.u[of_graph[0]]
    )
    assert_identical(dense.broadcast_to_nodes(dense.u).expand(-1, 3, -1)[dense.node_mask], graph.u[of_graph[1]])


@pytest.mark.parametrize(("name", "expected"), [("max", [0, 5, 7, 6, 0]), ("min", [0, 5, 2, -3, 0])])
def test_maxima_and_minima_of_empty_groups_are_zero(name, expected):
    """Groups of no, one, two, three and again no elements, as edges into nodes and as nodes of graphs."""
    x = torch.tensor([5, 2, 7, 6, -3, 1], dtype=F64).unsqueeze(-1)
    x = torch.cat([x, -x], -1)
    into = torch.tensor([1, 2, 2, 3, 3, 3])
    sign = 1 if name == "max" else -1
    other = [0, 5, 2, -3, 0] if name == "max" else [0, 5, 7, 6, 0]
    wanted = torch.tensor([expected, [-y for y in other]], dtype=F64).T
    of_edges = Graph(torch.zeros(5, 1, dtype=F64), into, into, torch.zeros(5, dtype=torch.long), 1)
    of_nodes = Graph(x, into[:0], into[:0], into, 5)
    assert_identical(sign * of_edges.max_edges(sign * x), wanted)
    assert_identical(sign * of_nodes.max_nodes(sign * x), wanted)


@every_form
@pytest.mark.parametrize("stripped", [False, True])
def test_sums_of_edges_and_nodes_into_nodes_and_graphs(stripped, form):
    """Sums of small integers, also for graphs without other features than those that are summed."""
    graph = graphs(CHAIN, ONE, OUT, IN)
    if form == "dense":
        graph = graph.to_dense().to_edge_list()
    m = len(graph.sender)
    numbers = torch.arange(1.0, m + 1, dtype=F64).unsqueeze(-1)  # edge k has k + 1
    received, sent = torch.zeros(12, 1, dtype=F64), torch.zeros(12, 1, dtype=F64)
    of_graph = torch.zeros(4, 1, dtype=F64)
    for k, (s, r) in enumerate(zip(graph.sender.tolist(), graph.receiver.tolist(), strict=True)):
        received[r] += k + 1
        sent[s] += k + 1
        of_graph[r // 3] += k + 1
    if stripped:
        # One edge of each pair of nodes: its number is looked up by its nodes, because there is no e.
        table = torch.zeros(12, 12, dtype=F64)
        table[graph.receiver, graph.sender] = numbers.squeeze(-1)
        graph = graph.replace(v=torch.arange(12, dtype=F64).unsqueeze(-1), e=None, u=None)
        phi_e = OfEachEdge(lambda _e, r, s, _u: table[r.long(), s.long()], 1, 1)
    else:
        graph = graph.replace(e=numbers)
        phi_e = OfEachEdge(lambda e, _r, _s, _u: e, 1, 1)
    given = graph.to_dense() if form == "dense" else graph
    messages = phi_e.materialize(given) if form == "materialized" else phi_e(given)

    def at_nodes(x):
        return x[given.node_mask] if isinstance(given, DenseGraph) else x

    assert_identical(at_nodes(sum_edges(messages)), received)
    assert_identical(at_nodes(received_and_sent(None, "sum")(messages)), sent)
    assert_identical(sum_all_edges(messages), of_graph)
    assert_close(sum_nodes(given.v, given), graph.v.view(4, 3, -1).sum(1))


LOGITS = [[math.log(3), 0.0], [0.0, 0.0], [0.0, math.log(2)], [math.log(2), 0.0], [math.log(5), 7.0]]
INTO = [0, 0, 2, 2, 3]
SOFTMAX = [[3 / 4, 1 / 2], [1 / 4, 1 / 2], [1 / 3, 2 / 3], [2 / 3, 1 / 3], [1.0, 1.0]]


@pytest.mark.parametrize("columns", [slice(0, 1), slice(0, 2)])
def test_weights_are_a_softmax_over_the_edges_into_a_node(columns):
    into = torch.tensor(INTO)
    logits, wanted = (torch.tensor(x, dtype=F64)[:, columns] for x in (LOGITS, SOFTMAX))
    assert_close(softmax(logits, EdgeListLayout(torch.zeros_like(into), into, 5)), wanted)


@pytest.mark.parametrize("num_heads", [1, 2])
@every_form
def test_the_weights_of_an_edge_update_are_a_softmax_over_the_edges_into_a_node(num_heads, form):
    sender = torch.tensor([1, 2, 0, 1, 3])
    logits, wanted = (torch.tensor(x, dtype=F64)[:, :num_heads] for x in (LOGITS, SOFTMAX))
    v = torch.zeros(5, V, dtype=F64)
    graph = Graph(v, sender, torch.tensor(INTO), torch.zeros(5, dtype=torch.long), 1, logits)
    phi_e = AttentionEdgeUpdate(V, num_heads, 1, num_heads, edge_roles=("logits",)).to(F64)
    net: Any = GraphNetBlock(V, 1, num_heads, phi_e=phi_e).to(F64)
    assert_close(of_form(net, graph, form).weights, wanted)


@every_form
def test_attention_averages_the_values_of_the_senders(form):
    """Two heads with known queries, keys and values; zeros without senders, with one sender its value."""
    q = torch.zeros(5, 2, 2, dtype=F64)
    k = torch.zeros(5, 2, 2, dtype=F64)
    v = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [5.0, 50.0]], dtype=F64)
    v = torch.stack([v, -v], 1)  # (n, h, d)
    q[4] = torch.tensor([[math.log(2), 0], [0, math.log(4)]], dtype=F64)
    k[1:4] = torch.tensor([[[1.0, 0], [0, 0]], [[0, 0], [0, 1.0]], [[0, 0], [0, 0]]], dtype=F64)
    edges = [(0, 1), (1, 4), (2, 4), (3, 4)]
    sender, receiver = torch.tensor(edges).T
    x = torch.cat([q, k, v], -1).flatten(1)  # by head: q, k, v
    graph = Graph(x, sender, receiver, torch.zeros(5, dtype=torch.long), 1)
    phi_e: Any = AttentionEdgeUpdate(12, 2, 2, score="dot").to(F64)
    with torch.no_grad():
        for p, layer in enumerate((phi_e.w_q, phi_e.w_k, phi_e.w_v)):
            layer.weight.zero_()
            for h, c in ((0, 0), (0, 1), (1, 0), (1, 1)):
                layer.weight[2 * h + c, 6 * h + 2 * p + c] = 1.0
    net: Any = GraphNetBlock(12, 2, phi_e=phi_e, join=nn.Identity(), phi_v=lambda ebar, _: ebar)
    net.norm_v = nn.Identity()
    expected = torch.zeros(5, 2, 2, dtype=F64)
    expected[1] = v[0]
    first = (2 * 2 + 3 + 4) / 4  # weights 1/2, 1/4, 1/4
    second = -(2 + 4 * 3 + 4) / 6  # weights 1/6, 4/6, 1/6
    expected[4] = torch.tensor([[first, 10 * first], [second, 10 * second]], dtype=F64)
    assert_close(of_form(net, graph, form).v, expected.flatten(1))
