"""What holds for every published block: three forms, symmetry, padding, gradients, weights, errors."""

import warnings
from dataclasses import replace

import pytest
import torch

from molattn.attention import DenseLayout
from molattn.graph import DenseGraph, Graph
from molattn.graph.blocks import BLOCKS, BlockConfig, GritEdges, GritEdgeUpdate, MixedEdgeUpdate, mat
from tests.assertions import assert_close, assert_identical
from tests.graph.blocks.cases import HEADS, NAMES, WITHOUT_U, config, edge_dim, graphs_for, make_block
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
    one_of,
    permuted,
    random_graphs,
    through,
)

SIZES = [4, 1, 3, 1, 5]
every_block = pytest.mark.parametrize("name", NAMES)
every_form = pytest.mark.parametrize("form", FORMS)
complete_or_sparse = pytest.mark.parametrize("density", [None, 0.5])


@every_block
@pytest.mark.parametrize("density", [None, 0.4, 0.0])
def test_materialized_edge_list_and_dense_are_the_same_values_and_gradients(name, density):
    net = make_block(name)
    graph = graphs_for(name, SIZES, density=density, requires_grad=True)
    learned = [*net.parameters(), *inputs_of(graph)]
    results = [through(net, graph, form) for form in FORMS]
    for of_forms in zip(*(result.tensors() for result in results), strict=True):
        for other in of_forms[1:]:
            assert_close(other, of_forms[0])
    for by_dense, by_list, by_materialized in zip(*(gradients(loss_of(r), learned) for r in results), strict=True):
        assert by_dense.isfinite().all()
        assert_close(by_list, by_dense)
        assert_close(by_materialized, by_dense)


@every_block
@complete_or_sparse
def test_a_dense_graph_is_equivariant_to_the_order_of_its_nodes(name, density):
    net = make_block(name)
    graph = graphs_for(name, [5, 3], density=density)
    order = torch.tensor([2, 0, 4, 1, 3])
    (after, messages), (other, other_messages) = (
        net.forward_with_messages(graph),
        net.forward_with_messages(permuted(graph, order)),
    )
    real, pairs = graph.node_mask[:, order], graph.edges[:, order][:, :, order]
    assert_close(other.v[real], after.v[:, order][real])
    assert_close(other.e[pairs], after.e[:, order][:, :, order][pairs])
    assert_close(other_messages.weights, messages.weights[:, :, order][..., order])
    if after.u is not None:
        assert_close(other.u, after.u)


@every_block
@complete_or_sparse
def test_an_edge_list_is_equivariant_to_the_order_of_its_nodes_and_edges(name, density):
    net = make_block(name)
    graph = graphs_for(name, [5, 3], density=density).to_edge_list()
    g = torch.Generator().manual_seed(1)
    nodes, edges = torch.randperm(8, generator=g), torch.randperm(len(graph.sender), generator=g)
    renamed = nodes.argsort()  # node i is called renamed[i] afterwards
    other = graph.replace(
        v=graph.v[nodes],
        node_graph=graph.node_graph[nodes],
        degree=graph.degree[nodes],
        sender=renamed[graph.sender][edges],
        receiver=renamed[graph.receiver][edges],
        e=graph.e[edges],
    )
    for way in (net.forward_with_messages, net.materialize):
        (after, messages), (after_other, other_messages) = way(graph), way(other)
        assert_close(after_other.v, after.v[nodes])
        assert_close(after_other.e, after.e[edges])
        assert_close(other_messages.weights, messages.weights[edges])
        if after.u is not None:
            assert_close(after_other.u, after.u)


@every_block
@complete_or_sparse
def test_a_batch_gives_the_same_outputs_as_its_graphs_one_by_one(name, density):
    net = make_block(name)
    batch = graphs_for(name, SIZES, density=density)
    after, messages = net.forward_with_messages(batch)
    for b, n in enumerate(SIZES):
        single = one_of(batch, b)
        single_after, single_messages = net.forward_with_messages(single)
        assert_close(after.v[b, :n], single_after.v[0])
        assert_close(after.e[b, :n, :n][single.edges[0]], single_after.e[single.edges])
        assert_close(messages.weights[b, :, :n, :n], single_messages.weights[0])
        if after.u is not None:
            assert_close(after.u[b], single_after.u[0])


