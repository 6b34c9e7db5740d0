"""TensorDotConv: the numbers of PyG's TransformerConv, and the behaviour that PyG's users expect of a layer."""

import copy
import random
import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import nn
from torch.ao.nn.quantized.dynamic import Linear as DynamicallyQuantized
from torch.nn.utils.parametrizations import weight_norm
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, HeteroConv, Sequential, TransformerConv, global_add_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

import molattn.graph
from molattn.attention import General, Softmax, dot, sparsemax
from molattn.graph import DenseGraph, Graph, TensorDotConv
from tests.adapters import Wrapped
from tests.assertions import assert_close, assert_equivariant, assert_identical
from tests.graph.graphs import F64, double

IN, OUT, EDGE, GLOBAL = 6, 4, 3, 5
TOL = 1e-10


def random_graph(seed, complete=False, edges=True, dtype=F64):
    """x, edge_index and edge_attr of one graph; a sparse one has duplicate edges and nodes without incoming edges."""
    g = torch.Generator().manual_seed(seed)
    n = int(torch.randint(1, 12, (), generator=g))
    if complete:
        edge_index = torch.cartesian_prod(torch.arange(n), torch.arange(n)).T
    else:
        m = int(torch.randint(0, 3 * n, (), generator=g))
        edge_index = torch.randint(0, n, (2, m), generator=g)
        if n > 1:
            edge_index = edge_index[:, (edge_index[1] != 0) & (edge_index != n - 1).all(0)]  # n - 1 is isolated
    x = torch.randn(n, IN, generator=g, dtype=dtype)
    return x, edge_index, torch.randn(edge_index.shape[1], EDGE, generator=g, dtype=dtype) if edges else None


def transformer_conv(heads=3, concat=True, edges=True, root_weight=True, bias=True, **others):
    edge_dim = EDGE if edges else None
    layer = TransformerConv(IN, OUT, heads, concat, edge_dim=edge_dim, root_weight=root_weight, bias=bias, **others)
    return double(layer, seed=heads)


