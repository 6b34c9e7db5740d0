"""check_model: every layer and model of molattn passes, and each fault fails with its own message."""

import inspect
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import TransformerConv

from molattn.attention import MultiHeadAttention
from molattn.graph import AttentionEdgeUpdate, GraphNetBlock, ResidualEdges, TensorDotConv
from molattn.graph.blocks import BLOCKS, BlockConfig
from molattn.models.base import build_model
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.testing import CheckFailed, check_model, random_graphs

SMALL = {"hidden_dim": 16, "num_heads": 2, "num_layers": 2}


@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "mat"])
def test_every_published_block_passes(name):
    edge_dim, global_dim = {"graphormer": 2}.get(name, 3), 0 if name == "grit" else 5
    check_model(BLOCKS[name](BlockConfig(8, 2, edge_dim, global_dim)))


@pytest.mark.parametrize("kernel", ["sums to one", "does not"])
def test_mat_passes_on_fixed_weights(kernel):
    graphs = random_graphs(8, 2)
    fixed = graphs.e.abs() * graphs.edges.unsqueeze(-1)
    if kernel == "sums to one":
        fixed = fixed / fixed.sum(2, keepdim=True).clamp_min(1e-9)
    block = BLOCKS["mat"](BlockConfig(8, 2, 2))
    check_model(block, graphs.replace(e=fixed), rows_sum_to_one=kernel == "sums to one")
    if kernel == "does not":
        with pytest.raises(CheckFailed, match="do not sum to 1"):
            check_model(block, graphs.replace(e=fixed))


@pytest.mark.parametrize(
    "layer",
    [
        AttentionEdgeUpdate(8, 2, 4, 3, 5),
        MultiHeadAttention(8, 2),
        GraphNetBlock(8, 2),
        GraphNetBlock(8, 2, 3, edges=ResidualEdges(3, 2, 4), rho_ev="max"),
        TensorDotConv(8, 4, heads=2, edge_dim=3, global_dim=5),
        TensorDotConv(8, 4, heads=2, concat=False, root_weight=False),
    ],
)
def test_layers_pass(layer):
    check_model(layer)


def test_a_layer_of_pyg_passes():
    check_model(TransformerConv(8, 4, heads=2, edge_dim=3))


@pytest.mark.parametrize("config", [GraphModelConfig(**SMALL), SmilesModelConfig(**SMALL)])
def test_models_of_molecules_pass(config):
    check_model(build_model(config, 2))


def test_the_model_is_not_changed():
    model = build_model(GraphModelConfig(**SMALL), 1).train()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    state = torch.random.get_rng_state()
    check_model(model)
    assert model.training and all(p.grad is None and p.dtype == torch.float32 for p in model.parameters())
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_model_on_another_device_is_checked_on_the_cpu(monkeypatch):
    moved, cpu = [], nn.Module.cpu
    monkeypatch.setattr(nn.Module, "cpu", lambda self: moved.append(self) or cpu(self))
    layer = Layer()
    check_model(layer)
    assert [type(m) for m in moved] == [Layer] and moved[0] is not layer


class Layer(nn.Module):
    """A correct layer, whose subclasses have a fault each: each node is the mean of a linear map over its graph."""

    node_dim = 4

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(4, 4)

    def forward(self, graph):
        return graph.replace(v=graph.mean_senders(self.w(graph.v)))


class DependsOnPositions(Layer):
    def forward(self, graph):
        after = super().forward(graph)
        return after.replace(v=after.v + torch.arange(after.v.shape[-2]).to(after.v).unsqueeze(-1))


class DependsOnBatch(Layer):
    def forward(self, graph):
        after = super().forward(graph)
        return after.replace(v=after.v - after.v[graph.node_mask].mean() if after.v.dim() == 3 else after.v)


class CountsPadding(Layer):
    def forward(self, graph):
        return graph.replace(v=self.w(graph.v) / graph.v.shape[-2])


class ReadsPadding(Layer):
    def forward(self, graph):
        return graph.replace(v=self.w(graph.v) + graph.v.sum(-2, keepdim=True) * 0.1)


