"""Every published block against its paper, in plain numpy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from molattn.graph import Graph
from molattn.graph.blocks import BLOCKS, mat
from tests.assertions import assert_close
from tests.graph.blocks.cases import HEADS, NAMES, WITHOUT_U, config, graphs_for, make_block
from tests.graph.blocks.references import REFERENCES, Arrays, Weights, grit
from tests.graph.blocks.references import mat as mat_in_numpy
from tests.graph.graphs import FORMS, double, through

GRAPHS = {
    "complete": ([5, 3], None),
    "of one node": ([1, 1], None),
    "of several sizes": ([4, 1, 2, 6, 1], None),
    "sparse": ([6, 4, 1], 0.4),
    "without edges": ([3, 1], 0.0),
}


def weights_of(net):
    return Weights({name: p.detach().numpy() for name, p in net.named_parameters()}, HEADS)


def arrays_of(graph, *, degree=True):
    listed: Any = graph if isinstance(graph, Graph) else graph.to_edge_list()
    return Arrays(
        listed.v.numpy(),
        listed.e.numpy(),
        None if listed.u is None else listed.u.numpy(),
        listed.sender.tolist(),
        listed.receiver.tolist(),
        listed.node_graph.tolist(),
        listed.num_graphs,
        (listed.degree if degree else listed.count_edges()).numpy(),
    )


def assert_agrees(net, graph, layer, tol=1e-10, forms=FORMS):
    expected = [torch.from_numpy(x) for x in (layer.v, layer.e, layer.u, layer.weights) if x is not None]
    with torch.no_grad():
        for form in forms:
            for ours, theirs in zip(through(net, graph, form).tensors(), expected, strict=True):
                assert_close(ours, theirs, tol)


def test_every_block_has_a_reference():
    assert list(REFERENCES) == list(BLOCKS)


@pytest.mark.parametrize(
    ("name", "globals_"), [(name, u) for name in NAMES for u in (True, False) if not (u and name in WITHOUT_U)]
)
@pytest.mark.parametrize("kind", GRAPHS)
def test_a_block_matches_its_paper_in_numpy(name, kind, globals_):
    of_sizes, density = GRAPHS[kind]
    net = make_block(name, globals_=globals_)
    for seed in range(2):
        graph, w = graphs_for(name, of_sizes, globals_=globals_, density=density, seed=seed), weights_of(net)
        assert_agrees(net, graph, REFERENCES[name](w, arrays_of(graph)))
        if graph.edges.any():
            assert w.read == set(w.named)  # the block has no weight that its paper does not


@pytest.mark.parametrize("name", NAMES)
def test_a_block_matches_its_paper_with_directed_and_repeated_edges(name):
    net, listed = make_block(name), graphs_for(name, [3, 4], density=0.6).to_edge_list()
    order = torch.randint(len(listed.sender), (15,), generator=torch.Generator().manual_seed(1))
    listed = listed.replace(sender=listed.sender[order], receiver=listed.receiver[order], e=listed.e[order])
    assert len({(int(s), int(r)) for s, r in zip(listed.sender, listed.receiver, strict=True)}) < 15
    layer = REFERENCES[name](weights_of(net), arrays_of(listed))
    assert_agrees(net, listed, layer, forms=("edge list", "materialized"))


def test_mat_with_other_lambdas_and_edges_matches_its_paper():
    lambdas = (0.5, 0.1, 0.4)
    net = double(mat(replace(config("mat"), lambdas=lambdas)))
    graph = graphs_for("mat", [5, 2])
    g = torch.Generator().manual_seed(1)
    distance = torch.rand(2, 5, 5, generator=g, dtype=torch.float64) * 6
    adjacency = torch.randint(2, (2, 5, 5), generator=g).to(torch.float64)
    graph = graph.replace(e=torch.stack([torch.exp(-distance), adjacency], -1))
    assert_agrees(net, graph, mat_in_numpy(weights_of(net), arrays_of(graph), lambdas))


def test_grit_without_degrees_counts_the_edges_into_a_node():
    net = make_block("grit")
    graph = graphs_for("grit", [5, 3], density=0.6).replace(degree=None)
    assert_agrees(net, graph, grit(weights_of(net), arrays_of(graph, degree=False)))


def test_grits_smoothed_square_root_is_close_to_the_papers():
    net = make_block("grit")
    graph = graphs_for("grit", [6, 4])
    assert_agrees(net, graph, grit(weights_of(net), arrays_of(graph), eps=1e-300), tol=1e-3)
    x = np.concatenate([-np.geomspace(1e-12, 1e6, 400), np.geomspace(1e-12, 1e6, 400)])
    assert np.abs(x / np.sqrt(np.abs(x) + 1e-6) - np.sign(x) * np.sqrt(np.abs(x))).max() < 5e-4