@every_block
@complete_or_sparse
def test_values_in_the_padding_change_neither_outputs_nor_gradients_bit_for_bit(name, density):
    net = make_block(name)
    graph = graphs_for(name, [4, 2], density=density)
    results = []
    for fill in (0.0, 1e3, -5.0):
        v = graph.v.masked_fill(~graph.node_mask.unsqueeze(-1), fill).requires_grad_()
        e = graph.e.masked_fill(~graph.edges.unsqueeze(-1), fill).requires_grad_()
        after = through(net, graph.replace(v=v, e=e), "dense")
        of_v, of_e, *others = gradients(loss_of(after), [v, e, *net.parameters()])
        assert (of_v[~graph.node_mask] == 0).all()
        assert (of_e[~graph.edges] == 0).all()
        results.append([*after.tensors(), of_v, of_e, *others])
    nan = graph.v.masked_fill(~graph.node_mask.unsqueeze(-1), torch.nan)
    for ours, theirs in zip(through(net, graph.replace(v=nan), "dense").tensors(), results[0], strict=False):
        assert_identical(ours, theirs)
    for first, *others in zip(*results, strict=True):
        for other in others:
            assert_identical(other, first)


@every_block
@every_form
@pytest.mark.parametrize(("of_sizes", "density"), [([4, 3], 0.3), ([3, 1], 0.0), ([1, 1], None)])
def test_nodes_without_incoming_edges_and_graphs_of_one_node_are_finite_with_gradients(name, form, of_sizes, density):
    net = make_block(name)
    graph = graphs_for(name, of_sizes, density=density, requires_grad=True)
    after = through(net, graph, form)
    assert all(x.isfinite().all() for x in after.tensors())
    of_v, *others = gradients(loss_of(after), [graph.v, *net.parameters(), *inputs_of(graph)])
    assert of_v.isfinite().all() and all(x.isfinite().all() for x in others)
    assert (of_v[graph.node_mask].abs().amax(-1) > 0).all()


@every_block
@every_form
def test_gradients_agree_with_finite_differences(name, form):
    graph = graphs_for(name, [3, 1], density=0.7, requires_grad=True)
    assert gradcheck(make_block(name), graph, form)


def sums_into_receivers(weights, graph):
    """The sum of the weights of the edges into each node with incoming edges: (n, h)."""
    listed = graph.to_edge_list()
    return listed.sum_edges(weights)[listed.count_edges() > 0]


@every_block
@every_form
@complete_or_sparse
def test_weights_into_a_receiver_sum_to_one_where_they_are_those_of_a_softmax(name, form, density):
    graph = graphs_for(name, SIZES, density=density)
    with torch.no_grad():
        total = sums_into_receivers(through(make_block(name), graph, form).weights, graph)
    if name == "mat":
        listed = graph.to_edge_list()
        fixed = listed.sum_edges(listed.e.sum(-1, keepdim=True))[listed.count_edges() > 0]
        assert_close(total, ((1 + fixed) / 3).expand(-1, HEADS))
    else:
        assert_close(total, torch.ones_like(total))


