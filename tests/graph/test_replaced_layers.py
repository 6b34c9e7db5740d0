"""Layers of a block that are replaced, wrapped, hooked or reset after it is made: they are called, fused or not."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from molattn.attention import record_backends
from molattn.chem import ATOM_FEATURES, molecule_graph
from molattn.data.store.batches import collate
from molattn.graph import (
    AdditiveReadout,
    AttentionEdgeUpdate,
    DenseGraph,
    EdgeEmbedding,
    GraphNetBlock,
    NodeUpdate,
    SumEmbedding,
    run_blocks,
    sum_edges,
)
from molattn.graph.blocks import RelativeEdgeUpdate
from molattn.graph.encodings import DegreeEncoding, PathEncoding, Sum
from molattn.kernels.blocks import LIBRARY
from tests.adapters import Wrapped
from tests.assertions import assert_close
from tests.graph.graphs import EDGE_DIM, F64, FORMS, GLOBAL_DIM, NODE_DIM, double, random_graphs, through

F32 = torch.float32
PHI_E = {
    "default": AttentionEdgeUpdate,
    "additive": lambda *sizes: AttentionEdgeUpdate(*sizes, score="additive"),
    "with biases": lambda *sizes: AttentionEdgeUpdate(*sizes, bias=True),
    "relative": RelativeEdgeUpdate,
}


def doubled_by_hook(layer):
    layer.register_forward_hook(lambda _layer, _inputs, output: 2 * output)
    return layer


def doubled_in_place_of_forward(layer):
    forward = layer.forward
    layer.forward = lambda x: 2 * forward(x)
    return layer


def with_bias(layer):
    biased = nn.Linear(layer.in_features, layer.out_features, dtype=layer.weight.dtype)
    biased.weight = layer.weight
    return biased


CHANGES = {"a wrapper": Wrapped, "a hook": doubled_by_hook, "another forward": doubled_in_place_of_forward}


def block_with(phi_e):
    made = PHI_E[phi_e](NODE_DIM, 2, NODE_DIM // 2, EDGE_DIM, GLOBAL_DIM)
    return double(GraphNetBlock(NODE_DIM, 2, EDGE_DIM, GLOBAL_DIM, phi_e=made))


@pytest.mark.parametrize("phi_e", PHI_E)
@pytest.mark.parametrize("change", CHANGES)
def test_a_replaced_or_hooked_layer_of_the_attention_is_called_in_every_form(phi_e, change):
    graph = random_graphs([3, 2], density=0.8)
    names = [name for name, layer in block_with(phi_e).phi_e.named_children() if name.startswith("w_")]
    assert {"w_q", "w_k", "w_v", "w_ke", "w_ve", "w_qu", "w_ku", "w_vu"} <= set(names)
    for name in names:
        twice: Any = block_with(phi_e)
        layer = getattr(twice.phi_e, name)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter *= 2
        changed: Any = block_with(phi_e)
        setattr(changed.phi_e, name, CHANGES[change](getattr(changed.phi_e, name)))
        for form in FORMS:
            for ours, theirs in zip(
                through(changed, graph, form).tensors(), through(twice, graph, form).tensors(), strict=True
            ):
                assert_close(ours, theirs)


@pytest.mark.parametrize("names", ["w_q", "w_k", "w_v", "w_ke", "w_ve", "w_be", "w_q w_k w_v", "w_ke w_ve w_be"])
def test_a_bias_that_the_default_layers_lack_is_added_in_every_form(names):
    net: Any = double(GraphNetBlock(NODE_DIM, 2, EDGE_DIM))
    for name in names.split():
        setattr(net.phi_e, name, with_bias(getattr(net.phi_e, name)))
    assert net.fused_unsupported_reason(EDGE_DIM) == f"a bias of {names.split()[0]}"
    graph = random_graphs([3, 2], globals_=False)
    expected = through(net, graph, "materialized")
    for form in FORMS:
        assert_close(through(net, graph, form).v, expected.v)


def blocks_of(dtype=F32, count=2, **options) -> list[Any]:
    torch.manual_seed(0)
    return [GraphNetBlock(32, 4, 5, hidden_dim=48, **options).to(dtype) for _ in range(count)]


def graph_of(dtype=F32):
    g = torch.Generator().manual_seed(1)
    v, e = torch.randn(2, 4, 32, generator=g, dtype=dtype), torch.randn(2, 4, 4, 5, generator=g, dtype=dtype)
    return DenseGraph(v, torch.arange(4) < torch.tensor([[4], [3]]), e)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_hooks_of_blocks_run_in_a_stack_and_in_a_single_block(dtype):
    blocks, seen = blocks_of(dtype), []
    graph = graph_of(dtype)
    before = run_blocks(blocks, graph)
    for block in blocks:
        block.register_forward_hook(lambda *_: seen.append("after"))
        block.register_forward_pre_hook(lambda *_: seen.append("before"))
    after = run_blocks(blocks, graph)
    assert seen == ["before", "after"] * 2
    assert_close(after.v[graph.node_mask], before.v[graph.node_mask], 1e-5)
    run_blocks(blocks[:1], graph)
    blocks[0](graph)
    assert seen == ["before", "after"] * 4


def test_a_subclass_of_the_block_runs_its_own_forward_in_a_stack():
    class Twice(GraphNetBlock):
        def forward(self, graph):
            return super().forward(super().forward(graph))

    torch.manual_seed(0)
    block, graph = Twice(32, 4, 5), graph_of()
    expected = block.forward_unfused(block.forward_unfused(graph)).v
    assert_close(run_blocks([block], graph).v[graph.node_mask], expected[graph.node_mask], 1e-5)


def test_a_hook_of_all_modules_sees_those_of_a_block():
    (block,), seen = blocks_of(count=1), []
    handle = register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        block(graph_of())
    finally:
        handle.remove()
    expected = [block.phi_e.w_q, block.phi_e.w_ke, block.join.linear, *block.phi_v.feed_forward, block.norm_v]
    assert all(any(module is x for x in seen) for module in expected)


PARTS = ["norm_v", "phi_e", *(f"phi_e.{name}" for name in ("w_q", "w_k", "w_v", "w_ke", "w_ve", "w_be"))]
PARTS += ["join", "join.linear", "phi_v", "phi_v.norm", "phi_v.feed_forward"]
PARTS += [f"phi_v.feed_forward.{i}" for i in range(4)]


@pytest.mark.parametrize("part", PARTS)
def test_a_hook_of_any_part_runs(part):
    blocks, seen = blocks_of(), []
    assert not blocks[0].fused_unsupported_reason(5)
    blocks[0].get_submodule(part).register_forward_hook(lambda *_: seen.append(1))
    assert blocks[0].fused_unsupported_reason(5)
    assert not blocks[1].fused_unsupported_reason(5)
    run_blocks(blocks, graph_of())
    blocks[0](graph_of())
    assert seen == [1, 1]


@pytest.mark.parametrize(
    "norm", [nn.Identity(), nn.LayerNorm(32, elementwise_affine=False), nn.LayerNorm(32, bias=False)], ids=str
)
@pytest.mark.parametrize("where", ["norm_v", "phi_v.norm"])
def test_a_norm_that_was_replaced_is_called(norm, where):
    (block,), graph = blocks_of(count=1), graph_of()
    setattr(block if where == "norm_v" else block.phi_v, where.rpartition(".")[2], norm)
    assert block.fused_unsupported_reason(5)
    expected = block.materialize(graph)[0].v
    assert_close(block(graph).v[graph.node_mask], expected, 1e-5)
    assert_close(run_blocks([block], graph).v[graph.node_mask], expected, 1e-5)


def test_the_feed_forward_network_runs_as_it_was_changed():
    torch.manual_seed(0)
    phi_v, graph = NodeUpdate(32, hidden_dim=48), graph_of()
    ebar = torch.randn(2, 4, 32)
    x = graph.v + ebar
    for activation in (nn.ReLU(), nn.GELU("tanh")):
        phi_v.feed_forward[1] = activation
        assert_close(phi_v(ebar, graph), x + phi_v.feed_forward(phi_v.norm(x)), 1e-6)
    phi_v.feed_forward = nn.Linear(32, 32)  # of another length, too
    assert_close(phi_v(ebar, graph), x + phi_v.feed_forward(phi_v.norm(x)), 1e-6)


def test_a_dropout_of_the_feed_forward_network_that_was_changed_has_an_effect():
    (block,), graph = blocks_of(count=1), graph_of()
    block.phi_v.feed_forward[2].p = 0.999
    block.phi_v.feed_forward[3].bias.data.zero_()
    assert block.fused_unsupported_reason(5)
    x = graph.v
    without_last = block.phi_v(torch.zeros_like(x), graph)
    assert (without_last == x).float().mean() > 0.5


def test_dropouts_that_differ_or_train_apart_do_not_run_fused():
    (block,) = blocks_of(count=1, dropout=0.5)
    assert not block.fused_unsupported_reason(5)
    block.phi_e.eval()
    assert block.fused_unsupported_reason(5) == "different dropouts in phi_e and phi_v"
    (block,) = blocks_of(count=1, dropout=0.5, phi_e=AttentionEdgeUpdate(32, 4, 8, 5, dropout=0.25))
    assert block.fused_unsupported_reason(5) == "different dropouts in phi_e and phi_v"


def test_dropouts_that_differ_run_fused_in_evaluation_where_there_is_none():
    (block,), graph = blocks_of(count=1, dropout=0.5, phi_e=AttentionEdgeUpdate(32, 4, 8, 5, dropout=0.25)), graph_of()
    block.phi_v.feed_forward[2].p = 0.1
    assert block.fused_unsupported_reason(5)
    block.eval()
    assert not block.fused_unsupported_reason(5)
    with record_backends() as calls:
        v = block(graph).v
    compiled = LIBRARY.unavailable_reason() == ""
    assert not compiled or [call.backend for call in calls if call.operation == "blocks"] == ["compiled"]
    assert_close(v[graph.node_mask], block.forward_unfused(graph).v[graph.node_mask], 1e-5)
    block.phi_e.train()
    assert block.fused_unsupported_reason(5) == "different dropouts in phi_e and phi_v"


@pytest.mark.parametrize("dtype", [F32, F64])
def test_edge_codes_of_the_padding_are_not_read(dtype):
    blocks, graph = blocks_of(dtype), graph_of(dtype)
    table = torch.randn(3, 5, dtype=dtype)
    codes = torch.randint(3, (2, 4, 4), dtype=torch.uint8)
    padding = ~(graph.node_mask.unsqueeze(-1) & graph.node_mask.unsqueeze(-2))
    clean, dirty = (EdgeEmbedding((table,), (codes.masked_fill(padding, code),)) for code in (0, 255))
    expected = run_blocks(blocks, graph.replace(e=None), clean)
    assert_close(run_blocks(blocks, graph.replace(e=None), dirty).v[graph.node_mask], expected.v[graph.node_mask], 0.0)
    with pytest.raises(IndexError):
        run_blocks(blocks, graph.replace(e=None), EdgeEmbedding((table,), (torch.full_like(codes, 255),)))


@pytest.mark.parametrize("change", [Wrapped, doubled_by_hook, doubled_in_place_of_forward])
def test_the_layer_of_an_additive_readout_is_called_if_it_was_replaced(change):
    readout = AdditiveReadout(4)
    x = torch.randn(2, 3, 4, dtype=F64)
    with torch.no_grad():
        expected = torch.nn.functional.gelu(
            2 * torch.nn.functional.linear(x, readout.w.weight.to(F64), readout.w.bias.to(F64))
        )
    readout.w = change(readout.w)
    assert_close(readout.terms(x), expected, tol=1e-5)
    assert readout.terms(x).dtype == F64


@pytest.mark.parametrize("change", CHANGES)
def test_a_replaced_or_hooked_embedding_is_called(change):
    molecules = collate([molecule_graph(smiles) for smiles in ("CC(=O)Oc1ccccc1", "C.[Na+]")])
    sizes = [feature.size for feature in ATOM_FEATURES]
    for layer, name, inputs in (
        (SumEmbedding(sizes, 8), "table", molecules.atom_codes),
        (PathEncoding(8, 4), "path", molecules),
        (DegreeEncoding(8, 3), "degree", molecules),
    ):
        expected = layer(inputs)
        with pytest.raises(IndexError) if name == "table" else nullcontext():
            layer(inputs + 200 if name == "table" else inputs)
        setattr(layer, name, CHANGES[change](getattr(layer, name)))
        assert_close(layer(inputs), 2 * expected, 1e-6)
        with pytest.raises(IndexError) if name == "table" else nullcontext():
            layer(inputs + 200 if name == "table" else inputs)


def test_edge_embeddings_are_those_of_forward():
    molecules = collate([molecule_graph("CCO")])

    class Doubled(PathEncoding):
        def forward(self, molecules):
            return 2 * super().forward(molecules)

    class Both(Doubled):
        def edge_embedding(self, molecules):
            return super().edge_embedding(molecules)

    plain = PathEncoding(8, 4)
    assert Sum([plain]).edge_embedding_of_forward(molecules) is not None
    assert Both(8, 4).edge_embedding_of_forward(molecules) is not None
    assert Doubled(8, 4).edge_embedding_of_forward(molecules) is None
    assert Sum([plain, Doubled(8, 4)]).edge_embedding_of_forward(molecules) is None
    whole = Sum([plain])
    plain.register_forward_hook(lambda *_: None)
    assert whole.edge_embedding_of_forward(molecules) is None


@pytest.mark.parametrize("read", [lambda m: m.weights, lambda m: m.sum(), lambda m: m.weights_after_dropout])
def test_messages_that_were_read_without_gradients_have_them(read):
    def rho_ev(messages):
        with torch.no_grad():
            assert read(messages) is not None
        return sum_edges(messages)

    for graph in (graph_of(F64), graph_of(F64).to_edge_list()):
        gradients = []
        for aggregate in ("sum", rho_ev):
            torch.manual_seed(0)
            net = GraphNetBlock(32, 4, 5, rho_ev=aggregate).to(F64)
            net(graph).v.square().sum().backward()
            gradients.append({name: p.grad for name, p in net.named_parameters()})
        assert gradients[0].keys() == gradients[1].keys()
        for name, gradient in gradients[0].items():
            if gradient is None:
                assert gradients[1][name] is None
            else:
                assert_close(gradients[1][name], gradient)
