"""PyG's tests of its attention layers, restated for `TensorDotConv`.

PyG 5c6461b. A case is one claim of one parametrized test; 96 are restated, and hold.

| their tests                               | cases | what is not restated, and why                                  |
|-------------------------------------------|-------|----------------------------------------------------------------|
| test_transformer_conv, 4 settings         | 32    | 12 torch.jit; 12 SparseTensor; 12 torch.jit of a SparseTensor  |
| test_gatv2_conv, 2 settings               | 18    | 6 torch.jit; 6 SparseTensor; 6 torch.jit of a SparseTensor     |
| test_gatv2_conv_with_edge_attr            | 4     |                                                                |
| test_attention_explainer                  | 16    |                                                                |
| test_gnn_explainer, with TransformerConv  | 8     | the settings of the explainer alone: each mask, once           |
| test_to_hetero_transformer, test_hetero_conv | 8  | what they claim of other layers                                |
| test_compile_dynamic, test_compile_conv   | 6     | the times                                                      |
| torch.export                              | 4     | they have no test of it; what their layers do is claimed       |

torch.jit: `torch.jit.script` is deprecated, and cannot read a layer that is built of dataclasses; `torch.export` takes
its place. SparseTensor: of the package torch_sparse, which is not among the requirements; torch's own sparse tensors
are taken. GATv2Conv's residual is root_weight here, and its self-loops, which it adds, are added before the call.
"""

import json
import subprocess
import sys
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch_geometric.data import HeteroData
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer, HeteroExplanation
from torch_geometric.nn import HeteroConv, MessagePassing, to_hetero
from torch_geometric.utils import add_self_loops, remove_self_loops, to_torch_csc_tensor

from molattn.graph import TensorDotConv
from tests.assertions import assert_close, assert_identical

TO_TWO = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
HEADS, OUT = 2, 32


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def outputs(n, concat=True):
    return n, OUT * (HEADS if concat else 1)


# test_transformer_conv

every_setting = pytest.mark.parametrize(
    ("edge_dim", "concat"), [(None, True), (None, False), (8, True), (8, False)], ids=str
)


def of_transformer_conv(edge_dim, concat, in_channels: Any = 8):
    conv = TensorDotConv(in_channels, OUT, HEADS, beta=True, edge_dim=edge_dim, concat=concat)
    return conv, torch.randn(4, 8), torch.randn(2, 16), torch.randn(4, edge_dim) if edge_dim else None


@every_setting
def test_repr_has_its_channels_and_heads(edge_dim, concat):
    conv, *_ = of_transformer_conv(edge_dim, concat)
    assert str(conv).startswith("TensorDotConv(8, 32, heads=2") and "beta=True" in str(conv)


@every_setting
def test_outputs_have_the_channels_of_all_heads(edge_dim, concat):
    conv, x, _, edge_attr = of_transformer_conv(edge_dim, concat)
    assert conv(x, TO_TWO, edge_attr).shape == outputs(4, concat)


@every_setting
def test_a_transposed_sparse_adjacency_matrix_is_an_edge_index(edge_dim, concat):
    conv, x, _, edge_attr = of_transformer_conv(edge_dim, concat)
    adj = to_torch_csc_tensor(TO_TWO, size=(4, 4))
    assert_close(conv(x, adj.t(), edge_attr), conv(x, TO_TWO, edge_attr), 1e-6)


@every_setting
def test_outputs_are_the_same_with_returned_weights(edge_dim, concat):
    conv, x, _, edge_attr = of_transformer_conv(edge_dim, concat)
    out, (edges, alpha) = conv(x, TO_TWO, edge_attr, return_attention_weights=True)
    assert_close(out, conv(x, TO_TWO, edge_attr), 1e-5)
    assert edges.shape == (2, 4) and alpha.shape == (4, HEADS)
    assert alpha.min() >= 0 and alpha.max() <= 1