@every_form
def test_the_weights_of_mat_sum_to_one_where_each_fixed_weight_does(form):
    lambdas = (0.5, 0.2, 0.3)
    net = double(mat(replace(config("mat"), lambdas=lambdas)))
    graph = graphs_for("mat", SIZES, density=0.5)
    # softmax(-d) over the edges into a receiver, and bonds with self-loops divided by their number.
    fixed = torch.rand(*graph.edges.shape, 2, generator=torch.Generator().manual_seed(2), dtype=F64)
    fixed = fixed.masked_fill(~graph.edges.unsqueeze(-1), 0.0)
    graph = graph.replace(e=fixed / fixed.sum(2, keepdim=True).clamp_min(1e-9))
    total = sums_into_receivers(through(net, graph, form).weights.detach(), graph)
    assert_close(total, torch.ones_like(total))
    # With g(d) = exp(-d) they sum to lambda_a + lambda_d * sum g + lambda_g.
    distance = torch.rand(graph.edges.shape, generator=torch.Generator().manual_seed(3), dtype=F64) * 5
    graph = graph.replace(e=torch.stack([torch.exp(-distance), graph.e[..., 1]], -1))
    listed = graph.to_edge_list()
    expected = 0.5 + 0.2 * listed.sum_edges(listed.e[:, :1])[listed.count_edges() > 0] + 0.3
    assert_close(sums_into_receivers(through(net, graph, form).weights.detach(), graph), expected.expand(-1, HEADS))


@every_block
@every_form
def test_dropout_has_no_effect_in_evaluation_and_drops_in_training(name, form):
    net = make_block(name, dropout=0.5)
    graph = graphs_for(name, [5, 3])
    torch.manual_seed(2)
    quiet = through(net.eval(), graph, form).tensors()
    for ours, without, again in zip(
        quiet, through(make_block(name), graph, form).tensors(), through(net, graph, form).tensors(), strict=True
    ):
        assert_identical(again, ours)
        assert_identical(ours, without)
    assert (through(net.train(), graph, form).v - quiet[0]).abs().max() > 1e-3


@every_block
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_logits_do_not_overflow(name, dtype):
    phi_e = make_block(name).phi_e.to(dtype)
    graph = graphs_for(name, [4, 2])
    huge = DenseGraph(
        (graph.v * 1e6).to(dtype),
        graph.node_mask,
        (graph.e if name == "mat" else graph.e * 1e6).to(dtype),
        None if graph.u is None else graph.u.to(dtype),
    ).replace(v=(graph.v * 1e6).to(dtype).requires_grad_())
    for messages in (phi_e(huge), phi_e(huge.to_edge_list()), phi_e.materialize(huge)):
        total = messages.sum()
        assert messages.weights.isfinite().all() and total.isfinite().all()
        assert all(x.isfinite().all() for x in gradients(total.sum() + messages.weights.sum(), [huge.v]))


@every_block
def test_incompatible_sizes_raise(name):
    with pytest.raises(ValueError, match="3 heads do not divide 8 node channels"):
        BLOCKS[name](BlockConfig(NODE_DIM, 3, edge_dim={"graphormer": 3}.get(name, edge_dim(name))))
    with pytest.raises(ValueError, match="unknown aggregation 'median'"):
        BLOCKS[name](BlockConfig(NODE_DIM, HEADS, edge_dim(name), global_aggr="median"))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("graphormer", {"edge_dim": 3}, "one channel per head: 2, not 3"),
        ("mat", {"edge_dim": 3}, "attention and 3 channels of fixed weights take 4 lambdas"),
        ("mat", {"edge_dim": 0}, "edge_dim"),
        ("rmat", {"edge_dim": 0}, "edge_dim"),
        ("grit", {"edge_dim": 0}, "edge_dim"),
        ("grit", {"edge_dim": 3, "global_dim": 5}, "set global_dim to 0"),
    ],
)
def test_sizes_that_a_block_does_not_support_raise(name, settings, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            BLOCKS[name](BlockConfig(NODE_DIM, HEADS, **settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"node_dim": 0}, "node_dim must be at least 1, not 0"),
        ({"num_heads": -1}, "num_heads must be at least 1, not -1"),
        ({"hidden_dim": 0}, "hidden_dim must be at least 1, not 0"),
        ({"edge_dim": -1}, "edge_dim must be at least 0, not -1"),
        ({"global_dim": -1}, "global_dim must be at least 0, not -1"),
        ({"dropout": 1.0}, "dropout probability must be from 0 to below 1, not 1"),
    ],
)
def test_a_config_refuses_sizes_and_a_dropout_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        BlockConfig(**{"node_dim": NODE_DIM, "num_heads": HEADS, **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"node_dim": 0}, "node_dim must be at least 1, not 0"),
        ({"num_heads": 0}, "num_heads must be at least 1, not 0"),
        ({"head_dim": -1}, "head_dim must be at least 1, not -1"),
        ({"dropout": 1.0}, "dropout probability must be from 0 to below 1, not 1"),
    ],
)
def test_the_layers_of_grit_refuse_sizes_and_a_dropout_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        GritEdgeUpdate(**{"node_dim": NODE_DIM, "num_heads": HEADS, "head_dim": 4, "edge_dim": EDGE_DIM, **settings})
    if "dropout" in settings:
        with pytest.raises(ValueError, match=message):
            GritEdges(EDGE_DIM, NODE_DIM, **settings)


