"""TensorDotConv as a layer of PyG's: messages that hooks read and change, and the forms of its arguments.

What PyG's own tests claim is in `test_contract_pyg`.
"""

import copy
import inspect
import io
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric.explain import CaptumExplainer, Explainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import MaxAggregation, MessagePassing, SoftmaxAggregation
from torch_geometric.utils import to_edge_index, to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor

from molattn.graph import TensorDotConv
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import F64, double

IN, OUT, EDGE, GLOBAL = 6, 4, 3, 5
EDGES = torch.tensor([[0, 0, 1, 2, 3, 4, 4], [0, 1, 1, 1, 2, 0, 2]])


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def layer(in_channels=IN, edge_dim=EDGE, heads=2, **others):
    return double(TensorDotConv(in_channels, OUT, heads, edge_dim=edge_dim, **others))


def inputs(edge_dim=EDGE):
    return torch.randn(5, IN, dtype=F64), EDGES, torch.randn(7, edge_dim, dtype=F64)


def seen(conv):
    """The layer with a hook that reads messages without changing them, so that every message is formed."""
    conv = copy.deepcopy(conv)
    conv.register_message_forward_hook(lambda *_: None)
    return conv


# Messages


def of_two_graphs():
    return {"u": torch.randn(2, GLOBAL, dtype=F64), "batch": torch.tensor([0, 0, 0, 1, 1])}


@pytest.mark.parametrize(
    ("conv", "others"),
    [
        (layer(), dict),
        (layer(concat=False, beta=True), dict),
        (layer(bias=False, root_weight=False), dict),
        (layer(flow="target_to_source"), dict),
        (layer(share_edge_weight=True, dropout=0.5), dict),
        (layer(edge_roles=("keys",)), dict),
        (layer(edge_roles=("values", "bias")), dict),
        (layer(global_dim=GLOBAL), of_two_graphs),
    ],
    ids=lambda value: repr(value) if isinstance(value, nn.Module) else "",
)
def test_outputs_are_the_same_with_hooks_and_explainers(conv, others):
    x, edge_index, edge_attr = inputs()
    others, results = others(), []
    for way in (conv, seen(conv)):
        torch.manual_seed(0)
        given = x.clone().requires_grad_(), edge_attr.clone().requires_grad_()
        out, (_, alpha) = way(given[0], edge_index, given[1], return_attention_weights=True, **others)
        way.zero_grad()
        (out.pow(3).sum() + alpha.pow(2).sum()).backward()
        results.append(
            [out, alpha, *(tensor.grad for tensor in (*given, *way.parameters()) if tensor.grad is not None)]
        )
    assert len(results[0]) == len(results[1]) > 6
    for fast, formed in zip(*results, strict=True):
        assert_close(formed, fast, 1e-12)


def test_messages_are_those_of_the_materialized_form():
    conv, graph, caught = layer(), inputs(), []
    materialized = conv.materialize(*graph)
    conv.register_message_forward_hook(lambda _, given, out: caught.append((given[0], out)))
    conv(*graph)
    [(given, e)] = caught
    assert_close(e, materialized.e)
    assert_close(given["alpha"], materialized.weights)
    assert set(given) == {"value_j", "alpha", "edge_attr"} and given["edge_attr"] is graph[2]


@pytest.mark.parametrize("step", ["propagate", "message", "aggregate"])
@pytest.mark.parametrize("when", ["", "_pre"])
def test_every_hook_is_called_and_removed(step, when):
    conv, graph, calls = layer(), inputs(), []
    expected = conv(*graph)
    handle = getattr(conv, f"register_{step}_forward{when}_hook")(lambda *given: calls.append(len(given)))
    assert_close(conv(*graph), expected)
    assert calls == [2 if when else 3]
    handle.remove()
    assert_identical(conv(*graph), expected)
    assert len(calls) == 1


def test_a_hook_changes_messages():
    conv, graph = layer(), inputs()
    conv.register_message_forward_hook(lambda _, __, e: torch.zeros_like(e))
    assert_close(conv(*graph), conv.w_root(graph[0]))


class WithoutLoops(TensorDotConv):
    """A custom layer, without messages along self-loops."""

    def message(self, value_j, alpha, edge_attr, edge_index_i, edge_index_j):
        there = edge_index_i != edge_index_j
        return super().message(value_j, alpha, edge_attr) * there.view(-1, 1, 1)


