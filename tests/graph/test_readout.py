"""Readouts: the same in both forms, invariant to order and padding, and their equations."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from molattn.graph import READOUTS, AdditiveReadout, AttentionReadout, DenseGraph, VirtualNode
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import EDGE_DIM, F64, NODE_DIM, double, random_graphs

SIZES = [4, 1, 3, 5]
every_readout = pytest.mark.parametrize("name", READOUTS)


def readout(name):
    made = READOUTS[name](NODE_DIM)
    return double(made) if isinstance(made, nn.Module) else made


@pytest.mark.parametrize("name", [name for name in READOUTS if name != "virtual-node"])
def test_dense_and_edge_list_are_the_same_values_and_gradients(name):
    read = readout(name)
    graph = random_graphs(SIZES, requires_grad=True)
    listed = graph.to_edge_list()
    dense, sparse = read(graph.v, graph), read(listed.v, listed)
    assert_close(sparse, dense)
    inputs = [graph.u if name == "global" else graph.v]
    if isinstance(read, nn.Module):
        inputs += read.parameters()
    for a, b in zip(*(torch.autograd.grad(x.sin().sum(), inputs) for x in (dense, sparse)), strict=True):
        assert_close(b, a)


@every_readout
def test_padding_and_batch_invariance(name):
    read, graph = readout(name), random_graphs(SIZES)
    together = read(graph.v, graph)
    wider = graph.replace(v=F.pad(graph.v, (0, 0, 0, 2), value=9.0), node_mask=F.pad(graph.node_mask, (0, 2)), e=None)
    assert_close(read(wider.v, wider), together)
    for i, n in enumerate(SIZES):
        single = DenseGraph(graph.v[i : i + 1, :n], graph.node_mask[i : i + 1, :n], None, graph.u[i : i + 1])
        assert_close(read(single.v, single)[0], together[i])


@pytest.mark.parametrize("name", [name for name in READOUTS if name != "virtual-node"])
def test_invariance_to_the_order_of_the_nodes(name):
    read, graph = readout(name), random_graphs([5, 5])
    order = torch.tensor([2, 0, 4, 1, 3])
    shuffled = graph.replace(v=graph.v[:, order])
    assert_close(read(shuffled.v, shuffled), read(graph.v, graph))


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e30])
@every_readout
def test_values_in_the_padding_change_nothing_bit_for_bit(name, garbage):
    read, graph = readout(name), random_graphs(SIZES)
    padding = ~graph.node_mask.unsqueeze(-1)
    clean, dirty = (graph.replace(v=graph.v.masked_fill(padding, fill)) for fill in (0.0, garbage))
    assert_identical(read(dirty.v, dirty), read(clean.v, clean))


def test_the_attention_readout_matches_its_equation():
    read, graph = double(AttentionReadout(NODE_DIM, steps=2)), random_graphs([4])
    x, q = graph.v[0], read.query
    for _ in range(2):
        found = ((x @ q / NODE_DIM**0.5).softmax(0).unsqueeze(-1) * x).sum(0)
        q = q + found
    assert_close(read(graph.v, graph)[0], found)


def test_the_terms_of_the_additive_readout_add_up():
    read, graph = double(AdditiveReadout(NODE_DIM)), random_graphs([4])
    assert_close(read(graph.v, graph)[0], read.terms(graph.v)[0].sum(0))
    assert_close(read.terms(graph.v)[0, 0], F.gelu(read.w.weight @ graph.v[0, 0] + read.w.bias))


def test_the_virtual_node_is_the_first():
    graph = double(VirtualNode(NODE_DIM, EDGE_DIM))(random_graphs(SIZES))
    assert_identical(readout("virtual-node")(graph.v, graph), graph.v[:, 0])
    with pytest.raises(TypeError, match="takes a DenseGraph, not a Graph"):
        readout("virtual-node")(graph.to_edge_list().v, graph.to_edge_list())


def test_the_global_readout_needs_u():
    graph = random_graphs(SIZES, globals_=False)
    with pytest.raises(ValueError, match="'global' needs u"):
        readout("global")(graph.v, graph)


def test_readouts_with_float32_weights_accept_float64_nodes():
    graph = random_graphs(SIZES)
    for name in ("attention", "additive"):
        assert READOUTS[name](NODE_DIM)(graph.v, graph).dtype == F64


@pytest.mark.parametrize(("dim", "steps"), [(0, 3), (8, 0)])
def test_sizes_of_the_attention_readout_below_one_raise(dim, steps):
    with pytest.raises(ValueError, match="must be at least 1"):
        AttentionReadout(dim, steps)