@every_setting
def test_no_weights_are_stored_on_the_layer(edge_dim, concat):
    conv, x, _, edge_attr = of_transformer_conv(edge_dim, concat)
    before = set(vars(conv))
    conv(x, TO_TWO, edge_attr, return_attention_weights=True)
    assert set(vars(conv)) == before and getattr(conv, "_alpha", None) is None


@every_setting
def test_bipartite_repr_has_the_channels_of_both(edge_dim, concat):
    conv, *_ = of_transformer_conv(edge_dim, concat, (8, 16))
    assert str(conv).startswith("TensorDotConv((8, 16), 32, heads=2")


@every_setting
def test_bipartite_updates_the_receivers(edge_dim, concat):
    conv, x, receivers, edge_attr = of_transformer_conv(edge_dim, concat, (8, 16))
    assert conv((x, receivers), TO_TWO, edge_attr).shape == outputs(2, concat)


@every_setting
def test_bipartite_with_a_sparse_adjacency_matrix(edge_dim, concat):
    conv, x, receivers, edge_attr = of_transformer_conv(edge_dim, concat, (8, 16))
    adj = to_torch_csc_tensor(TO_TWO, size=(4, 2))
    expected = conv((x, receivers), TO_TWO, edge_attr)
    assert_close(conv((x, receivers), adj.t(), edge_attr), expected, 1e-6)


# test_gatv2_conv

LOOPS = add_self_loops(remove_self_loops(TO_TWO)[0], num_nodes=4)[0]
with_and_without_root = pytest.mark.parametrize("residual", [False, True])


def of_gatv2_conv(residual):
    return TensorDotConv(8, OUT, HEADS, root_weight=residual), torch.randn(4, 8), torch.randn(2, 8)


@with_and_without_root
def test_gatv2_repr_has_its_channels_and_heads(residual):
    assert str(of_gatv2_conv(residual)[0]).startswith("TensorDotConv(8, 32, heads=2")


@with_and_without_root
def test_gatv2_outputs_have_the_channels_of_all_heads(residual):
    conv, x, _ = of_gatv2_conv(residual)
    assert conv(x, LOOPS).shape == outputs(4)


@with_and_without_root
def test_gatv2_is_deterministic(residual):
    conv, x, _ = of_gatv2_conv(residual)
    assert_identical(conv(x, LOOPS), conv(x, LOOPS))


@with_and_without_root
def test_gatv2_a_transposed_sparse_adjacency_matrix_is_an_edge_index(residual):
    conv, x, _ = of_gatv2_conv(residual)
    assert_close(conv(x, to_torch_csc_tensor(LOOPS, size=(4, 4)).t()), conv(x, LOOPS), 1e-6)


@with_and_without_root
def test_gatv2_outputs_are_the_same_with_returned_weights(residual):
    conv, x, _ = of_gatv2_conv(residual)
    out, (edges, alpha) = conv(x, LOOPS, return_attention_weights=True)
    assert_close(out, conv(x, LOOPS), 1e-5)
    assert edges.shape == (2, 7) and alpha.shape == (7, HEADS)
    assert alpha.min() >= 0 and alpha.max() <= 1


@with_and_without_root
def test_gatv2_weights_are_returned_in_the_sparse_adjacency_matrix(residual):
    conv, x, _ = of_gatv2_conv(residual)
    out, (adj, alpha) = conv(x, to_torch_csc_tensor(LOOPS, size=(4, 4)).t(), return_attention_weights=True)
    assert_close(out, conv(x, LOOPS), 1e-6)
    assert adj.shape == (4, 4, HEADS) and adj._nnz() == 7
    assert_identical(adj.values(), alpha)


@with_and_without_root
def test_gatv2_bipartite_updates_the_receivers(residual):
    conv, x, receivers = of_gatv2_conv(residual)
    assert conv((x, receivers), TO_TWO).shape == outputs(2)


@with_and_without_root
def test_gatv2_bipartite_is_deterministic(residual):
    conv, x, receivers = of_gatv2_conv(residual)
    assert_identical(conv((x, receivers), TO_TWO), conv((x, receivers), TO_TWO))