@every_block
def test_features_of_another_size_than_the_blocks_raise(name):
    net, graph = make_block(name), graphs_for(name, [3, 2])
    wrong = random_graphs([3, 2], edge_dim=edge_dim(name) + 4, globals_=name not in WITHOUT_U)
    other_u = torch.zeros(2, GLOBAL_DIM, dtype=F64) if name in WITHOUT_U else None
    for way in (net, net.materialize):
        for form in (lambda g: g, DenseGraph.to_edge_list):
            with pytest.raises(ValueError, match=rf"{edge_dim(name) + 4}"):
                way(form(wrong))
            with pytest.raises(ValueError, match=rf"{edge_dim(name)}"):
                way(form(graph.replace(e=None)))
            with pytest.raises(ValueError, match="graph features|features in u"):
                way(form(graph.replace(u=other_u)))


@pytest.mark.parametrize("lambdas", [(0.5, 0.5, 0.5), (1.0, 0.0, 1e-3), (0.3, 0.3)])
def test_lambdas_that_do_not_sum_to_one_or_are_too_few_raise(lambdas):
    with pytest.raises(ValueError, match="lambdas"):
        mat(replace(config("mat"), lambdas=lambdas))
    with pytest.raises(ValueError, match="lambdas"):
        MixedEdgeUpdate(NODE_DIM, HEADS, 4, edge_dim=2, lambdas=lambdas)


@pytest.mark.parametrize("name", ["molattn", "tensor-dot", "gaan", "graphormer"])
def test_blocks_with_optional_edge_features_work_without_them(name):
    net = double(BLOCKS[name](BlockConfig(NODE_DIM, HEADS, global_dim=GLOBAL_DIM)))
    graph = random_graphs(SIZES, edges=False, density=0.6)
    results = [through(net, graph, form).tensors() for form in FORMS]
    for of_forms in zip(*results, strict=True):
        for other in of_forms[1:]:
            assert_close(other, of_forms[0])


@every_block
def test_only_grit_updates_its_edge_features(name):
    net, graph = make_block(name), graphs_for(name, [3, 2])
    for either in (graph, graph.to_edge_list()):
        assert (net(either).e is either.e) == (name != "grit")


@every_block
def test_blocks_can_be_stacked_in_any_form(name):
    first, second = make_block(name), double(BLOCKS[name](config(name)), seed=1)
    graph = graphs_for(name, SIZES, density=0.6)
    dense, listed = second(first(graph)), second(first(graph.to_edge_list()))
    materialized = second.materialize(first.materialize(graph)[0])[0]
    assert isinstance(dense, DenseGraph) and isinstance(listed, Graph)
    assert_close(listed.v, dense.v[graph.node_mask], 1e-11)
    assert_close(materialized.v, listed.v, 1e-11)


