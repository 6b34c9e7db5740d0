"""Graph layers under what looks at torch's own operations: fake tensors, tracers, counters, transforms, threads."""

import gc
import inspect
import threading
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from molattn.attention import backend
from molattn.graph import AttentionReadout, DenseGraph, Graph, GraphNetBlock, SumEmbedding, TensorDotConv
from tests.assertions import assert_close

SENDERS_AND_RECEIVERS = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def dense_graph(v, e, sizes=(5, 3)):
    return DenseGraph(v, torch.arange(5) < torch.tensor(sizes).unsqueeze(-1), e)


@pytest.fixture
def block():
    torch.manual_seed(0)
    return GraphNetBlock(16, 2, 3).eval()


@pytest.fixture
def conv():
    torch.manual_seed(0)
    return TensorDotConv(16, 8, heads=2, edge_dim=3)


@pytest.mark.parametrize("kind", ["dense", "dense without edges", "edge list", "conv", "embedding", "dropout"])
def test_fake_tensors_have_the_shapes_of_the_results(kind):
    def result():
        v, e = torch.randn(5, 16), torch.randn(4, 3)
        senders_and_receivers = torch.zeros(2, 4, dtype=torch.long)
        if kind == "conv":
            return TensorDotConv(16, 8, heads=2, edge_dim=3)(v, senders_and_receivers, e)
        if kind == "embedding":
            return SumEmbedding([3, 4], 8)(torch.zeros(2, 5, 2, dtype=torch.uint8))
        if kind == "edge list":
            return GraphNetBlock(16, 2, 3)(Graph.from_edge_index(v, senders_and_receivers, e)).v
        edges = torch.randn(1, 5, 5, 3) if kind == "dense" else None
        block = GraphNetBlock(16, 2, 0 if edges is None else 3, dropout=0.1 if kind == "dropout" else 0.0)
        return block(DenseGraph(v.unsqueeze(0), torch.ones(1, 5, dtype=torch.bool), edges)).v

    expected = result().shape
    with FakeTensorMode():
        assert result().shape == expected


@pytest.mark.parametrize("dense", [True, False])
def test_a_traced_graph_computes_the_function(block, dense):
    v, e = (randn(2, 5, 16), randn(2, 5, 5, 3)) if dense else (randn(5, 16), randn(4, 3))

    def function(v, e):
        return block(dense_graph(v, e) if dense else Graph.from_edge_index(v, SENDERS_AND_RECEIVERS, e)).v

    with torch.no_grad():
        traced = make_fx(function)(v, e)
        for x in (v, v + 1):
            assert_close(traced(x, e), function(x, e), tol=1e-5)


def test_a_traced_embedding_computes_the_function():
    embedding, codes = SumEmbedding([3, 4], 8), torch.randint(3, (2, 5, 2), dtype=torch.uint8)
    assert_close(make_fx(embedding)(codes)(2 - codes), embedding(2 - codes), tol=1e-6)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_torch_jit_trace_of_a_dense_block(block):
    class Nodes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = block

        def forward(self, v, e):
            return self.block(dense_graph(v, e)).v

    v, e = randn(2, 5, 16), randn(2, 5, 5, 3)
    assert_close(torch.jit.trace(Nodes(), (v, e))(v + 1, e), Nodes()(v + 1, e), tol=1e-5)


def test_a_counter_of_flops_sees_all_products(block):
    def flops():
        with FlopCounterMode(display=False) as counter:
            block(dense_graph(randn(2, 5, 16), randn(2, 5, 5, 3)))
        return counter.get_total_flops()

    with backend("reference"):
        expected = flops()
    assert flops() == expected > 0


def test_vmap_over_what_comes_after_a_layer(block, conv):
    graph, x, e = dense_graph(randn(2, 5, 16), randn(2, 5, 5, 3)), randn(5, 16), randn(4, 3)
    factors = randn(3)
    for y in (lambda: block(graph).v, lambda: conv(x, SENDERS_AND_RECEIVERS, e)):
        assert_close(vmap(lambda s, y=y: s * y())(factors), torch.stack([s * y() for s in factors]), tol=1e-4)
        assert_close(grad(lambda s, y=y: (s * y()).sum())(factors[0]), y().sum().detach(), tol=1e-4)