class DividesByNeighbours(Layer):
    def forward(self, graph):
        return graph.replace(v=graph.v / (graph.count_nodes() - 1).view(-1, 1, 1))


class IsRandom(Layer):
    def forward(self, graph):
        return graph.replace(v=self.w(graph.v) + torch.rand(()).to(graph.v))


class DetachesHalf(Layer):
    def forward(self, graph):
        return graph.replace(v=self.w(graph.v) * self.w(graph.v).detach())


class EdgeListFormDiffers(Layer):
    def forward(self, graph):
        return graph.replace(v=self.w(graph.v) * (1 if graph.v.dim() == 3 else 2))


class HasInfiniteGradient(Layer):
    def forward(self, graph):
        return graph.replace(v=(self.w(graph.v) * 0).clamp_min(0).sqrt() + self.w(graph.v))


FAULTS = {
    DependsOnPositions: "order of the nodes",
    DependsOnBatch: "rest of the batch",
    CountsPadding: "more padding|rest of the batch",
    ReadsPadding: "values in the padding",
    DividesByNeighbours: "not finite",
    IsRandom: "two calls",
    DetachesHalf: "finite differences",
    EdgeListFormDiffers: "edge list form",
    HasInfiniteGradient: "gradient",
}


def test_a_correct_custom_layer_passes():
    assert "permutation_equivariance" in check_model(Layer())


@pytest.mark.parametrize(("layer", "message"), FAULTS.items())
def test_each_fault_is_found(layer, message):
    with pytest.raises(CheckFailed, match=message):
        check_model(layer())


def test_weights_that_do_not_sum_to_1_or_are_nonzero_without_an_edge_are_found():
    class Halved(AttentionEdgeUpdate):
        def _transform_weights(self, weights, graph):
            return super()._transform_weights(weights, graph) * 0.5

    class Leaking(AttentionEdgeUpdate):
        def forward(self, graph):
            messages = super().forward(graph)
            return replace(
                messages, weights=messages.weights + 0.1 if messages.weights.dim() == 4 else messages.weights
            )

    with pytest.raises(CheckFailed, match="do not sum to 1"):
        check_model(Halved(8, 2, 4))
    with pytest.raises(CheckFailed, match="no edge"):
        check_model(Leaking(8, 2, 4))


def test_a_model_whose_attention_method_has_other_outputs_is_found():
    model = build_model(GraphModelConfig(**SMALL), 1)

    class Other(type(model)):
        def attention(self, batch) -> tuple[Tensor, Tensor]:
            outputs, weights = super().attention(batch)
            return outputs + 1e-3, weights

    model.__class__ = Other
    with pytest.raises(CheckFailed, match="the output of `attention`"):
        check_model(model)


def test_a_layer_without_node_dim_needs_graphs():
    class WithoutSizes(Layer):
        node_dim = None

    with pytest.raises(TypeError, match="pass graphs"):
        check_model(WithoutSizes())
    check_model(WithoutSizes(), random_graphs(4))


def test_what_is_no_module_is_a_type_error():
    for wrong, name in ((None, "NoneType"), (Layer, "type"), ([Layer()], "list: pass one of its elements")):
        with pytest.raises(TypeError, match=f"^check_model takes a Module, not {name}$"):
            inspect.unwrap(check_model)(wrong)  # without the tests' check of its annotation


class Averaged(nn.Module):
    """Nodes that get the mean of their graph: a layer without parameters."""

    node_dim = 3

    def forward(self, graph):
        mean = graph.sum_nodes(graph.v) / graph.count_nodes().to(graph.v.dtype).unsqueeze(-1)
        return graph.replace(v=graph.broadcast_to_nodes(mean).expand_as(graph.v))


def test_a_layer_needs_no_parameters():
    assert check_model(Averaged())


def test_a_lazy_layer_has_to_be_called_first():
    with pytest.raises(TypeError, match="TensorDotConv is not initialized: call it once"):
        check_model(TensorDotConv(-1, 8))