def test_the_sizes_of_the_tests_are_three_different_numbers():
    assert len({EDGE_DIM, HEADS, NODE_DIM // HEADS}) == 3


def test_one_edge_feature_is_enough_and_none_is_too_few():
    for name in ("grit", "rmat"):
        block = double(BLOCKS[name](BlockConfig(NODE_DIM, HEADS, edge_dim=1)))
        assert block(random_graphs([3], edge_dim=1, globals_=False)).v.isfinite().all()
        with pytest.raises(ValueError, match="edge_dim must be at least 1, not 0"):
            BLOCKS[name](BlockConfig(NODE_DIM, HEADS))


def test_grit_refuses_a_graph_without_edge_features():
    graph = random_graphs([3], edge_dim=1, globals_=False).replace(e=None)
    with pytest.raises(ValueError, match="takes 1 edge features and no graph features, not 0"):
        double(BLOCKS["grit"](BlockConfig(NODE_DIM, HEADS, edge_dim=1)))(graph)


def test_heads_divide_the_channels():
    with pytest.raises(ValueError, match="4 heads do not divide 6 node channels"):
        _ = BlockConfig(6, 4).head_dim


def test_a_temperature_divides_the_logits():
    logits, layout = torch.randn(1, 2, 3, 3, dtype=F64), DenseLayout(torch.ones(1, 3, 3, dtype=torch.bool))
    for temperature in (0.5, 1.0, 2.0):
        normalize = BlockConfig(NODE_DIM, HEADS, temperature=temperature).normalizer_fn
        assert_close(normalize(logits, layout), torch.softmax(logits / temperature, -1))
    with pytest.raises(ValueError, match="a temperature needs the softmax normalizer, not sparsemax"):
        _ = BlockConfig(NODE_DIM, HEADS, normalizer="sparsemax", temperature=2.0).normalizer_fn


def test_learned_vectors_and_matrices_begin_at_the_scale_of_the_channels_of_a_head():
    # As the products of queries and keys: a dot product with unit vectors has a variance of 1.
    torch.manual_seed(0)
    block = BlockConfig(node_dim=512, num_heads=8, edge_dim=4)
    grit, rmat = (BLOCKS[name](block).phi_e for name in ("grit", "rmat"))
    for parameter in (grit.w_a, grit.w_ve, rmat.u, rmat.t):
        assert parameter.std().item() == pytest.approx(block.head_dim**-0.5, rel=0.15)
        assert abs(parameter.mean().item()) < 0.03


def test_a_join_maps_the_heads_to_the_channels_of_a_node():
    heads = torch.randn(5, NODE_DIM)
    assert BlockConfig(NODE_DIM, HEADS).join_module is None
    for join in ("w_jhl", "w_h", "mean", "max"):
        module = BlockConfig(NODE_DIM, HEADS, join=join).join_module
        assert module(heads).shape == (5, NODE_DIM)
    weights = [p.shape for p in BlockConfig(NODE_DIM, HEADS, join="w_jhl").join_module.parameters()]
    assert (NODE_DIM, NODE_DIM // HEADS) not in weights  # no linear layer behind it


@pytest.mark.parametrize(
    ("name", "published"),
    [("gaan", "GaAN"), ("mat", "MAT"), ("rmat", "R-MAT"), ("graphormer", "Graphormer"), ("grit", "GRIT")],
)
@pytest.mark.parametrize(
    "setting", [{"score": "additive"}, {"normalizer": "sparsemax"}, {"join": "mean"}, {"temperature": 0.1}], ids=str
)
def test_settings_of_the_default_attention_are_refused_by_blocks_with_their_own(name, published, setting):
    ((key, value),) = setting.items()
    sizes = {"edge_dim": {"graphormer": HEADS}.get(name, edge_dim(name))}
    message = f"^{published} has no setting {key}: leave out {key}={value!r}"
    with pytest.raises(ValueError, match=message):
        BLOCKS[name](BlockConfig(NODE_DIM, HEADS, **sizes, **setting))


@every_block
def test_only_mat_reads_lambdas_and_the_others_refuse_them(name):
    settings = replace(config(name), lambdas=(0.5, 0.25, 0.25))
    if name == "mat":
        assert BLOCKS[name](settings).phi_e.lambdas == settings.lambdas
        return
    with pytest.raises(ValueError, match=r"has no setting lambdas: leave out lambdas=\(0.5, 0.25, 0.25\)"):
        BLOCKS[name](settings)