@with_and_without_root
def test_gatv2_bipartite_with_a_sparse_adjacency_matrix(residual):
    conv, x, receivers = of_gatv2_conv(residual)
    adj = to_torch_csc_tensor(TO_TWO, size=(4, 2))
    assert_close(conv((x, receivers), adj.t()), conv((x, receivers), TO_TWO), 1e-6)


@pytest.mark.parametrize("edge_dim", [1, 4])
@pytest.mark.parametrize("fill_value", [0.5, "mean"])
def test_gatv2_weights_of_edges_and_features_of_edges(edge_dim, fill_value):
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 1, 1]])
    edge_attr = torch.randn(4) if edge_dim == 1 else torch.randn(4, edge_dim)
    edges, edge_attr = add_self_loops(edge_index, edge_attr, fill_value, num_nodes=4)
    conv = TensorDotConv(8, OUT, HEADS, edge_dim=edge_dim)
    x = torch.randn(4, 8)
    out = conv(x, edges, edge_attr)
    assert out.shape == outputs(4)
    assert_identical(out, conv(x, edges, cast(Any, edge_attr).view(-1, edge_dim)))


# test_attention_explainer, test_gnn_explainer

CHAIN = torch.tensor([[*range(7), *range(1, 8)], [*range(1, 8), *range(7)]])
SETTINGS: Any = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
which = pytest.mark.parametrize("index", [None, 2, torch.arange(3)], ids=["all", "one", "three"])


class Attention(nn.Module):
    """Three layers, one after the other."""

    def __init__(self, edge_dim=None):
        super().__init__()
        self.conv1 = TensorDotConv(3, 16, heads=4, edge_dim=edge_dim)
        self.conv2 = TensorDotConv(64, 16, heads=2)
        self.conv3 = TensorDotConv(32, 7, heads=1)

    def forward(self, x, edge_index, edge_attr=None):
        x = self.conv1(x, edge_index, edge_attr).relu()
        return self.conv3(self.conv2(x, edge_index), edge_index)


def explainer(model, algorithm, edge_mask_type="object", explanation_type="model", **others) -> Any:
    return Explainer(
        model,
        algorithm,
        explanation_type,
        model_config=SETTINGS,
        edge_mask_type=edge_mask_type,
        **others,
    )


def check_mask(mask, shape):
    assert mask.shape == shape and mask.min() >= 0 and mask.max() <= 1


@which
def test_attention_explains_by_its_weights(index):
    x, model = torch.randn(8, 3), Attention()
    explanation = explainer(model, AttentionExplainer())(x, CHAIN, index=index)
    check_mask(explanation.edge_mask, (14,))
    assert "node_mask" not in explanation
    if index is None:
        model.eval()
        weights, given = [], x
        for conv in (model.conv1, model.conv2, model.conv3):
            given, (_, alpha) = conv(given, CHAIN, return_attention_weights=True)
            weights.append(alpha.amax(-1))
            given = given.relu() if conv is model.conv1 else given
        assert_close(explanation.edge_mask, torch.stack(weights).amax(0), 1e-6)


def test_attention_with_edge_features_explains_by_its_weights():
    model = Attention(edge_dim=5)
    explanation = explainer(model, AttentionExplainer())(torch.randn(8, 3), CHAIN, edge_attr=torch.randn(14, 5))
    check_mask(explanation.edge_mask, (14,))


@pytest.mark.parametrize("explanation_type", ["model", "phenomenon"])
@pytest.mark.parametrize("node_mask_type", ["object", "common_attributes", "attributes"])
def test_weights_explain_no_nodes(explanation_type, node_mask_type):
    with pytest.raises(ValueError, match="not support the given explanation"):
        explainer(Attention(), AttentionExplainer(), explanation_type=explanation_type, node_mask_type=node_mask_type)


def papers_and_authors() -> Any:
    data: Any = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(8, 16), torch.randn(10, 8)
    sizes = {"paper": 8, "author": 10}
    for sender, receiver in (("paper", "paper"), ("paper", "author"), ("author", "paper")):
        ends = [torch.randint(sizes[kind], (10,)) for kind in (sender, receiver)]
        data[sender, receiver].edge_index = torch.stack(ends)
        data[sender, receiver].edge_attr = torch.randn(10, 4)
    return data


