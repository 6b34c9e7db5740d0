"""GraphNetBlock: the six equations, and invariance to order, padding and batch."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from molattn.graph import (
    AttentionEdgeUpdate,
    DenseGraph,
    EdgeMessages,
    GraphNetBlock,
    max_all_edges,
    max_nodes,
    mean_nodes,
)
from molattn.graph.messages import LazyEdgeMessages
from tests.assertions import assert_close, assert_identical, few_examples
from tests.graph.graphs import (
    EDGE_DIM,
    F64,
    FORMS,
    GLOBAL_DIM,
    NODE_DIM,
    double,
    gradcheck,
    inputs_of,
    one_of,
    permuted,
    random_graphs,
    through,
)

SIZES = [4, 1, 3, 1, 5]
with_or_without_edges = pytest.mark.parametrize("edges", [True, False])
with_or_without_u = pytest.mark.parametrize("globals_", [True, False])


def block(edges=True, globals_=True, global_aggr="sum", heads=2, dropout=0.0):
    return double(
        GraphNetBlock(
            NODE_DIM,
            heads,
            EDGE_DIM if edges else 0,
            GLOBAL_DIM if globals_ else 0,
            hidden_dim=6,
            global_aggr=global_aggr,
            dropout=dropout,
        )
    )


def by_hand(net, graph, global_aggr):
    """The six equations for one graph, given as an edge list, one node and one edge at a time."""
    v, e, u = graph.v, graph.e, graph.u
    n, h, d = len(v), net.phi_e.num_heads, net.phi_e.head_dim
    normed = [net.norm_v(v[i]) for i in range(n)]
    normed_u = net.norm_u(u[0]) if u is not None else None

    def project(of_node, of_edge, of_graph, i, k=None):
        x = of_node(normed[i])
        if of_edge is not None and k is not None:
            x = x + of_edge(e[k])
        return (x if of_graph is None else x + of_graph(normed_u)).view(h, d)

    phi = net.phi_e
    messages, after = [], []
    for i in range(n):
        incoming = [k for k in range(len(graph.sender)) if graph.receiver[k] == i]
        heads = torch.zeros(h, d, dtype=F64)
        if incoming:
            q = project(phi.w_q, None, phi.w_qu, i)
            keys = [project(phi.w_k, phi.w_ke, phi.w_ku, int(graph.sender[k]), k) for k in incoming]
            values = [project(phi.w_v, phi.w_ve, phi.w_vu, int(graph.sender[k]), k) for k in incoming]
            logits = torch.stack([(q * key).sum(-1) / d**0.5 for key in keys])
            if phi.w_be is not None:
                logits = logits + torch.stack([phi.w_be(e[k]) for k in incoming])
            for w, value in zip(logits.softmax(0), values, strict=True):  # 1. e'_k
                messages.append(w.unsqueeze(-1) * value)
                heads = heads + messages[-1]
        ebar_i = net.join.linear(heads.flatten())  # 2. ebar'_i
        x = v[i] + ebar_i
        if u is not None:
            x = x + net.phi_v.w_u(u[0])
        first, last = net.phi_v.feed_forward[0], net.phi_v.feed_forward[-1]
        after.append(x + last(F.gelu(first(net.phi_v.norm(x)))))  # 3. v'_i
    if u is None:
        return torch.stack(after), None
    rho = {"sum": sum, "mean": lambda xs: sum(xs) / len(xs), "max": lambda xs: torch.stack(xs).amax(0)}[global_aggr]
    ebar = rho([e_k.flatten() for e_k in messages]) if messages else torch.zeros(h * d, dtype=F64)  # 4. ebar'
    vbar = rho(after)  # 5. vbar'
    norm, first, _, last = net.phi_u.feed_forward
    together = torch.cat([ebar, vbar, u[0]])
    return torch.stack(after), u + last(F.gelu(first(norm(together))))  # 6. u'


@with_or_without_edges
@with_or_without_u
@pytest.mark.parametrize("global_aggr", ["sum", "mean", "max"])
@pytest.mark.parametrize(("size", "density"), [(4, None), (4, 0.4), (4, 0.0), (1, None)])
def test_the_six_equations(edges, globals_, global_aggr, size, density):
    net = block(edges, globals_, global_aggr)
    graph = random_graphs([size], edges=edges, globals_=globals_, density=density)
    v, u = by_hand(net, graph.to_edge_list(), global_aggr)
    for after in (net(graph.to_edge_list()), net.materialize(graph)[0]):
        assert_close(after.v, v)
        if u is None:
            assert after.u is None
        else:
            assert_close(after.u, u)
    assert_close(net(graph).v[0], v)


@with_or_without_edges
@with_or_without_u
@pytest.mark.parametrize("density", [None, 0.4, 0.0])
@pytest.mark.parametrize("global_aggr", ["sum", "mean", "max"])
def test_materialized_edge_list_and_dense_are_the_same_values_and_gradients(edges, globals_, density, global_aggr):
    net = block(edges, globals_, global_aggr)
    graph = random_graphs(SIZES, edges=edges, globals_=globals_, density=density, requires_grad=True)
    dense, sparse, materialized = net(graph), net(graph.to_edge_list()), net.materialize(graph)[0]
    results = [(dense.v[graph.node_mask], dense.u), (sparse.v, sparse.u), (materialized.v, materialized.u)]
    learned = [*net.parameters(), *inputs_of(graph)]
    gradients = []
    for v, u in results:
        assert_close(v, results[0][0])
        if globals_:
            assert_close(u, results[0][1])
        loss = v.sin().sum() + (u.cos().sum() if globals_ else 0)
        gradients.append(torch.autograd.grad(loss, learned))
    for by_dense, by_list, by_materialized in zip(*gradients, strict=True):
        assert by_dense.isfinite().all()
        assert_close(by_list, by_dense)
        assert_close(by_materialized, by_dense)


@few_examples
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from([None, 0.3, 0.8]), st.integers(0, 999))
def test_materialized_edge_list_and_dense_are_the_same_for_graphs_of_any_sizes(sizes, density, seed):
    net = block()
    graph = random_graphs(sizes, density=density, seed=seed)
    dense, sparse, materialized = net(graph), net(graph.to_edge_list()), net.materialize(graph)[0]
    for other in (sparse, materialized):
        assert_close(other.v, dense.v[graph.node_mask])
        assert_close(other.u, dense.u)


@with_or_without_edges
@pytest.mark.parametrize("density", [None, 0.5])
def test_a_dense_block_is_equivariant_to_the_order_of_nodes_and_u_invariant(edges, density):
    net = block(edges)
    graph = random_graphs([5, 3], edges=edges, density=density)
    order = torch.tensor([2, 0, 4, 1, 3])
    (after, messages), (after_permuted, messages_permuted) = (
        net.forward_with_messages(graph),
        net.forward_with_messages(permuted(graph, order)),
    )
    real = graph.node_mask[:, order]
    assert_close(after_permuted.v[real], after.v[:, order][real])
    assert_close(after_permuted.u, after.u)
    assert_close(messages_permuted.weights, messages.weights[:, :, order][..., order])


@pytest.mark.parametrize("density", [None, 0.5])
def test_an_edge_list_block_is_equivariant_to_the_order_of_nodes_and_invariant_to_that_of_edges(density):
    net = block()
    graph = random_graphs([5, 3], density=density).to_edge_list()
    g = torch.Generator().manual_seed(1)
    nodes, edges = torch.randperm(8, generator=g), torch.randperm(len(graph.sender), generator=g)
    renamed = nodes.argsort()  # node i is called renamed[i] afterwards
    other = graph.replace(
        v=graph.v[nodes],
        node_graph=graph.node_graph[nodes],
        sender=renamed[graph.sender][edges],
        receiver=renamed[graph.receiver][edges],
        e=graph.e[edges],
    )
    (after, messages), (after_other, messages_other) = (
        net.forward_with_messages(graph),
        net.forward_with_messages(other),
    )
    assert_close(after_other.v, after.v[nodes])
    assert_close(after_other.u, after.u)
    assert_close(messages_other.weights, messages.weights[edges])
    assert_close(net.materialize(other)[0].v, after.v[nodes])


@with_or_without_edges
@pytest.mark.parametrize("density", [None, 0.5])
def test_a_batch_gives_the_same_outputs_as_its_graphs_one_by_one(edges, density):
    net = block(edges)
    batch = random_graphs(SIZES, edges=edges, density=density)
    after, messages = net.forward_with_messages(batch)
    for b, n in enumerate(SIZES):
        single, single_messages = net.forward_with_messages(one_of(batch, b))
        assert_close(after.v[b, :n], single.v[0])
        assert_close(after.u[b], single.u[0])
        assert_close(messages.weights[b, :, :n, :n], single_messages.weights[0])


@pytest.mark.parametrize("density", [None, 0.5])
def test_padding_to_a_larger_size_changes_nothing(density):
    net = block()
    graph = random_graphs([4, 2], density=density)
    wider = DenseGraph(
        F.pad(graph.v, (0, 0, 0, 3), value=7.0),
        F.pad(graph.node_mask, (0, 3)),
        F.pad(graph.e, (0, 0, 0, 3, 0, 3), value=-7.0),
        graph.u,
        None if graph.edge_mask is None else F.pad(graph.edge_mask, (0, 3, 0, 3)),
    )
    after, after_wider = net(graph), net(wider)
    assert_close(after_wider.v[:, :4][graph.node_mask], after.v[graph.node_mask])
    assert_close(after_wider.u, after.u)


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e30])
def test_values_of_padded_nodes_change_nothing_bit_for_bit(garbage):
    net = block()
    graph = random_graphs([4, 2])
    padding = ~graph.node_mask.unsqueeze(-1)
    clean = net(graph.replace(v=graph.v.masked_fill(padding, 0.0)))
    dirty = net(graph.replace(v=graph.v.masked_fill(padding, garbage)))
    assert_identical(dirty.v[graph.node_mask], clean.v[graph.node_mask])
    assert_identical(dirty.u, clean.u)


def test_values_of_padded_pairs_change_neither_outputs_nor_gradients_bit_for_bit():
    net = block()
    graph = random_graphs([4, 2])
    results = []
    for fill in (0.0, 1e3, -5.0):
        v = graph.v.masked_fill(~graph.node_mask.unsqueeze(-1), fill).requires_grad_()
        e = graph.e.masked_fill(~graph.edges.unsqueeze(-1), fill).requires_grad_()
        after = net(graph.replace(v=v, e=e))
        loss = after.v[graph.node_mask].sin().sum() + after.u.cos().sum()
        gradients = torch.autograd.grad(loss, [v, e, *net.parameters()])
        assert (gradients[0][~graph.node_mask] == 0).all()
        assert (gradients[1][~graph.edges] == 0).all()
        results.append([after.v[graph.node_mask], after.u, *gradients])
    for first, *others in zip(*results, strict=True):
        for other in others:
            assert_identical(other, first)


def test_an_isolated_node_is_updated_from_itself_only():
    net = block()
    graph = random_graphs([4, 3], density=0.5)  # no edge reaches the first node
    after = net(graph)
    assert after.v[graph.node_mask].isfinite().all()
    stirred = graph.v.clone()
    stirred[0, 1:] += 1.0
    assert_close(net(graph.replace(v=stirred)).v[0, 0], after.v[0, 0])
    assert_close(net.phi_v(net.join(torch.zeros_like(graph.v)), graph)[0, 0], after.v[0, 0])


def test_a_block_returns_edges_masks_and_form_unchanged():
    net = block()
    dense = random_graphs([3, 2], density=0.5)
    after = net(dense)
    assert isinstance(after, DenseGraph)
    assert after.e is dense.e and after.node_mask is dense.node_mask and after.edge_mask is dense.edge_mask
    listed = dense.to_edge_list()
    after = net(listed)
    assert after.e is listed.e and after.sender is listed.sender and after.num_graphs == 2


def test_blocks_can_be_stacked_in_any_form():
    first, second = block(), double(block(), seed=1)
    graph = random_graphs(SIZES)
    dense = second(first(graph))
    listed = second(first(graph.to_edge_list()))
    assert_close(listed.v, dense.v[graph.node_mask])
    assert_close(listed.u, dense.u)


def test_global_aggr_sets_rho_eu_and_rho_vu():
    net = block(global_aggr="max")
    assert (net.rho_eu, net.rho_vu) == (max_all_edges, max_nodes)
    with pytest.raises(ValueError, match="unknown aggregation 'median': choose one of sum, mean, max"):
        block(global_aggr="median")


def test_a_function_as_global_aggr_raises_and_the_message_names_rho_vu():
    start = inspect.unwrap(GraphNetBlock.__init__)  # without the tests' check of types, which would raise first
    with pytest.raises(TypeError, match="^global_aggr is a name: pass a function of nodes as rho_vu"):
        start(GraphNetBlock.__new__(GraphNetBlock), 8, 2, global_dim=5, global_aggr=mean_nodes)


@pytest.mark.parametrize("form", ["dense", "edge list"])
@pytest.mark.parametrize("global_aggr", ["sum", "mean"])
def test_a_sum_or_mean_of_the_edges_forms_none_and_computes_the_sum_once(global_aggr, form, monkeypatch):
    """Weights and values are summed as factors; rho_ev and rho_eu share the sum."""
    sums, by = [], LazyEdgeMessages._compute_sum
    monkeypatch.setattr(LazyEdgeMessages, "_compute_sum", lambda messages: sums.append(messages) or by(messages))
    monkeypatch.setattr(EdgeMessages, "per_edge", lambda _: pytest.fail("every e'_k was formed"))
    through(block(global_aggr=global_aggr), random_graphs([4, 2], density=0.6), form)
    assert len(sums) == 1


@pytest.mark.parametrize("global_aggr", ["sum", "mean", "max"])
@pytest.mark.parametrize("form", FORMS)
def test_an_isolated_node_adds_nothing_to_the_aggregated_edges_of_its_graph(global_aggr, form):
    """Mean and maximum are over edges: not even the bias of the join comes from such a node."""
    net, seen = block(global_aggr=global_aggr), []
    net.phi_u.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    graph = random_graphs([4], density=1.0)
    graph.edge_mask[0, :, 0] = False  # no edge reaches the first node, and now none leaves it
    rest = DenseGraph(graph.v[:, 1:], graph.node_mask[:, 1:], graph.e[:, 1:, 1:], graph.u)
    for one in (graph, rest):
        through(net, one, form)
    assert_close(seen[0], seen[1])


@pytest.mark.parametrize("global_aggr", ["sum", "mean", "max"])
@pytest.mark.parametrize("form", FORMS)
def test_the_aggregated_edges_of_a_graph_without_edges_are_zeros(global_aggr, form):
    net, seen = block(global_aggr=global_aggr), []
    net.phi_u.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    through(net, random_graphs([3, 1], density=0.0), form)
    assert (seen[0] == 0).all() and seen[0].shape == (2, NODE_DIM)


@pytest.mark.parametrize("global_aggr", ["sum", "mean", "max"])
@pytest.mark.parametrize("form", FORMS)
def test_graphs_without_nodes_are_updated_alone_as_in_a_batch(global_aggr, form):
    net = block(global_aggr=global_aggr)
    single, batch = random_graphs([0]), random_graphs([3, 0])
    batch = batch.replace(u=batch.u[:1].expand(2, -1))
    assert through(net, single, form).v.shape == (0, NODE_DIM)
    assert_close(through(net, single.replace(u=batch.u[:1]), form).u, through(net, batch, form).u[1:])


def test_heads_that_do_not_divide_the_channels_raise():
    with pytest.raises(ValueError, match="3 heads"):
        GraphNetBlock(NODE_DIM, num_heads=3)


def test_the_join_has_the_heads_of_the_edge_update():
    net = GraphNetBlock(16, 4, phi_e=AttentionEdgeUpdate(16, 2, 3))
    assert net.join.linear.in_features == 6
    net = GraphNetBlock(16, 4, global_dim=5, phi_e=AttentionEdgeUpdate(16, 2, 3, global_dim=5))
    assert net.phi_u.feed_forward[0].normalized_shape == (6 + 16 + 5,)


def test_hidden_dim_is_twice_node_dim_by_default():
    net = GraphNetBlock(NODE_DIM, num_heads=2, global_dim=GLOBAL_DIM)
    assert net.phi_v.feed_forward[0].out_features == 2 * NODE_DIM
    assert net.phi_u.feed_forward[1].out_features == 2 * NODE_DIM
    assert block().phi_v.feed_forward[0].out_features == 6


class DeafToU(nn.Module):
    """An edge update that accepts graphs with and without u."""

    def __init__(self):
        super().__init__()
        self.inner = AttentionEdgeUpdate(NODE_DIM, 2, NODE_DIM // 2, EDGE_DIM)

    def forward(self, graph):
        return self.inner(graph.replace(u=None))

    def materialize(self, graph):
        return self.inner.materialize(graph.replace(u=None))


@pytest.mark.parametrize("form", FORMS)
def test_a_block_with_global_dim_0_returns_u_unchanged_if_its_edge_update_accepts_it(form):
    net = double(GraphNetBlock(NODE_DIM, 2, EDGE_DIM, phi_e=DeafToU()))
    graph = random_graphs([4, 2])
    with_u, without = through(net, graph, form), through(net, graph.replace(u=None), form)
    assert with_u.u is graph.u and without.u is None
    assert_identical(with_u.v, without.v)


@pytest.mark.parametrize("form", FORMS)
def test_graph_features_of_another_size_than_global_dim_raise(form):
    for net, globals_ in ((block(globals_=False), True), (block(), False)):
        with pytest.raises(ValueError, match="features in u, the layer was made with global_dim"):
            through(net, random_graphs([4, 2], globals_=globals_), form)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_agree_with_finite_differences(form):
    assert gradcheck(block(global_aggr="mean"), random_graphs([3, 1], requires_grad=True), form)


def test_dropout_has_no_effect_in_evaluation_and_not_on_the_returned_weights():
    net = block(dropout=0.5)
    graph = random_graphs([5, 3])
    torch.manual_seed(2)
    quiet, messages = net.eval().forward_with_messages(graph)
    assert_identical(net(graph).v[graph.node_mask], quiet.v[graph.node_mask])
    assert_close(quiet.v[graph.node_mask], block()(graph).v[graph.node_mask])
    noisy, messages_in_training = net.train().forward_with_messages(graph)
    assert_identical(messages_in_training.weights, messages.weights)
    assert (noisy.v - quiet.v)[graph.node_mask].abs().max() > 1e-3
    assert_close(messages_in_training.weights.sum(-1), graph.node_mask.unsqueeze(1).expand(-1, 2, -1).to(F64))