@pytest.mark.parametrize("name", ["edge_mask", "node_mask"])
def test_vmap_over_masks(block, name):
    v, e = randn(2, 5, 16), randn(2, 5, 5, 3)
    g = torch.Generator().manual_seed(1)
    masks = torch.rand((4, 2, 5, 5) if name == "edge_mask" else (4, 2, 5), generator=g) < 0.7
    graph = dense_graph(v, e)
    found = vmap(lambda mask: block(graph.replace(**{name: mask})).v)(masks)
    assert_close(found, torch.stack([block(graph.replace(**{name: mask})).v for mask in masks]), tol=1e-5)


def test_vmap_over_edge_lists_and_over_the_weights_of_the_root(conv):
    x, e = randn(5, 16), randn(4, 3)
    lists = torch.stack([SENDERS_AND_RECEIVERS, SENDERS_AND_RECEIVERS.flip(0)])
    assert_close(vmap(lambda i: conv(x, i, e))(lists), torch.stack([conv(x, i, e) for i in lists]), tol=1e-5)
    weights = randn(3, *conv.w_root.weight.shape)

    def of_weights(w):
        return functional_call(conv, {"w_root.weight": w}, (x, SENDERS_AND_RECEIVERS, e))

    assert_close(vmap(of_weights)(weights), torch.stack([of_weights(w) for w in weights]), tol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_in_a_batch(block, dtype):
    block, e = block.to(dtype), randn(2, 5, 5, 3, dtype=dtype)
    v = randn(2, 5, 16, dtype=dtype)

    def function(v):
        return block(dense_graph(v, e)).v

    found, expected = (torch.autograd.functional.jacobian(function, v, vectorize=batched) for batched in (True, False))
    assert_close(found, expected, tol=1e-5)
    small = v[:, :, :] * 0.1
    hessians = (
        torch.autograd.functional.hessian(lambda v: function(v).square().sum(), small, vectorize=batched)
        for batched in (True, False)
    )
    assert_close(*hessians, tol=1e-3)


def test_threads_may_differentiate_one_graph(block):
    v = randn(2, 5, 16).requires_grad_()
    y = block(dense_graph(v, randn(2, 5, 5, 3))).v.square().sum()
    inputs = [v, *block.parameters()]
    expected, right = torch.autograd.grad(y, inputs, retain_graph=True), []

    def differentiate():
        for _ in range(50):
            found = torch.autograd.grad(y, inputs, retain_graph=True)
            right.append(all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True)))

    threads = [threading.Thread(target=differentiate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 200


def test_the_gradient_frees_what_the_forward_pass_saved(block):
    e = randn(2, 5, 5, 3)
    alive = weakref.ref(e)
    loss = block(dense_graph(randn(2, 5, 16), e)).v.square().mean()
    loss.backward()
    del e
    gc.collect()
    assert loss.grad_fn is not None and alive() is None


@pytest.mark.parametrize("strided", [False, True])
def test_hooks_of_saved_tensors_may_move_them(block, strided):
    v, e = randn(2, 5, 16), randn(2, 5, 5, 3)
    if strided:
        v, e = v.mT.contiguous().mT, e.transpose(1, 2)
    v, e = v.requires_grad_(), e.requires_grad_()
    inputs = [v, e, *block.parameters()]
    expected = torch.autograd.grad(block(dense_graph(v, e)).v.square().sum(), inputs)
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda x: x):
        y = block(dense_graph(v, e)).v.square().sum()
    for found, x in zip(torch.autograd.grad(y, inputs), expected, strict=True):
        assert_close(found, x, tol=1e-6)


def test_a_node_mask_that_is_modified_in_place_is_read_again(block):
    graph = dense_graph(randn(2, 5, 16), randn(2, 5, 5, 3))
    block(graph)
    graph.node_mask[0, 4] = False
    assert_close(block(graph).v, block(dense_graph(graph.v, graph.e, (4, 3))).v, tol=1e-6)


@pytest.mark.parametrize("edge_dim", [0, 3])
def test_every_backend_has_zeros_in_the_padding(edge_dim):
    block = GraphNetBlock(16, 2, edge_dim).eval()
    graph = dense_graph(randn(2, 5, 16), randn(2, 5, 5, 3) if edge_dim else None)
    with backend("reference"):
        expected = block(graph).v
    assert_close(block(graph).v, expected, tol=1e-5)
    assert not expected[1, 3:].any() and expected[1, :3].all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_readout_of_many_nodes_in_sixteen_bits_is_a_mean(dtype):
    n = 2000
    readout, x = AttentionReadout(8, steps=1).to(dtype), torch.ones(n, 8, dtype=dtype)
    graph = Graph.from_edge_index(x, torch.zeros(2, 0, dtype=torch.long))
    assert_close(readout(x, graph)[0, :8].float(), torch.ones(8), tol=0.01)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"v": torch.zeros(2, 5, 15)}, ValueError, "the nodes have 15 channels, and the block has node_dim=16"),
        ({"e": torch.zeros(2, 5, 5, 3, dtype=torch.float64)}, ValueError, "the edge features are torch.float64"),
        ({"node_mask": torch.ones(2, 5, dtype=torch.long)}, TypeError, "node_mask is boolean"),
        ({"edge_mask": torch.ones(2, 5, 5)}, TypeError, "edge_mask is boolean, True where there is an edge"),
        (
            {"node_mask": torch.ones(2, 1, dtype=torch.bool)},
            ValueError,
            r"node_mask is \(2, 5\) for 2 graphs of 5 nodes",
        ),
        ({"node_mask": torch.ones(1, 5, dtype=torch.bool)}, ValueError, r"not of shape \(1, 5\)"),
        ({"edge_mask": torch.ones(1, 5, 5, dtype=torch.bool)}, ValueError, r"edge_mask is \(2, 5, 5\)"),
        ({"e": torch.zeros(1, 5, 5, 3)}, ValueError, r"e is \(2, 5, 5, channels\)"),
    ],
)
@pytest.mark.parametrize("names", [("compiled", "chunked", "fused"), ("reference",)])
def test_inputs_that_do_not_fit_a_block_are_named_by_every_backend(block, change, error, message, names):
    graph = dense_graph(randn(2, 5, 16), randn(2, 5, 5, 3))
    for field, wrong in change.items():
        object.__setattr__(graph, field, wrong)  # as the tests' check of types refuses a graph that is made so
    with backend(*names), pytest.raises(error, match=message):
        block(graph)