class Layers(nn.Module):
    """Two layers for homogeneous graphs; `to_hetero` gives each edge type its own."""

    def __init__(self):
        super().__init__()
        self.conv1 = TensorDotConv((-1, -1), 16, heads=2)
        self.conv2 = TensorDotConv((-1, -1), 32, heads=1)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class OfPapers(nn.Module):
    """A model of papers and authors: its output for the papers."""

    def __init__(self, metadata, by_hand=False):
        super().__init__()
        if by_hand:
            kinds = {kind: TensorDotConv((-1, -1), OUT, HEADS, concat=False) for kind in metadata[1]}
            self.gnn = HeteroConv(kinds, aggr="sum")
        else:
            self.gnn = to_hetero(Layers(), metadata)
        self.linear = nn.Linear(32, 7)

    def forward(self, x_dict, edge_index_dict):
        return self.linear(self.gnn(x_dict, edge_index_dict)["paper"])


@which
@pytest.mark.parametrize("by_hand", [False, True], ids=["to_hetero", "HeteroConv"])
def test_weights_explain_kinds_of_edges(index, by_hand):
    data = papers_and_authors()
    model = OfPapers(data.metadata(), by_hand)
    explanation = explainer(model, AttentionExplainer())(data.x_dict, data.edge_index_dict, index=index)
    assert isinstance(explanation, HeteroExplanation) and explanation.validate(raise_on_error=True)
    for kind in data.edge_types:
        check_mask(cast(Any, explanation)[kind].edge_mask, (10,))


@pytest.mark.parametrize("edge_mask_type", ["object", None])
@pytest.mark.parametrize("node_mask_type", ["object", "common_attributes", "attributes"])
def test_gnn_explainer_masks_nodes_and_edges(node_mask_type, edge_mask_type):
    x, model = torch.randn(8, 3), Attention()
    algorithm = GNNExplainer(epochs=2)
    by_masks = explainer(model, algorithm, edge_mask_type, node_mask_type=node_mask_type)
    explanation = by_masks(x, CHAIN)
    shapes = {"object": (8, 1), "common_attributes": (1, 3), "attributes": (8, 3)}
    check_mask(explanation.node_mask, shapes[node_mask_type])
    if edge_mask_type is None:
        assert "edge_mask" not in explanation
    else:
        check_mask(explanation.edge_mask, (14,))
    assert algorithm.node_mask is None and algorithm.edge_mask is None
    for conv in (model.conv1, model.conv2, model.conv3):
        assert not conv.explain and conv._edge_mask is None


def test_gnn_explainer_masks_kinds_of_edges():
    data = papers_and_authors()
    by_masks = explainer(OfPapers(data.metadata()), GNNExplainer(epochs=2), node_mask_type="attributes")
    explanation = by_masks(data.x_dict, data.edge_index_dict)
    for kind in data.node_types:
        check_mask(explanation[kind].node_mask, data[kind].x.shape)
    for kind in data.edge_types:
        check_mask(explanation[kind].edge_mask, (10,))


def test_gnn_explainer_finds_the_edge_that_was_used():
    x, edge_index = torch.randn(4, 3), torch.tensor([[1, 2, 3], [0, 0, 0]])
    x[1] = torch.tensor([50.0, 0.0, 0.0])  # the other senders have values of 0 and do not affect the receiver
    x[2:] = 0
    conv = TensorDotConv(3, 1, root_weight=False, bias=False).requires_grad_(False)
    nn.init.zeros_(conv.phi_e.w_q.weight)
    by_masks = Explainer(
        conv,
        GNNExplainer(epochs=200, lr=0.1),
        "model",
        model_config=cast(Any, {"mode": "regression", "task_level": "node", "return_type": "raw"}),
        edge_mask_type="object",
    )
    mask = cast(Any, by_masks(x, edge_index, index=0)).edge_mask
    assert mask[0] > 0.9 and mask[1:].max() < 0.1