class Doubled(TensorDotConv):
    def update(self, inputs):
        return 2 * inputs


class Halved(TensorDotConv):
    def aggregate(self, inputs, index, ptr=None, dim_size=None):
        return super().aggregate(inputs, index, ptr, dim_size) / 2


def test_a_subclass_can_override_message():
    graph = inputs()
    for kind, by_hand in (
        (WithoutLoops, lambda e: e * (EDGES[0] != EDGES[1]).view(-1, 1, 1)),
        (Doubled, lambda e: 2 * e),
        (Halved, lambda e: e / 2),
    ):
        conv = double(kind(IN, OUT, 2, edge_dim=EDGE, root_weight=False))
        e = by_hand(conv.materialize(*graph).e)
        assert_close(conv(*graph), torch.zeros(5, 2, OUT, dtype=F64).index_add(0, EDGES[1], e).flatten(1))


@pytest.mark.parametrize("apply_sigmoid", [True, False])
def test_a_mask_multiplies_messages(apply_sigmoid):
    conv, graph, mask = layer(), inputs(), torch.randn(7, dtype=F64)
    plain, e = conv(*graph), conv.materialize(*graph).e
    set_masks(conv, mask, EDGES, apply_sigmoid)
    share = mask.sigmoid() if apply_sigmoid else mask
    sums = torch.zeros(5, 2, OUT, dtype=F64).index_add(0, EDGES[1], e * share.view(-1, 1, 1)).flatten(1)
    assert_close(conv(*graph), sums + conv.w_root(graph[0]))
    clear_masks(conv)
    assert_identical(conv(*graph), plain)


def test_gradients_of_explainer_masks():
    x, edge_index, edge_attr = (part.float() if part.is_floating_point() else part for part in inputs())
    explanation = Explainer(
        TensorDotConv(IN, 1, edge_dim=EDGE),
        CaptumExplainer("IntegratedGradients"),
        "model",
        model_config={"mode": "regression", "task_level": "node", "return_type": "raw"},
        node_mask_type="attributes",
        edge_mask_type="object",
    )(x, edge_index, edge_attr=edge_attr, index=1)
    assert explanation.node_mask.shape == x.shape and explanation.edge_mask.shape == (7,)
    assert (explanation.edge_mask[EDGES[1] == 2] == 0).all()  # into another node
    assert (explanation.edge_mask[EDGES[1] == 1] != 0).all()


# Aggregations


def reduced(e, how):
    by_node = [e[EDGES[1] == i] for i in range(5)]
    return torch.stack([how(of_node) if len(of_node) else e.new_zeros(e.shape[1:]) for of_node in by_node])


@pytest.mark.parametrize(
    ("aggr", "how"),
    [
        ("add", lambda e: e.sum(0)),
        ("sum", lambda e: e.sum(0)),
        ("mean", lambda e: e.mean(0)),
        ("max", lambda e: e.amax(0)),
        (MaxAggregation(), lambda e: e.amax(0)),
        (SoftmaxAggregation(t=0.5), lambda e: ((0.5 * e).softmax(0) * e).sum(0)),
    ],
    ids=lambda value: str(value) if isinstance(value, str | nn.Module) else "",
)
@pytest.mark.parametrize("concat", [True, False])
def test_messages_are_aggregated_as_pyg_does(aggr, how, concat):
    conv, graph = layer(aggr=aggr, concat=concat), inputs()
    ebar = reduced(conv.materialize(*graph).e, how)
    ebar = ebar.flatten(1) if concat else ebar.mean(1)
    assert_close(conv(*graph), ebar + conv.w_root(graph[0]))


def test_a_learned_aggregation_is_converted():
    conv, graph = layer(aggr=SoftmaxAggregation(t=0.5, learn=True), share_edge_weight=True), inputs()
    with torch.no_grad():
        conv.aggr_module.t.fill_(0.25)
    there = conv.to_pyg()
    back = TensorDotConv.from_pyg(there)
    assert_close(there(*graph), conv(*graph))
    assert_identical(back(*graph), conv(*graph))
    conv(*graph).sum().backward()
    assert conv.aggr_module.t.grad is not None and there.aggr_module.t.grad is None
    conv.reset_parameters()
    assert conv.aggr_module.t == 0.5


# Two sets of nodes, and the other flow