def test_an_edge_list_is_not_made_from_a_mask_of_integers():
    graph = dense_graph(randn(2, 5, 4), None)
    object.__setattr__(graph, "node_mask", torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]))
    with pytest.raises(TypeError, match=r"node_mask is boolean, True where there is a node, not torch\.int64"):
        graph.to_edge_list()
    for mask in (torch.ones(2, 5), torch.ones(2, 5, dtype=torch.long)):
        call = inspect.unwrap(TensorDotConv.forward_dense)
        with pytest.raises(TypeError, match="mask is boolean, not"):
            call(TensorDotConv(4, 2), randn(2, 5, 4), mask)


def test_graphs_are_moved_with_their_features():
    dense = dense_graph(randn(2, 5, 4), randn(2, 5, 5, 2))
    for graph in (dense, dense.to_edge_list()):
        for moved in (graph.to(torch.float64), graph.to("cpu", torch.float64), graph.to(dtype=torch.float64)):
            assert moved.v.dtype == moved.e.dtype == torch.float64
            assert_close(moved.v.float(), graph.v)
            assert type(moved) is type(graph) and moved.u is None
        assert graph.to("meta").v.is_meta
    assert dense.to(torch.float64).node_mask.dtype == torch.bool
    assert dense.to_edge_list().to(torch.float64).sender.dtype == torch.int64
    assert (dense == dense) is True and (dense == dense.to("cpu")) is False  # no comparison of tensors


def test_edge_lists_that_do_not_fit_are_refused():
    x, e = randn(5, 16), randn(4, 3)
    make = inspect.unwrap(Graph.from_edge_index.__func__)  # without the tests' check of types, which would raise first
    with pytest.raises(TypeError, match=r"edge_index is of integers, not torch\.float32"):
        make(Graph, x, SENDERS_AND_RECEIVERS + 0.9, e)
    for wrong in (e[:1], e[:, 0]):
        with pytest.raises(ValueError, match=r"edge_attr is \(edges, channels\) for 4 edges, not of shape \("):
            make(Graph, x, SENDERS_AND_RECEIVERS, wrong)
    with pytest.raises(ValueError, match=r"u is \(graphs, channels\), not of shape \(4,\)"):
        make(Graph, x, SENDERS_AND_RECEIVERS, e, torch.ones(4))
    with pytest.raises(ValueError, match=r"edge_index is \(2, edges\), not \(4, 2\)"):
        make(Graph, x, SENDERS_AND_RECEIVERS.T, e)