# test_to_hetero_transformer, test_hetero_conv


class OneLayer(nn.Module):
    def __init__(self, in_channels: Any = (16, 16), **others):
        super().__init__()
        self.lin1 = nn.Linear(16, 16)
        self.conv1 = TensorDotConv(in_channels, 16, heads=2, **others)
        self.lin2 = nn.Linear(32, 32)

    def forward(self, x, edge_index):
        return self.lin2(self.conv1(self.lin1(x).relu(), edge_index).relu())


class WithEdges(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = TensorDotConv((-1, -1), 16, heads=2, edge_dim=-1)

    def forward(self, x, edge_index, edge_attr):
        return self.conv(x, edge_index, edge_attr)


@pytest.mark.parametrize("aggr", ["sum", "mean", "min", "max", "mul"])
def test_to_hetero_gives_each_kind_of_edge_its_layer(aggr):
    data = papers_and_authors()
    x = {kind: torch.randn(10, 16) for kind in data.node_types}
    model = to_hetero(OneLayer(), data.metadata(), aggr=aggr)
    layers: Any = [module for module in model.modules() if isinstance(module, MessagePassing)]
    assert len(layers) == 3 and len({id(layer.phi_e.w_q.weight) for layer in layers}) == 3
    edges = data.edge_index_dict
    out = cast(Any, model(x, edges))
    assert {kind: rows.shape for kind, rows in out.items()} == {"paper": (10, 32), "author": (10, 32)}
    convs: Any = model.conv1
    given = {kind: cast(Any, model.lin1)[kind](x[kind]).relu() for kind in x}
    author = convs["paper__to__author"]((given["paper"], given["author"]), edges["paper", "to", "author"])
    assert_close(out["author"], cast(Any, model.lin2)["author"](author.relu()), 1e-6)


def test_to_hetero_takes_sizes_and_edge_features_from_the_first_call():
    data = papers_and_authors()
    model = to_hetero(WithEdges(), data.metadata())
    out = cast(Any, model(data.x_dict, data.edge_index_dict, data.edge_attr_dict))
    assert {kind: rows.shape for kind, rows in out.items()} == {"paper": (8, 32), "author": (10, 32)}
    convs: Any = model.conv
    assert convs["author__to__paper"].in_channels == (8, 16) and convs["author__to__paper"].edge_dim == 4


def test_hetero_conv_takes_sizes_from_the_first_call():
    data = papers_and_authors()
    conv = HeteroConv({kind: TensorDotConv((-1, -1), 16, heads=2, edge_dim=-1) for kind in data.edge_types})
    out = conv(data.x_dict, data.edge_index_dict, edge_attr_dict=data.edge_attr_dict)
    assert {kind: tuple(rows.shape) for kind, rows in out.items()} == {"paper": (8, 32), "author": (10, 32)}


def test_a_hetero_model_learns():
    data = papers_and_authors()
    model = to_hetero(Layers(), data.metadata())
    model(data.x_dict, data.edge_index_dict)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = cast(Any, model(data.x_dict, data.edge_index_dict))["paper"].sub(1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


# Compilers, in a subprocess, without the shape checker of the tests.

COMMON = """
import io, json, sys, traceback
import torch
from torch import nn
from molattn.graph import TensorDotConv

torch.manual_seed(0)
results = {}

def edges(n, receivers, m):
    return torch.stack([torch.randint(n, (m,)), torch.randint(receivers, (m,))])

def graph(n, m, channels=None):
    return torch.randn(n, 6), edges(n, n, m), *([] if channels is None else [torch.randn(m, channels)])

def pair(n, receivers, m):
    return (torch.randn(n, 6), torch.randn(receivers, 9)), edges(n, receivers, m)

def same(f, g, calls):
    for inputs in calls:
        torch.testing.assert_close(f(*inputs), g(*inputs), rtol=1e-5, atol=1e-5)

def case(name, f):
    try:
        f()
        results[name] = ""
    except Exception:
        results[name] = traceback.format_exc()

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = TensorDotConv(6, 8, heads=2, edge_dim=3)
        self.conv2 = TensorDotConv(16, 5, heads=2, concat=False)

    def forward(self, x, edge_index, edge_attr):
        return self.conv2(self.conv1(x, edge_index, edge_attr).relu(), edge_index)
"""

COMPILE = """
def compiled(name, layer, calls, **how):
    case(name, lambda: same(torch.compile(layer, fullgraph=True, backend="aot_eager", **how), layer, calls))

conv = TensorDotConv(6, 4, heads=3)
compiled("an edge list", conv, [graph(7, 12)])
compiled("edge features and the gate", TensorDotConv(6, 4, heads=3, edge_dim=3, beta=True), [graph(7, 12, 3)])
compiled("two sets of nodes", TensorDotConv((6, 9), 4, heads=3), [pair(7, 4, 12)])
compiled("a model of two layers", Two(), [graph(7, 12, 3)])
weights = TensorDotConv(6, 4, edge_dim=1, flow="target_to_source")
with_weights = lambda *inputs: weights(*inputs, return_attention_weights=True)
compiled("weights, numbers of edges and the other flow", with_weights, [(*graph(7, 12), torch.randn(12))])
any_size = TensorDotConv(6, 4, heads=3, edge_dim=3)

def of_any_size():
    f = torch.compile(any_size, fullgraph=True, dynamic=True, backend="aot_eager")
    same(f, any_size, [graph(7, 12, 3)])
    with torch.compiler.set_stance("fail_on_recompile"):
        same(f, any_size, [graph(9, 30, 3), graph(20, 5, 3)])

case("any size", of_any_size)
print(json.dumps(results))
"""

EXPORT = """
from torch.export import Dim, export, load, save

A = Dim.AUTO

def exported(name, layer, shapes, calls, saved=False):
    def check():
        program = export(layer, calls[0], dynamic_shapes=shapes)
        if saved:
            buffer = io.BytesIO()
            save(program, buffer)
            buffer.seek(0)
            program = load(buffer)
        same(program.module(), layer, calls)
    case(name, check)

n, m = {0: A}, {1: A}
sizes = [graph(7, 12), graph(9, 30), graph(20, 5)]
exported("an edge list", TensorDotConv(6, 4, heads=3), {"x": n, "edge_index": m}, sizes)
with_edges = {"x": n, "edge_index": m, "edge_attr": n}
sizes = [graph(7, 12, 3), graph(9, 30, 3)]
gated = TensorDotConv(6, 4, heads=3, edge_dim=3, beta=True)
exported("edge features and the gate", gated, with_edges, sizes)
wide = TensorDotConv(6, 2, heads=3, edge_dim=3)
exported("more edge than output channels", wide, with_edges, sizes)
additive = TensorDotConv(6, 4, heads=3, edge_dim=3, score="additive")
exported("edge features and the additive score", additive, with_edges, sizes)
exported("two sets of nodes", TensorDotConv((6, 9), 4), {"x": (n, n), "edge_index": m}, [pair(7, 4, 12), pair(9, 5, 3)])
exported("a model of two layers, saved and loaded", Two(), with_edges, sizes, saved=True)
print(json.dumps(results))
"""

COMPILED = [
    "an edge list",
    "edge features and the gate",
    "two sets of nodes",
    "a model of two layers",
    "weights, numbers of edges and the other flow",
    "any size",
]
EXPORTED = [
    "an edge list",
    "edge features and the gate",
    "more edge than output channels",
    "edge features and the additive score",
    "two sets of nodes",
    "a model of two layers, saved and loaded",
]


def results_of(code):
    done = subprocess.run([sys.executable, "-c", COMMON + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def compiled():
    return results_of(COMPILE)


@pytest.fixture(scope="module")
def exported():
    return results_of(EXPORT)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_as_one_graph_it_gives_the_same(name, compiled):
    assert compiled[name] == ""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", EXPORTED)
def test_exported_for_any_size_it_gives_the_same(name, exported):
    assert exported[name] == ""