def test_senders_and_receivers_with_different_channels_equal_transformer_conv():
    conv = layer((IN, 2), share_edge_weight=True, beta=True)
    x = torch.randn(5, IN, dtype=F64), torch.randn(3, 2, dtype=F64)
    edge_attr = torch.randn(7, EDGE, dtype=F64)
    there = conv.to_pyg()
    expected, (_, alpha) = there(x, EDGES, edge_attr, return_attention_weights=True)
    for way in (conv, seen(conv), TensorDotConv.from_pyg(there)):
        out, (_, weights) = way(x, EDGES, edge_attr, return_attention_weights=True)
        assert_close(out, expected)
        assert_close(weights, alpha)
    assert repr(TensorDotConv.from_pyg(there)) == repr(conv)


def test_a_pair_of_the_same_nodes_equals_a_single_tensor():
    conv, (x, edge_index, edge_attr) = layer((IN, IN)), inputs()
    assert_close(conv((x, x), edge_index, edge_attr), conv(x, edge_index, edge_attr))
    assert_close(conv.materialize((x, x), edge_index, edge_attr).e, conv.materialize(x, edge_index, edge_attr).e)


def test_target_to_source_swaps_the_rows():
    conv = layer((IN, 2), flow="target_to_source")
    straight = layer((IN, 2))
    straight.load_state_dict(conv.state_dict())
    x, edge_attr = (torch.randn(5, IN, dtype=F64), torch.randn(3, 2, dtype=F64)), torch.randn(7, EDGE, dtype=F64)
    for way in (conv, seen(conv)):
        assert_close(way(x, EDGES.flip(0), edge_attr), straight(x, EDGES, edge_attr))
    for shift, named in (([[0], [1]], "senders from 1 to 5, and x has 5 rows"), ([[3], [0]], "receivers from")):
        with pytest.raises(ValueError, match=f"edge_index has {named}"):
            conv(x, EDGES.flip(0) + torch.tensor(shift), edge_attr)
    with pytest.raises(ValueError, match=r"receivers in row 0, senders in row 1, not \(7, 2\)"):
        conv(x, EDGES.T, edge_attr)


# Sizes from the first call


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("in_channels", [-1, (-1, -1), (IN, -1), (-1, 2)], ids=str)
def test_the_first_call_infers_lazy_sizes(in_channels, share):
    receivers = 2 if isinstance(in_channels, tuple) else IN
    lazy = TensorDotConv(in_channels, OUT, 2, beta=True, edge_dim=-1, share_edge_weight=share)
    x, edge_attr = (torch.randn(5, IN), torch.randn(3, receivers)), torch.randn(7, EDGE)
    twin, pickled = copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))  # noqa: S301
    lazy.reset_parameters()
    out = lazy(x, EDGES, edge_attr)
    known = (IN, receivers) if isinstance(in_channels, tuple) else IN
    assert (lazy.in_channels, lazy.edge_dim) == (known, EDGE)
    assert not any(isinstance(module, nn.LazyLinear) for module in lazy.modules())
    sized = TensorDotConv(known, OUT, 2, beta=True, edge_dim=EDGE, share_edge_weight=share)
    assert repr(sized) == repr(lazy)
    sized.load_state_dict(lazy.state_dict())
    for other in (twin, pickled):
        other.load_state_dict(sized.state_dict())
        assert (other.phi_e.w_ve is other.phi_e.w_ke) == share
        with pytest.raises(ValueError, match="weights that were loaded are for 3 channels, not 4"):
            other(x, EDGES, torch.randn(7, 4))
    for other in (sized, twin, pickled):
        assert_identical(other(x, EDGES, edge_attr), out)
    with pytest.raises(ValueError, match="not \\(5, 7\\)"):
        lazy((torch.randn(5, 7), x[1]), EDGES, edge_attr)


def test_a_single_lazy_size_can_become_a_pair():
    lazy = TensorDotConv(-1, OUT)
    assert lazy((torch.randn(5, 6), torch.randn(3, 2)), EDGES).shape == (3, OUT)
    assert lazy.in_channels == (6, 2)