KINDS = [
    {"heads": heads, "concat": concat, "edges": edges, "root_weight": root_weight}
    for heads in (1, 3)
    for concat in (True, False)
    for edges in (True, False)
    for root_weight in (True, False)
] + [
    {"bias": False},
    {"bias": False, "concat": False},
    {"beta": True},
    {"beta": True, "concat": False, "edges": False},
    {"aggr": "max"},
    {"aggr": "mean", "concat": False},
    {"flow": "target_to_source"},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("complete", [True, False])
def test_it_equals_pygs_transformer_conv_on_a_hundred_random_graphs(kind, complete):
    theirs = transformer_conv(**kind)
    ours = TensorDotConv.from_pyg(theirs)
    isolated = 0
    for seed in range(100):
        x, edge_index, edge_attr = random_graph(seed, complete, kind.get("edges", True))
        isolated += int((torch.bincount(edge_index[1], minlength=len(x)) == 0).sum())
        expected, (_, alpha) = theirs(x, edge_index, edge_attr, return_attention_weights=True)
        out, (same_edges, weights) = ours(x, edge_index, edge_attr, return_attention_weights=True)
        assert same_edges is edge_index
        assert_close(out, expected, TOL)
        assert_close(weights, alpha, TOL)
    assert (isolated > 100) != complete


@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_it_learns_what_pygs_transformer_conv_learns(concat, seed):
    theirs = transformer_conv(concat=concat)
    ours = TensorDotConv.from_pyg(theirs)
    x, edge_index, edge_attr = random_graph(seed, complete=seed % 2 == 0)
    gradients = []
    for layer in (theirs, ours):
        inputs = x.clone().requires_grad_(), edge_attr.clone().requires_grad_()
        out, (_, alpha) = layer(inputs[0], edge_index, inputs[1], return_attention_weights=True)
        (out.pow(3).sum() + alpha.pow(2).sum()).backward()
        gradients.append((inputs[0].grad, inputs[1].grad))
    for mine, other in zip(*reversed(gradients), strict=True):
        assert_close(mine, other, TOL)
    for mine, other in (
        (ours.phi_e.w_q, theirs.lin_query), (ours.phi_e.w_k, theirs.lin_key), (ours.phi_e.w_v, theirs.lin_value),
        (ours.phi_e.w_ke, theirs.lin_edge), (ours.w_root, theirs.lin_skip),
    ):  # fmt: skip
        assert_close(mine.weight.grad, other.weight.grad, TOL)
        if other.bias is not None:
            assert_close(mine.bias.grad, other.bias.grad, TOL)


def test_it_is_initialized_and_trains_like_transformer_conv():
    theirs = transformer_conv()
    ours = TensorDotConv.from_pyg(theirs)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    graph = random_graph(3)
    after = []
    for layer in (theirs, ours):
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
        for _ in range(10):
            optimizer.zero_grad()
            layer(*graph).square().mean().backward()
            optimizer.step()
        after.append(layer(*graph))
    assert_close(after[1], after[0], 1e-9)
    for linear, other in ((ours.phi_e.w_q, theirs.lin_query), (ours.phi_e.w_ke, theirs.lin_edge)):
        draws = []
        for layer, drawn in ((ours, linear), (theirs, other)):
            torch.manual_seed(0)
            values = []
            for _ in range(200):
                layer.reset_parameters()
                values.append(drawn.weight.detach().clone())
            draws.append(torch.stack(values))
        bound = linear.in_features**-0.5
        for drawn in draws:
            assert bound * 0.99 < drawn.abs().max() <= bound
            assert abs(float(drawn.std()) / (bound / 3**0.5) - 1) < 0.03


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_to_pyg_is_the_inverse_of_from_pyg(kind):
    theirs = transformer_conv(**kind).eval()
    back = TensorDotConv.from_pyg(theirs).to_pyg()
    assert not back.training
    x, edge_index, edge_attr = random_graph(5, edges=kind.get("edges", True))
    assert_identical(back(x, edge_index, edge_attr), theirs(x, edge_index, edge_attr))
    assert repr(back) == repr(theirs)
    assert all(p.requires_grad for p in back.parameters())
    theirs.lin_key.requires_grad_(False)
    ours = TensorDotConv.from_pyg(theirs)
    frozen = {name for name, p in ours.named_parameters() if not p.requires_grad}
    assert frozen == {name for name, _ in ours.named_parameters() if name.startswith("phi_e.w_k.")}
    assert [p.requires_grad for p in ours.to_pyg().parameters()] == [p.requires_grad for p in theirs.parameters()]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_parametrized_weight_stays_trainable_or_frozen(frozen):
    theirs = transformer_conv(beta=True).eval()
    for linear in (theirs.lin_query, theirs.lin_edge, theirs.lin_beta):
        weight_norm(linear)
    graph = random_graph(5)
    theirs.requires_grad_(not frozen)
    ours = TensorDotConv.from_pyg(theirs).eval()
    assert_close(ours(*graph), theirs(*graph), TOL)
    assert all(p.requires_grad is not frozen for p in ours.parameters())
    for linear in (ours.phi_e.w_q, ours.phi_e.w_ke, ours.w_root):
        weight_norm(linear)
    back = ours.requires_grad_(not frozen).to_pyg()
    assert_close(back(*graph), ours(*graph), TOL)
    assert all(p.requires_grad is not frozen for p in back.parameters())


def test_from_pyg_with_one_channel_and_no_edge_features():
    theirs = TransformerConv(1, OUT).double()
    ours = TensorDotConv.from_pyg(theirs)
    x, edge_index, _ = random_graph(1, edges=False)
    assert_close(ours(x[:, :1], edge_index), theirs(x[:, :1], edge_index), TOL)
    assert ours.edge_dim is None and repr(ours.to_pyg()) == repr(theirs)


def test_from_pyg_of_pairs_of_channels():
    there = TransformerConv((IN, IN), OUT)
    assert TensorDotConv.from_pyg(there).in_channels == (IN, IN) == TensorDotConv.from_pyg(there).to_pyg().in_channels
    lazy = TransformerConv(-1, OUT)  # one size, which becomes two at the first call
    x, edge_index = (torch.randn(5, IN), torch.randn(3, 2)), torch.tensor([[0, 4, 3], [1, 1, 2]])
    expected = lazy(x, edge_index)
    ours = TensorDotConv.from_pyg(lazy)
    assert ours.in_channels == (IN, 2)
    assert_close(ours(x, edge_index), expected, 1e-5)


def test_settings_of_only_one_of_the_two_layers_raise():
    for layer, message in (
        (transformer_conv(aggr=["max", "add"]), "several aggregations"),
        (TransformerConv(-1, OUT), "lazily initialized"),
        (TransformerConv(IN, OUT, edge_dim=-1), "lazily initialized"),
    ):
        with pytest.raises(ValueError, match=message):
            TensorDotConv.from_pyg(layer)
    with pytest.raises(TypeError, match="not a GATConv"):
        TensorDotConv.from_pyg(GATConv(IN, OUT))
    for layer, message in (
        (TensorDotConv(IN, OUT, global_dim=2), "graph features"),
        (TensorDotConv((-1, IN), OUT), "needs initialized weights"),
        (TensorDotConv(IN, OUT, edge_dim=EDGE), "W_ve"),
        (TensorDotConv(IN, OUT, edge_dim=EDGE, edge_roles=("keys",)), "edge roles other"),
        (TensorDotConv(IN, OUT, edge_dim=EDGE, edge_roles=("keys", "values", "bias")), "edge roles other"),
        (TensorDotConv(IN, OUT, score="dot"), "another score or normalizer"),
        (TensorDotConv(IN, OUT, normalizer="sparsemax"), "another score or normalizer"),
    ):
        with pytest.raises(ValueError, match=message):
            layer.to_pyg()
    with pytest.raises(ValueError, match="share_edge_weight"):
        TensorDotConv(IN, OUT, edge_dim=EDGE, edge_roles=("keys",), share_edge_weight=True)
    assert isinstance(TensorDotConv(IN, OUT, edge_roles=()).to_pyg(), TransformerConv)


class Adapted(nn.Linear):
    def forward(self, input):
        return 2 * super().forward(input)


class OtherMessages(TransformerConv):
    def message(self, *inputs, **others):
        return 2 * super().message(*inputs, **others)


class Renamed(TensorDotConv):
    pass


def beside_weights(layer, name, how):
    """Replace the submodule `name`, or add a hook or a forward to it."""
    module = layer.get_submodule(name)
    if how == "a hook":
        module.register_forward_hook(lambda _module, _inputs, output: 2 * output)
    elif how == "a forward":
        module.forward = lambda x: 2 * type(module).forward(module, x)
    else:
        parent, _, last = name.rpartition(".")
        other = how(module) if how is Wrapped else how(module.weight.shape[1], module.weight.shape[0])
        setattr(layer.get_submodule(parent), last, other)
    return layer


@pytest.mark.parametrize("how", ["a hook", "a forward", Adapted, Wrapped, DynamicallyQuantized])
def test_what_the_weights_do_not_include_raises_by_name(how):
    what = "has a hook or a forward of its own" if isinstance(how, str) else "is a (Adapted|Wrapped|Linear), not a"
    for name in ("lin_query", "lin_key", "lin_value", "lin_edge", "lin_skip", "lin_beta"):
        with pytest.raises(ValueError, match=f"^{name} {what}"):
            TensorDotConv.from_pyg(beside_weights(TransformerConv(IN, OUT, beta=True, edge_dim=EDGE), name, how))
    ours = TensorDotConv(IN, OUT, beta=True, edge_dim=EDGE, share_edge_weight=True)
    for name in ("phi_e.w_q", "phi_e.w_v", "phi_e.w_ke", "phi_e.w_ve", "w_root", "w_beta"):
        # W_ve is W_ke: of a change of the module itself, the first of the two names is given.
        named = "phi_e.w_ke" if name == "phi_e.w_ve" and isinstance(how, str) else name
        with pytest.raises(ValueError, match=f"^{named} {what}"):
            beside_weights(copy.deepcopy(ours), name, how).to_pyg()


def test_hooks_and_subclasses_of_the_layer_raise_by_name():
    with pytest.raises(ValueError, match="the layer is a OtherMessages, not a TransformerConv"):
        TensorDotConv.from_pyg(OtherMessages(IN, OUT))
    with pytest.raises(ValueError, match="the layer is a Renamed, not a TensorDotConv"):
        Renamed(IN, OUT).to_pyg()
    for make, convert in ((TransformerConv, TensorDotConv.from_pyg), (TensorDotConv, TensorDotConv.to_pyg)):
        for step in ("propagate", "message", "aggregate"):
            layer = make(IN, OUT)
            getattr(layer, f"register_{step}_forward_hook")(lambda *_: None)
            with pytest.raises(ValueError, match=f"the layer has a hook of its {step}"):
                convert(layer)
        with pytest.raises(ValueError, match="the layer has a hook"):
            convert(beside_weights(make(IN, OUT), "", "a hook"))
    for name in ("phi_e", "join"):
        with pytest.raises(ValueError, match=f"{name} has a hook"):
            beside_weights(TensorDotConv(IN, OUT, concat=False), name, "a hook").to_pyg()


def test_false_returns_no_weights():
    conv = TensorDotConv(IN, OUT)
    x, edge_index, _ = random_graph(1, edges=False, dtype=torch.float32)
    assert isinstance(conv(x, edge_index), torch.Tensor)
    assert isinstance(conv(x, edge_index, return_attention_weights=False), torch.Tensor)
    assert isinstance(conv.forward_dense(x[None], return_attention_weights=False), torch.Tensor)
    assert isinstance(conv(x, edge_index, return_attention_weights=True), tuple)


# Materialized, edge list and dense


def whole_layer(**changes):
    return double(TensorDotConv(IN, OUT, 3, edge_dim=EDGE, global_dim=GLOBAL, **changes))


def batch_of(sizes, seed=0, density=1.0, dtype=F64):
    """A batch of PyG graphs with edge features and u."""
    g = torch.Generator().manual_seed(seed)
    graphs = []
    for n in sizes:
        edge_index = torch.cartesian_prod(torch.arange(n), torch.arange(n)).T
        edge_index = edge_index[:, torch.rand(n * n, generator=g) <= density]
        graphs.append(
            Data(
                x=torch.randn(n, IN, generator=g, dtype=dtype),
                edge_index=edge_index,
                edge_attr=torch.randn(edge_index.shape[1], EDGE, generator=g, dtype=dtype),
                u=torch.randn(1, GLOBAL, generator=g, dtype=dtype),
            )
        )
    return Batch.from_data_list(graphs)


def parts(batch):
    return batch.x, batch.edge_index, batch.edge_attr, batch.u, batch.batch


def call(conv, x, edge_index, edge_attr=None, u=None, batch=None, **others):
    """The layer, or a method of it, called as documented: u and batch by keyword."""
    return conv(x, edge_index, edge_attr, u=u, batch=batch, **others)


@pytest.mark.parametrize("density", [1.0, 0.4])
@pytest.mark.parametrize("changes", [{}, {"concat": False}, {"edge_roles": ("keys", "values", "bias")}], ids=str)
def test_edge_list_dense_and_materialized_give_the_same_numbers(density, changes):
    conv, batch = whole_layer(**changes), batch_of([4, 1, 6], density=density)
    out, (_, alpha) = call(conv, *parts(batch), return_attention_weights=True)

    dense = Graph.from_pyg(batch).to_dense()
    assert (dense.edge_mask is None) == (density == 1)
    padded, weights = conv.forward_dense(
        dense.v, dense.node_mask, dense.e, dense.u, dense.edge_mask, return_attention_weights=True
    )
    assert_close(padded[dense.node_mask], out)
    assert (padded[~dense.node_mask] == 0).all()
    rows = batch.batch[batch.edge_index[1]], *(batch.edge_index - batch.ptr[batch.batch[batch.edge_index[1]]]).flip(0)
    assert_close(weights.permute(0, 2, 3, 1)[rows], alpha)

    messages = call(conv.materialize, *parts(batch))
    assert messages.e.shape == (batch.num_edges, 3, OUT)
    assert_close(messages.weights, alpha)
    sums = torch.zeros(batch.num_nodes, 3, OUT, dtype=F64).index_add(0, batch.edge_index[1], messages.e)
    sums = sums.flatten(1) if conv.concat else sums.mean(1)
    assert_close(sums + conv.w_root(batch.x), out)


def test_the_equation_edge_by_edge():
    conv, batch = whole_layer().requires_grad_(False), batch_of([3, 2], density=0.7)
    messages, phi_e = call(conv.materialize, *parts(batch)), conv.phi_e
    of_node = batch.u[batch.batch]

    def heads(x):
        return x.unflatten(-1, (3, OUT))

    q = heads(phi_e.w_q(batch.x) + phi_e.w_qu(of_node))
    sent_k = heads(phi_e.w_k(batch.x) + phi_e.w_ku(of_node))
    sent_v = heads(phi_e.w_v(batch.x) + phi_e.w_vu(of_node))
    sender, receiver = batch.edge_index.tolist()
    for k, (s, i) in enumerate(zip(sender, receiver, strict=True)):
        into_i = [edge for edge, r in enumerate(receiver) if r == i]
        for h in range(3):
            logits = {
                edge: float(q[i, h] @ (sent_k[sender[edge], h] + heads(phi_e.w_ke(batch.edge_attr[edge]))[h]))
                / OUT**0.5
                for edge in into_i
            }
            w = torch.softmax(torch.tensor(list(logits.values()), dtype=F64), 0)[into_i.index(k)]
            assert_close(messages.weights[k, h], w)
            assert_close(messages.e[k, h], w * (sent_v[s, h] + heads(phi_e.w_ve(batch.edge_attr[k]))[h]))


def test_it_accepts_pygs_to_dense_batch():
    conv, batch = whole_layer(), batch_of([4, 2, 5])
    x, mask = to_dense_batch(batch.x, batch.batch)
    edge_attr = to_dense_adj(batch.edge_index, batch.batch, batch.edge_attr).transpose(1, 2)  # theirs is [from, to]
    assert_close(conv.forward_dense(x, mask, edge_attr, batch.u)[mask], call(conv, *parts(batch)))


def test_batch_invariance():
    conv, batch = whole_layer(), batch_of([4, 1, 6], density=0.5)
    single = [conv(data.x, data.edge_index, data.edge_attr, u=data.u) for data in batch.to_data_list()]
    assert_close(torch.cat(single), call(conv, *parts(batch)))


def test_the_order_of_nodes_and_edges_does_not_matter():
    conv = whole_layer()
    x, edge_index, edge_attr, u, _ = parts(batch_of([7], density=0.5))
    g = torch.Generator().manual_seed(2)
    nodes, edges = torch.randperm(7, generator=g), torch.randperm(edge_index.shape[1], generator=g)

    def act(x, edge_index, edge_attr, u):
        return x[nodes], nodes.argsort()[edge_index][:, edges], edge_attr[edges], u

    assert_equivariant(partial(call, conv), (x, edge_index, edge_attr, u), act, lambda out: out[nodes])


def test_bipartite_graphs():
    theirs = transformer_conv()
    ours = TensorDotConv.from_pyg(theirs)
    g = torch.Generator().manual_seed(4)
    for senders, receivers, m in ((9, 4, 20), (2, 5, 6), (3, 3, 0), (3, 0, 0)):
        x = torch.randn(senders, IN, generator=g, dtype=F64), torch.randn(receivers, IN, generator=g, dtype=F64)
        rows = [torch.randint(max(n, 1), (m,), generator=g) for n in (senders, receivers)]
        edge_index, edge_attr = torch.stack(rows), torch.randn(m, EDGE, generator=g, dtype=F64)
        expected, (_, alpha) = theirs(x, edge_index, edge_attr, return_attention_weights=True)
        out, (_, weights) = ours(x, edge_index, edge_attr, return_attention_weights=True)
        assert_close(out, expected, TOL)
        assert_close(weights, alpha, TOL)
    conv = whole_layer()
    x = torch.randn(3, IN, dtype=F64), torch.randn(2, IN, dtype=F64)
    edge_index, edge_attr = torch.tensor([[0, 2, 1], [0, 1, 0]]), torch.randn(3, EDGE, dtype=F64)
    u, batch = torch.randn(2, GLOBAL, dtype=F64), (torch.tensor([0, 0, 1]), torch.tensor([0, 1]))
    first = conv((x[0][:2], x[1][:1]), edge_index[:, [0, 2]], edge_attr[[0, 2]], u=u[:1])
    assert_close(conv(x, edge_index, edge_attr, u=u, batch=batch)[:1], first)


def test_edge_index_of_32_bit_integers():
    conv = whole_layer()
    x, edge_index, edge_attr, u, batch = parts(batch_of([4, 3], density=0.5))
    of_graphs = {"u": u, "batch": batch}
    assert_identical(conv(x, edge_index.int(), edge_attr, **of_graphs), conv(x, edge_index, edge_attr, **of_graphs))


def test_dropout_only_in_training():
    torch.manual_seed(0)
    conv = whole_layer(dropout=0.5)
    batch = batch_of([6])
    assert not torch.equal(call(conv, *parts(batch)), call(conv, *parts(batch)))
    conv.eval()
    assert_identical(call(conv, *parts(batch)), call(conv, *parts(batch)))


def test_dropout_that_is_set_later_acts_and_is_shown():
    torch.manual_seed(0)
    conv, later = whole_layer(dropout=0.5), whole_layer()
    later.load_state_dict(conv.state_dict())
    later.dropout = 0.5
    assert repr(later) == repr(conv) and later.phi_e.dropout == 0.5
    batch = batch_of([6])
    outputs = []
    for layer in (conv, later):
        torch.manual_seed(1)
        outputs.append(call(layer, *parts(batch)))
    assert_identical(outputs[1], outputs[0])
    there = TensorDotConv(IN, OUT)
    there.dropout = 0.25
    assert there.to_pyg().dropout == 0.25
    for wrong in (1.0, -0.1):
        with pytest.raises(ValueError, match="from 0 to below 1"):
            there.dropout = wrong
    assert there.dropout == 0.25


# What PyG's users expect of a layer


def test_repr():
    assert repr(TensorDotConv(16, 8, heads=2)) == "TensorDotConv(16, 8, heads=2)"
    assert repr(TensorDotConv(16, 8, 2, False, False, 0.1, 3, False, False, global_dim=4, edge_roles=("bias",))) == (
        "TensorDotConv(16, 8, heads=2, concat=False, dropout=0.1, edge_dim=3, global_dim=4, bias=False, "
        "root_weight=False, edge_roles=('bias',))"
    )
    assert repr(TensorDotConv((16, -1), 8, beta=True, aggr="max", flow="target_to_source")) == (
        "TensorDotConv((16, -1), 8, heads=1, beta=True, aggr='max', flow='target_to_source')"
    )


@pytest.mark.parametrize(
    ("score", "normalizer", "shown"),
    [
        ("dot", "sparsemax", "score='dot', normalizer='sparsemax'"),
        (dot, sparsemax, "score='dot', normalizer='sparsemax'"),
        (General(8, 8), Softmax(0.5), "score='General', normalizer='Softmax(temperature=0.5)'"),
    ],
    ids=["names", "functions", "modules"],
)
def test_scores_and_normalizers_are_shown_by_name(score, normalizer, shown):
    conv = TensorDotConv(16, 8, score=score, normalizer=normalizer)
    assert repr(conv) == f"TensorDotConv(16, 8, heads=1, {shown})"


@pytest.mark.parametrize("share", [True, False])
def test_a_state_dict_and_a_deep_copy_restore_the_layer(share):
    conv, batch = whole_layer(share_edge_weight=share), batch_of([4, 3])
    other = TensorDotConv(IN, OUT, 3, edge_dim=EDGE, global_dim=GLOBAL, share_edge_weight=share).to(F64)
    assert not torch.equal(call(other, *parts(batch)), call(conv, *parts(batch)))
    other.load_state_dict(conv.state_dict())
    for same in (other, copy.deepcopy(conv)):
        assert_identical(call(same, *parts(batch)), call(conv, *parts(batch)))
        assert (same.phi_e.w_ve is same.phi_e.w_ke) == share


def test_reset_parameters_reinitializes_every_parameter():
    conv = TensorDotConv(IN, OUT, 3, edge_dim=EDGE, global_dim=GLOBAL, edge_roles=("keys", "values", "bias"))
    before = [p.clone() for p in conv.parameters()]
    conv.reset_parameters()
    assert all((p != q).any() for p, q in zip(conv.parameters(), before, strict=True))
    torch.manual_seed(1)
    conv.reset_parameters()
    once = [p.clone() for p in conv.parameters()]
    torch.manual_seed(1)
    conv.reset_parameters()
    assert all(torch.equal(p, q) for p, q in zip(conv.parameters(), once, strict=True))


X, EDGES = torch.zeros(5, IN), torch.tensor([[0, 1, 2], [1, 2, 3]])


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ((torch.zeros(5, 7), EDGES), ValueError, r"x is \(nodes, 6\), not \(5, 7\)"),
        ((torch.zeros(IN), EDGES), ValueError, r"x is \(nodes, 6\), not \(6,\)"),
        ((X, EDGES.T), ValueError, r"edge_index is \(2, edges\), senders in row 0, receivers in row 1, not \(3, 2\)"),
        ((X, EDGES.float()), TypeError, "edge_index is a .2, m. tensor of integers"),
        ((X, EDGES > 0), TypeError, r"or a sparse torch tensor \(adj_t\)"),
        (
            (X, torch.eye(4).to_sparse()),
            ValueError,
            r"a sparse adj_t is .receivers, senders., \(5, 5\) here, not \(4, 4\)",
        ),
        ((X, EDGES + 2), ValueError, "edge_index has receivers from 3 to 5, and x has 5 rows: 0 to 4"),
        ((X, EDGES + torch.tensor([[4], [0]])), ValueError, "edge_index has senders from 4 to 6, and x has 5 rows"),
        ((X, EDGES - 1), ValueError, "edge_index has senders from -1 to 1"),
        ((X, EDGES, torch.zeros(2, EDGE)), ValueError, r"edge_attr is \(edges, channels\) with 3 edges, not \(2, 3\)"),
        ((X, EDGES, torch.zeros(3)), ValueError, r"edge_attr is \(edges, channels\)"),
        ((X, EDGES), ValueError, "0 features in e, the layer was made with edge_dim=3"),
        ((X, EDGES, torch.zeros(3, 9)), ValueError, "9 features in e, the layer was made with edge_dim=3"),
        ((X, EDGES, torch.zeros(3, EDGE)), ValueError, "global_dim=5"),
        ((X, EDGES, torch.zeros(3, EDGE), torch.zeros(GLOBAL)), ValueError, r"u is \(graphs, channels\)"),
        ((X, EDGES, torch.zeros(3, EDGE), torch.zeros(2, GLOBAL)), ValueError, "pass batch"),
        (
            (X, EDGES, torch.zeros(3, EDGE), torch.zeros(2, GLOBAL), torch.tensor([0, 0, 1, 1, 2])),
            ValueError,
            "batch has graphs from 0 to 2, and u has 2 rows",
        ),
        (
            (X, EDGES, torch.zeros(3, EDGE), torch.zeros(2, GLOBAL), torch.tensor([0, 1])),
            ValueError,
            r"batch is \(5,\), the graph of each node",
        ),
        (((X, X), EDGES, torch.zeros(3, EDGE), torch.zeros(2, GLOBAL), torch.zeros(5).long()), ValueError, "a pair"),
    ],
)
def test_invalid_inputs_raise_with_one_sentence(inputs, error, message):
    conv = TensorDotConv(IN, OUT, edge_dim=EDGE, global_dim=GLOBAL)
    for way in (conv, conv.materialize):
        with pytest.raises(error, match=message) as raised:
            call(way, *inputs)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.zeros(5, IN)}, r"x is \(graphs, nodes, 6\)"),
        ({"mask": torch.ones(2, 4, dtype=torch.bool)}, r"mask is \(2, 5\)"),
        ({"edge_attr": torch.zeros(2, 5, 4, EDGE)}, r"edge_attr is \(2, 5, 5, 3\)"),
        ({"edge_attr": torch.zeros(2, 5, 5, EDGE + 1)}, r"edge_attr is \(2, 5, 5, 3\)"),
        ({"u": torch.zeros(1, GLOBAL)}, r"u is \(2, 5\)"),
        ({"edge_mask": torch.ones(5, 5, dtype=torch.bool)}, r"edge_mask is \(2, 5, 5\)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_invalid_dense_inputs_raise_with_one_sentence(changes, message):
    conv = TensorDotConv(IN, OUT, edge_dim=EDGE, global_dim=GLOBAL)
    fits = {"x": torch.zeros(2, 5, IN), "edge_attr": torch.zeros(2, 5, 5, EDGE), "u": torch.zeros(2, GLOBAL)}
    assert conv.forward_dense(**fits).shape == (2, 5, OUT)
    with pytest.raises(ValueError, match=message):
        conv.forward_dense(**fits | changes)


def test_no_values_are_read_on_other_devices_than_the_cpu():
    conv = TensorDotConv(IN, OUT, heads=2).to("meta")  # a device without values: reading them would raise
    out, (_, alpha) = conv(X.to("meta"), EDGES.to("meta"), return_attention_weights=True)
    assert out.shape == (5, 2 * OUT) and alpha.shape == (3, 2)
    assert conv.forward_dense(X.to("meta")[None]).shape == (1, 5, 2 * OUT)


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ((-2, 4, 1), "in_channels"),
        ((0, 4, 1), "in_channels"),
        (((6, 0), 4, 1), "in_channels"),
        (((0, 6), 4, 1), "in_channels"),
        ((6, 0, 1), "out_channels"),
        ((6, -1, 1), "out_channels"),
        ((6, 4, 0), "heads"),
        ((6, 4, -1), "heads"),
    ],
)
def test_invalid_sizes_raise_in_the_constructor(sizes, name):
    lazy = ", or -1 to infer it from the first call" if name == "in_channels" else ""
    with pytest.raises(ValueError, match=f"^{name} must be an integer of at least 1{lazy}, not -?[0-9]$"):
        TensorDotConv(*sizes)


