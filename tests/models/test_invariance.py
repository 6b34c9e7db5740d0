"""Predictions are invariant to the order of the atoms, the padding and the other molecules in a batch."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from molattn.chem import molecule_graph
from molattn.data.store.batches import collate
from molattn.graph import READOUTS
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from tests.molecules import SPECIAL, esol
from tests.predictions import compute_attention, predict_molecules

GRAPHS = [molecule_graph(s) for s in (*SPECIAL, *esol(80)[0])]
LARGEST = max(GRAPHS, key=lambda g: g.num_atoms)
Alone = dict[torch.dtype, np.ndarray]
PRECISIONS = [(torch.float32, 1e-6), (torch.float64, 1e-12)]


def _as(artifact: Artifact, dtype: torch.dtype) -> Artifact:
    return replace(artifact, model=deepcopy(artifact.model).to(dtype))


@pytest.fixture(scope="module")
def alone(artifact: Artifact) -> Alone:
    """The prediction for each molecule in a batch of its own."""
    return {dtype: _singly(_as(artifact, dtype), GRAPHS) for dtype, _ in PRECISIONS}


def _singly(artifact: Artifact, graphs: list) -> np.ndarray:
    return np.array([predict_molecules(artifact.model, artifact.scaler, [g])[0, 0] for g in graphs])


def _assert_same(a: np.ndarray, b: np.ndarray, tolerance: float) -> None:
    difference = np.abs(a - b) / np.maximum(1, np.abs(a))
    assert difference.max() <= tolerance, f"molecule {difference.argmax()}: {difference.max():.1e}"


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_atom_order_does_not_matter(artifact: Artifact, alone: Alone, dtype: torch.dtype, tolerance: float) -> None:
    artifact, rng = _as(artifact, dtype), np.random.default_rng(0)
    shuffled = [g.permute(rng.permutation(g.num_atoms).tolist()) for g in GRAPHS]
    _assert_same(alone[dtype], _singly(artifact, shuffled), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_batch_invariance(artifact: Artifact, alone: Alone, dtype: torch.dtype, tolerance: float) -> None:
    artifact = _as(artifact, dtype)
    together = predict_molecules(artifact.model, artifact.scaler, GRAPHS, batch_size=7)[:, 0]
    _assert_same(alone[dtype], together, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_padding_does_not_matter(artifact: Artifact, alone: Alone, dtype: torch.dtype, tolerance: float) -> None:
    artifact = _as(artifact, dtype)
    outputs = [artifact.model(collate([g, LARGEST]))[:1].numpy() for g in GRAPHS]
    padded = artifact.scaler.unscale(np.concatenate(outputs))[:, 0]
    _assert_same(alone[dtype], padded, tolerance)


def test_values_in_the_padding_do_not_change_a_bit(artifact: Artifact) -> None:
    batch = collate([GRAPHS[4], LARGEST])
    garbage = deepcopy(batch)
    there = garbage.mask[0]
    garbage.atom_codes[0, ~there] = 1
    garbage.bond_codes[0, ~there] = 3
    garbage.path_lengths[0, :, ~there] = 255
    assert torch.equal(artifact.model(batch), artifact.model(garbage))


@pytest.mark.parametrize("readout", READOUTS)
def test_every_readout_is_invariant(readout: str) -> None:
    torch.manual_seed(1)
    virtual = readout == "virtual-node"
    config = GraphModelConfig(
        readout=readout, virtual_node=virtual, global_dim=8, num_layers=2, hidden_dim=16, num_heads=2
    )
    model = GraphModel(config, num_outputs=2).double().eval()
    rng = np.random.default_rng(0)
    together = model(collate(GRAPHS))
    for i, graph in enumerate(GRAPHS):
        alone = model(collate([graph.permute(rng.permutation(graph.num_atoms).tolist())]))
        torch.testing.assert_close(alone[0], together[i], rtol=1e-12, atol=1e-12)


def test_stereo_isomers_differ(artifact: Artifact) -> None:
    for a, b in (("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"), ("C/C=C/C", "C/C=C\\C")):
        ya, yb = _singly(artifact, [molecule_graph(a), molecule_graph(b)])
        assert abs(ya - yb) > 1e-4


def test_all_smiles_of_a_molecule_predict_the_same(artifact: Artifact) -> None:
    spellings = [
        ("OC(=O)[C@H](C)N", "C[C@@H](C(O)=O)N"),
        ("F/C=C/Cl", "Cl\\C=C\\F"),
        ("c1ccccc1O", "OC1=CC=CC=C1"),
        ("[Na+].[Cl-]", "[Cl-].[Na+]"),
    ]
    for a, b in spellings:
        _assert_same(*(_singly(artifact, [molecule_graph(s)]) for s in (a, b)), 1e-6)


def test_attention_is_permuted_with_the_atoms(artifact: Artifact) -> None:
    artifact, rng = _as(artifact, torch.float64), np.random.default_rng(0)
    for graph in GRAPHS[:30]:
        order = rng.permutation(graph.num_atoms)
        y, weights = compute_attention(artifact.model, graph)
        y_shuffled, shuffled = compute_attention(artifact.model, graph.permute(order.tolist()))
        n = graph.num_atoms
        assert weights.shape == (4, 8, n, n)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=0, atol=1e-12)
        np.testing.assert_allclose(shuffled, weights[:, :, order][:, :, :, order], rtol=0, atol=1e-12)
        np.testing.assert_allclose(y, y_shuffled, rtol=0, atol=1e-12)


def test_attention_is_batch_invariant(artifact: Artifact) -> None:
    artifact = _as(artifact, torch.float64)
    _, batched = artifact.model.attention(collate([GRAPHS[3], LARGEST, GRAPHS[0]]))
    for i, graph in enumerate([GRAPHS[3], LARGEST, GRAPHS[0]]):
        n = graph.num_atoms
        _, alone = compute_attention(artifact.model, graph)
        np.testing.assert_allclose(batched[i, :, :, :n, :n].numpy(), alone, rtol=0, atol=1e-12)
        assert not batched[i, :, :, n:].any()
        assert not batched[i, :, :, :, n:].any()


def test_predictions_are_the_same_with_and_without_attention(artifact: Artifact) -> None:
    for graph in GRAPHS[:20]:
        y, _ = compute_attention(artifact.model, graph)
        without = predict_molecules(artifact.model, artifact.scaler, [graph])[0, 0]
        assert artifact.scaler.unscale(y)[0] == pytest.approx(without, abs=1e-6 * max(1, abs(without)))


def test_the_block_gives_the_same_numbers_in_all_three_forms(artifact: Artifact) -> None:
    model = _as(artifact, torch.float64).model
    dense = model.input_graph(collate(GRAPHS[:12]))
    edges = materialized = dense.to_edge_list()
    mask = dense.node_mask
    for block in model.blocks:
        dense, edges, materialized = block(dense), block(edges), block.materialize(materialized)[0]
        torch.testing.assert_close(dense.v[mask], materialized.v, rtol=0, atol=1e-12)
        torch.testing.assert_close(edges.v, materialized.v, rtol=0, atol=1e-12)