def test_the_first_call_can_have_one_number_per_edge():
    x, numbers = torch.randn(5, IN), torch.randn(EDGES.shape[1])
    adj_t = torch.sparse_coo_tensor(EDGES.flip(0), numbers, (5, 5), check_invariants=True).coalesce()
    for edge_index, edge_attr in ((EDGES, numbers), (adj_t, None)):
        lazy = TensorDotConv(-1, OUT, edge_dim=-1)
        out = lazy(x, edge_index, edge_attr)
        assert lazy.edge_dim == 1
        assert_close(out, lazy(x, EDGES, numbers.unsqueeze(-1)), 1e-5)


def test_the_first_call_can_be_dense_and_initializes_like_a_layer_with_sizes():
    lazy = TensorDotConv(-1, OUT, 2, edge_dim=-1, edge_roles=("keys", "values", "bias"))
    with pytest.raises(ValueError, match="edge_dim=-1 is inferred from the first call"):
        lazy.forward_dense(torch.randn(1, 5, IN))
    loaded, inputs = copy.deepcopy(lazy), {"x": torch.randn(1, 5, IN), "edge_attr": torch.randn(1, 5, 5, EDGE)}
    out = lazy.forward_dense(**inputs)
    assert out.shape == (1, 5, 2 * OUT)
    loaded.load_state_dict(lazy.state_dict())
    assert_close(loaded.forward_dense(**inputs), out, 1e-5)
    assert (lazy.in_channels, lazy.edge_dim) == (IN, EDGE)
    for linear in (lazy.phi_e.w_q, lazy.phi_e.w_ke, lazy.phi_e.w_be):
        bound = linear.in_features**-0.5
        assert 0.5 * bound < linear.weight.abs().max() <= bound


@pytest.mark.parametrize("in_channels", [(-1, IN), (IN, -1)], ids=str)
def test_one_lazy_size_of_a_pair_is_inferred_from_a_dense_graph(in_channels):
    lazy = TensorDotConv(in_channels, OUT)
    assert lazy.forward_dense(torch.randn(2, 5, IN)).shape == (2, 5, OUT)
    assert lazy.in_channels == (IN, IN)


def test_a_lazy_layer_without_edges_does_not_infer_their_size():
    lazy = TensorDotConv(-1, OUT)
    with pytest.raises(ValueError, match="3 features in e, the layer was made with edge_dim=0"):
        lazy(torch.randn(5, IN), EDGES, torch.randn(7, EDGE))
    assert lazy.edge_dim is None


def test_an_invalid_first_call_leaves_sizes_lazy():
    lazy = TensorDotConv(-1, OUT, edge_dim=-1)
    with pytest.raises(ValueError, match="it needs an edge_attr"):
        lazy(torch.randn(5, IN), EDGES)
    with pytest.raises(ValueError, match=r"x is \(nodes, channels\), not \(6,\)"):
        lazy(torch.randn(IN), EDGES)
    assert lazy.in_channels == -1 and lazy.edge_dim == -1


# Forms of edges


@pytest.mark.parametrize("to", [to_torch_coo_tensor, to_torch_csr_tensor, to_torch_csc_tensor])
def test_a_sparse_adjacency_matrix_of_any_layout(to):
    conv, (x, edge_index, edge_attr) = layer(), inputs()
    transposed = to(edge_index.flip(0), size=(5, 5))
    order = torch.tensor(sorted(range(7), key=lambda k: tuple(edge_index[:, k].flip(0).tolist())))
    if to is to_torch_csc_tensor:
        order = torch.tensor(sorted(range(7), key=lambda k: tuple(edge_index[:, k].tolist())))
    expected, (_, weights) = conv(x, edge_index, edge_attr, return_attention_weights=True)
    out, (adj, alpha) = conv(x, transposed, edge_attr[order], return_attention_weights=True)
    assert_close(out, expected)
    assert_close(alpha, weights[order])
    assert adj.layout == transposed.layout and adj.shape == (5, 5, 2)
    assert_close(adj.values(), alpha)


def test_the_values_of_a_sparse_adjacency_matrix_are_edge_features():
    x, edge_index, edge_attr = inputs()
    conv, of_weights, without = layer(), layer(edge_dim=1), layer(edge_dim=None)
    features = to_torch_coo_tensor(edge_index.flip(0), edge_attr, size=(5, 5))
    weights = to_torch_coo_tensor(edge_index.flip(0), edge_attr[:, 0], size=(5, 5))
    assert_close(conv(x, features), conv(x, edge_index, edge_attr))
    assert_close(of_weights(x, weights), of_weights(x, edge_index, edge_attr[:, 0]))
    assert_close(without(x, weights), without(x, edge_index))  # as in PyG: every sparse matrix has such values
    assert_close(conv.materialize(x, features).e.sum(0), conv.materialize(x, edge_index, edge_attr).e.sum(0))
    with pytest.raises(ValueError, match="3 features in e, the layer was made with edge_dim=0"):
        without(x, features)
    with pytest.raises(ValueError, match="transpose it"):
        layer(flow="target_to_source")(x, features)