@pytest.mark.parametrize("in_channels", [1, IN, (2, 1), (-1, IN)], ids=str)
def test_the_edge_update_has_the_sizes_of_the_receivers_and_edges(in_channels):
    conv = TensorDotConv(in_channels, OUT, heads=2, edge_dim=EDGE)
    receivers = in_channels[1] if isinstance(in_channels, tuple) else in_channels
    phi_e = conv.phi_e
    assert (phi_e.node_dim, phi_e.w_q.in_features) == (receivers, receivers)
    assert (phi_e.num_heads, phi_e.head_dim, phi_e.edge_dim) == (2, OUT, EDGE)


def test_in_pygs_sequential():
    torch.manual_seed(0)
    model = Sequential(
        "x, edge_index, edge_attr",
        [
            (TensorDotConv(IN, 8, heads=2, edge_dim=EDGE), "x, edge_index, edge_attr -> x"),
            nn.ReLU(inplace=True),
            (TensorDotConv(16, 3, heads=4, concat=False), "x, edge_index -> x"),
            nn.LogSoftmax(dim=-1),
        ],
    )
    x, edge_index, edge_attr = random_graph(6, dtype=torch.float32)
    out = model(x, edge_index, edge_attr)
    first, second = (layer for layer in model.modules() if isinstance(layer, TensorDotConv))
    by_hand = second(first(x, edge_index, edge_attr).relu(), edge_index).log_softmax(-1)
    assert_identical(out, by_hand)
    out.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_in_pygs_hetero_conv():
    kinds = {("atom", "in", "ring"): (5, 2, 6), ("ring", "has", "atom"): (2, 5, 6), ("atom", "bond", "atom"): (5, 5, 8)}
    x = {"atom": torch.randn(5, IN), "ring": torch.randn(2, IN)}
    edges = {kind: torch.stack([torch.randint(s, (m,)), torch.randint(r, (m,))]) for kind, (s, r, m) in kinds.items()}
    conv = HeteroConv({kind: TensorDotConv(IN, OUT, heads=2) for kind in kinds}, aggr="sum")
    out = conv(x, edges)
    assert {name: tuple(rows.shape) for name, rows in out.items()} == {"atom": (5, 2 * OUT), "ring": (2, 2 * OUT)}
    only = conv.convs[("atom", "in", "ring")]
    assert_identical(out["ring"], only((x["atom"], x["ring"]), edges[("atom", "in", "ring")]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision(dtype):
    conv, batch = whole_layer().float(), batch_of([4, 3], dtype=torch.float32)
    exact = call(conv, *parts(batch))
    with torch.autocast("cpu", dtype=dtype):
        mixed = call(conv, *parts(batch))
    half = call(
        copy.deepcopy(conv).to(dtype),
        *(part.to(dtype) if part.is_floating_point() else part for part in parts(batch)),
    )
    for rough in (mixed, half):
        assert (rough.float() - exact).abs().max() < 0.05 * exact.abs().max()
    mixed.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in conv.parameters())


class Model(nn.Module):
    """A plain model for PyG batches, as PyG's tutorials write them."""

    def __init__(self):
        super().__init__()
        self.conv1 = TensorDotConv(IN, 8, heads=2, edge_dim=EDGE, global_dim=GLOBAL)
        self.conv2 = TensorDotConv(16, 8, heads=2, concat=False, edge_dim=EDGE)
        self.head = nn.Linear(8, 1)

    def forward(self, data):
        x = self.conv1(data.x, data.edge_index, data.edge_attr, u=data.u, batch=data.batch).relu()
        x = self.conv2(x, data.edge_index, data.edge_attr).relu()
        return self.head(global_add_pool(x, data.batch)).squeeze(-1)


def test_a_model_learns_from_pygs_loader():
    torch.manual_seed(0)
    graphs = batch_of([random.Random(0).randint(1, 7) for _ in range(64)], density=0.5, dtype=torch.float32)
    graphs = graphs.to_data_list()
    for data in graphs:  # the target: one channel of u, and one of the nodes
        data.y = data.u[:, 0] + data.x[:, 0].sum()
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(30):
        total = 0.0
        for batch in DataLoader(graphs, batch_size=16, shuffle=True, generator=generator):
            optimizer.zero_grad()
            loss = (model(batch) - batch.y).square().mean()
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.num_graphs
        losses.append(total / len(graphs))
    assert losses[-1] < 0.1 * losses[0]


def test_a_citation_graph_is_learned():
    """2,708 nodes in 7 classes, about 10,600 edges, mostly within a class, and weak features: Cora's sizes."""
    g = torch.Generator().manual_seed(0)
    n, classes, width = 2708, 7, 64
    y = torch.randint(classes, (n,), generator=g)
    by_class = [(y == c).nonzero().flatten() for c in range(classes)]
    pairs = []
    for i in range(n):
        mates = by_class[int(y[i])]
        near = mates[torch.randint(len(mates), (2,), generator=g)]
        pairs += (
            [(i, int(j)) for j in near] if i % 5 else [(i, int(near[0])), (i, int(torch.randint(n, (), generator=g)))]
        )
    edge_index = torch.tensor(pairs).T
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    assert abs(edge_index.shape[1] - 10_600) < 400
    x = torch.randn(n, width, generator=g) + 0.5 * torch.randn(classes, width, generator=g)[y]
    train = torch.rand(n, generator=g) < 0.1

    torch.manual_seed(0)
    conv1, conv2 = TensorDotConv(width, 8, heads=4, dropout=0.2), TensorDotConv(32, classes, concat=False)
    optimizer = torch.optim.Adam([*conv1.parameters(), *conv2.parameters()], lr=0.01, weight_decay=5e-3)
    for _ in range(40):
        optimizer.zero_grad()
        logits = conv2(conv1(x, edge_index).relu(), edge_index)
        nn.functional.cross_entropy(logits[train], y[train]).backward()
        optimizer.step()
    conv1.eval()
    right = (conv2(conv1(x, edge_index).relu(), edge_index).argmax(-1) == y)[~train].float().mean()
    assert right > 0.8


# From and to PyG's graphs


@pytest.mark.parametrize("density", [1.0, 0.5])
def test_graphs_from_and_to_pyg(density):
    batch = batch_of([3, 1, 4], density=density)
    graph = Graph.from_pyg(batch)
    assert graph.v is batch.x and graph.e is batch.edge_attr and graph.u is batch.u and graph.num_graphs == 3
    back = graph.to_pyg()
    for data, other in zip(back.to_data_list(), batch.to_data_list(), strict=True):
        for name in ("x", "edge_index", "edge_attr", "u"):
            assert_identical(data[name], other[name])
    assert_identical(back.batch, batch.batch)
    one = Graph.from_pyg(batch[0])
    assert one.num_graphs == 1 and one.node_graph.tolist() == [0, 0, 0]
    bare = Graph(graph.v, graph.sender, graph.receiver, graph.node_graph, 3, degree=torch.arange(8))
    back = Graph.from_pyg(bare.to_pyg())
    assert back.e is None and back.u is None and back.degree.tolist() == list(range(8))


def test_to_pyg_assigns_edges_in_any_order_to_their_graphs():
    graph = Graph.from_pyg(batch_of([3, 1, 4], density=0.6))
    order = torch.randperm(len(graph.sender), generator=torch.Generator().manual_seed(0))
    mixed = graph.replace(sender=graph.sender[order], receiver=graph.receiver[order], e=graph.e[order])
    conv = whole_layer()
    assert_close(call(conv, *parts(mixed.to_pyg())), call(conv, *parts(graph.to_pyg())))


def test_from_pyg_raises_for_data_without_features():
    edge_index = torch.tensor([[0], [1]])
    for data, message in (
        (Data(edge_index=edge_index), "no x"),
        (Data(x=torch.zeros(2, 3)), "no edge_index"),
        (Data(x=torch.zeros(2, 3).long(), edge_index=edge_index), "^x is torch.int64.*embed integer codes"),
        (Data(x=torch.zeros(2, 3), edge_index=edge_index, batch=torch.zeros(2).long()), "no num_graphs"),
        (
            Data(x=torch.zeros(2, 3), edge_index=edge_index, edge_attr=torch.zeros(1, 2).long()),
            "^edge_attr is torch.int64",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            Graph.from_pyg(data)


@pytest.mark.parametrize("density", [1.0, 0.5])
def test_to_dense_and_back_is_the_same_graph(density):
    graph = Graph.from_pyg(batch_of([3, 1, 4], density=density)).replace(degree=torch.arange(8))
    back = graph.to_dense().to_edge_list()
    order = (graph.receiver * 8 + graph.sender).argsort()
    assert_identical(back.sender, graph.sender[order])
    assert_identical(back.receiver, graph.receiver[order])
    for name in ("v", "node_graph", "u", "degree"):
        assert_identical(getattr(back, name), getattr(graph, name))
    assert_identical(back.e, graph.e[order])
    assert isinstance(graph.to_dense(), DenseGraph)


def test_to_dense_raises_for_duplicate_edges_and_edges_between_graphs():
    graph = Graph.from_pyg(batch_of([3, 2]))
    with pytest.raises(ValueError, match="twice"):
        graph.replace(sender=torch.zeros(13).long(), receiver=torch.zeros(13).long()).to_dense()
    with pytest.raises(ValueError, match="two graphs"):
        graph.replace(sender=torch.full((13,), 4)).to_dense()


# Compilers. They run in a subprocess, without the shape checker of the tests.

COMPILED = """
import sys, torch
from molattn.graph import TensorDotConv

torch.manual_seed(0)
conv = TensorDotConv(6, 4, heads=3, edge_dim=3, global_dim=5)

def graph(n, m, b):
    ends = torch.randint(n, (2, m))
    of_graphs = {"u": torch.randn(b, 5), "batch": torch.randint(b, (n,))}
    return (torch.randn(n, 6), ends, torch.randn(m, 3)), of_graphs

def check(fast, sizes):
    for size in sizes:
        inputs, of_graphs = graph(*size)
        torch.testing.assert_close(fast(*inputs, **of_graphs), conv(*inputs, **of_graphs), rtol=1e-5, atol=1e-5)

SIZES = [(7, 12, 4), (9, 30, 3), (20, 5, 4), (50, 300, 6)]
"""

WITH_COMPILE = """
compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend=sys.argv[1])
check(compiled, SIZES[:1])
with torch.compiler.set_stance("fail_on_recompile"):
    check(compiled, SIZES[1:])
"""

WITH_GRADIENTS_AND_DENSE = """
inputs, of_graphs = graph(*SIZES[1])
gradients = []
for layer in (compiled, conv):
    conv.zero_grad()
    out, (_, alpha) = layer(*inputs, return_attention_weights=True, **of_graphs)
    (out.square().sum() + alpha.square().sum()).backward()
    gradients.append([p.grad.clone() for p in conv.parameters()])
for mine, expected in zip(*gradients):
    torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)

dense = torch.compile(conv.forward_dense, fullgraph=True, dynamic=True, backend=sys.argv[1])
for b, n in ((2, 5), (3, 7)):
    mask = torch.rand(b, n) < 0.7
    padded = torch.randn(b, n, 6), mask, torch.randn(b, n, n, 3), torch.randn(b, 5)
    torch.testing.assert_close(dense(*padded), conv.forward_dense(*padded), rtol=1e-5, atol=1e-5)
"""

WITH_EXPORT = """
import io
from torch.export import Dim, export, load, save

n, m, b = Dim.AUTO, Dim.AUTO, Dim.AUTO
shapes = {"x": {0: n}, "edge_index": {1: m}, "edge_attr": {0: m}, "u": {0: b}, "batch": {0: n}}
exported = export(conv, *graph(*SIZES[0]), dynamic_shapes=shapes)
check(exported.module(), SIZES)
buffer = io.BytesIO()
save(exported, buffer)
buffer.seek(0)
check(load(buffer).module(), SIZES)
"""


def run_in_subprocess(code, *arguments):
    done = subprocess.run([sys.executable, "-c", COMPILED + code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_torch_compile_traces_one_graph_for_any_size():
    run_in_subprocess(WITH_COMPILE, "aot_eager")


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a C++ compiler, for minutes
def test_torch_compile_has_the_same_gradients_and_dense_form():
    run_in_subprocess(WITH_COMPILE + WITH_GRADIENTS_AND_DENSE, "inductor")


def test_torch_export_with_dynamic_sizes():
    run_in_subprocess(WITH_EXPORT)


def test_pyg_is_imported_with_the_layer_and_not_before():
    code = "import sys, molattn.graph; before = 'torch_geometric' in sys.modules; molattn.graph.TensorDotConv; "
    code += "sys.exit(before or 'torch_geometric' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'TensorDotKonv'"):
        molattn.graph.TensorDotKonv  # noqa: B018