def uncoalesced(edge_index, values, size):
    return torch.sparse_coo_tensor(edge_index, values, (*size, *values.shape[1:]))


@pytest.mark.parametrize("to", [to_torch_coo_tensor, to_torch_csr_tensor, to_torch_csc_tensor, uncoalesced])
def test_weights_replace_the_edge_features_of_a_sparse_adjacency_matrix(to):
    conv, (x, edge_index, edge_attr) = layer(), inputs()
    adj_t = to(edge_index.flip(0), edge_attr, size=(5, 5))
    expected, (_, of_edges) = conv(x, edge_index, edge_attr, return_attention_weights=True)
    out, (adj, alpha) = conv(x, adj_t, return_attention_weights=True)
    assert_close(out, expected)
    assert adj.layout == adj_t.layout and adj.shape == (5, 5, 2)
    assert_close(adj.values(), alpha)
    edges, values = to_edge_index(adj)
    weights = dict(zip(map(tuple, edge_index.flip(0).T.tolist()), of_edges, strict=True))
    assert_close(values, torch.stack([weights[i, j] for i, j in edges.T.tolist()]))


def test_a_sparse_adjacency_matrix_of_senders_and_receivers():
    conv = layer((IN, 2))
    x, edge_attr = (torch.randn(5, IN, dtype=F64), torch.randn(3, 2, dtype=F64)), torch.randn(7, EDGE, dtype=F64)
    expected = conv(x, EDGES, edge_attr)
    assert_close(conv(x, to_torch_coo_tensor(EDGES.flip(0), edge_attr, size=(3, 5))), expected)
    with pytest.raises(ValueError, match=r"a sparse adj_t is .receivers, senders., \(3, 5\) here, not \(5, 3\)"):
        conv(x, to_torch_coo_tensor(EDGES, size=(5, 3)), edge_attr)


def test_pygs_edge_index_class():
    conv, (x, edge_index, edge_attr) = layer(), inputs()
    sorted_rows = EdgeIndex(edge_index[:, edge_index[1].argsort(stable=True)], sparse_size=(5, 5), sort_order="col")
    order = edge_index[1].argsort(stable=True)
    for way in (conv, seen(conv)):
        assert_close(way(x, sorted_rows, edge_attr[order]), conv(x, edge_index, edge_attr))


def test_one_number_per_edge():
    conv, (x, edge_index, edge_attr) = layer(edge_dim=1), inputs(1)
    for way in (conv, seen(conv)):
        assert_close(way(x, edge_index, edge_attr[:, 0]), conv(x, edge_index, edge_attr))
    with pytest.raises(ValueError, match=r"edge_attr is \(edges, channels\) with 7 edges, not \(6, 1\)"):
        conv(x, edge_index, edge_attr[:6, 0])


# The gate


@pytest.mark.parametrize("concat", [True, False])
def test_beta_gates_the_root_against_the_messages(concat):
    conv, (x, edge_index, edge_attr) = layer(beta=True, concat=concat), inputs()
    e = torch.zeros(5, 2, OUT, dtype=F64).index_add(0, EDGES[1], conv.materialize(x, edge_index, edge_attr).e)
    m, root = e.flatten(1) if concat else e.mean(1), conv.w_root(x)
    gate = torch.sigmoid(torch.cat([m, root, m - root], -1) @ conv.w_beta.weight.T)
    out = conv(x, edge_index, edge_attr)
    assert_close(out, gate * root + (1 - gate) * m)
    matrix = torch.zeros(1, 5, 5, EDGE, dtype=F64)
    there = torch.zeros(1, 5, 5, dtype=torch.bool)
    matrix[0, EDGES[1], EDGES[0]], there[0, EDGES[1], EDGES[0]] = edge_attr, True
    assert_close(conv.forward_dense(x[None], edge_attr=matrix, edge_mask=there)[0], out)


def test_without_root_weight_there_is_no_gate():
    conv = TensorDotConv(IN, OUT, beta=True, root_weight=False)
    assert conv.w_beta is None and not conv.beta


# The layer itself


def test_it_is_a_message_passing_layer_and_can_be_pickled():
    conv, graph = layer(global_dim=None, beta=True, dropout=0.1).eval(), inputs()
    assert isinstance(conv, MessagePassing)
    file = io.BytesIO()
    torch.save(conv, file)
    file.seek(0)
    for other in (torch.load(file, weights_only=False), copy.deepcopy(conv)):
        assert_identical(other(*graph), conv(*graph))
        assert repr(other) == repr(conv)
        assert_close(seen(other)(*graph), conv(*graph))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"aggr": ["add", "max"]}, "aggr is one aggregation"),
        ({"flow": "upwards"}, "source_to_target"),
        ({"beta": 0.1}, "beta is True or False, not 0.1: as in TransformerConv, it comes before dropout"),
        ({"edge_dim": -2}, "^edge_dim must be an integer of at least 1, or -1 to infer it from the first call, not -2"),
        ({"edge_dim": -1, "edge_roles": ("logits",)}, "one channel per head: edge_dim=2"),
        ({"edge_dim": True}, "edge_dim must be an integer"),
    ],
    ids=str,
)
def test_invalid_settings_raise(settings, message):
    start = inspect.unwrap(TensorDotConv.__init__)  # without the tests' check of types, which may raise first
    with pytest.raises(ValueError, match=message):
        start(TensorDotConv.__new__(TensorDotConv), IN, OUT, 2, **settings)


def test_u_is_passed_by_keyword():
    forward = inspect.unwrap(TensorDotConv.forward)  # without the tests' check of types, which would raise first
    with pytest.raises(TypeError, match="pass u and batch by keyword"):
        forward(TensorDotConv(IN, OUT, global_dim=2), torch.zeros(5, IN), EDGES, None, torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("conv", "message"),
    [
        (TensorDotConv(IN, OUT, aggr="max"), "forward_dense needs aggr='add', not 'max'"),
        (TensorDotConv((IN, 2), OUT), r"forward_dense does not support bipartite graphs: in_channels=\(6, 2\)"),
        (TensorDotConv((1, IN), OUT), r"forward_dense does not support bipartite graphs: in_channels=\(1, 6\)"),
        (TensorDotConv(-1, OUT), r"x is \(graphs, nodes, channels\), not \(5, 6\)"),
    ],
    ids=lambda value: "" if isinstance(value, str) else repr(value),
)
def test_the_dense_form_raises_for_unsupported_layers(conv, message):
    with pytest.raises(ValueError, match=message):
        conv.forward_dense(torch.zeros(5, IN) if conv.in_channels == -1 else torch.zeros(1, 5, IN))


def test_messages_are_of_as_many_graphs_as_u_has_rows():
    assert layer().materialize(*inputs()).graph.num_graphs == 1
    graphs = of_two_graphs()
    for conv, x in ((layer(global_dim=GLOBAL), inputs()[0]), (layer((IN, IN), global_dim=GLOBAL), (inputs()[0],) * 2)):
        batch = graphs["batch"] if isinstance(x, torch.Tensor) else (graphs["batch"],) * 2
        assert conv.materialize(x, *inputs()[1:], u=graphs["u"], batch=batch).graph.num_graphs == 2


def test_sizes_may_be_integers_of_numpy_and_pairs_have_two():
    start = inspect.unwrap(TensorDotConv.__init__)
    conv = TensorDotConv.__new__(TensorDotConv)
    start(conv, np.int64(IN), np.int64(OUT), np.int64(2))
    assert conv(torch.randn(3, IN), torch.tensor([[0], [1]])).shape == (3, 2 * OUT)
    with pytest.raises(ValueError, match=r"in_channels is one size or a pair .* not \(1, 2, 3\)"):
        start(TensorDotConv.__new__(TensorDotConv), (1, 2, 3), OUT)


def test_a_hook_of_the_root_weight_runs():
    conv, seen = TensorDotConv(IN, OUT), []
    conv.w_root.register_forward_hook(lambda *_: seen.append(1))
    conv(torch.randn(3, IN), torch.tensor([[0], [1]]))
    assert seen == [1]
