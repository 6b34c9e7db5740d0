"""Batches of graphs: what is padded with what."""

import numpy as np
import pytest

from molattn.chem import Conformers, MoleculeGraph, molecule_graph
from molattn.data.batches import collate


def _graphs(*smiles: str) -> list[MoleculeGraph]:
    return [molecule_graph(s, conformers=Conformers()) for s in smiles]


def test_distances_are_padded_with_zeros_and_moved_with_the_rest() -> None:
    graphs = _graphs("C", "[Na+].[Cl-]", "CCO")
    batch = collate(graphs)
    assert batch.distances is not None
    assert batch.distances.shape == (3, 3, 3)
    for padded, graph in zip(batch.distances.numpy(), graphs, strict=True):
        n = graph.num_atoms
        assert np.array_equal(padded[:n, :n], graph.distances)
        assert not padded[n:].any()
        assert not padded[:, n:].any()
    assert np.isinf(batch.distances[1, 0, 1].item())
    moved = batch.to("meta").distances
    assert moved is not None
    assert moved.device.type == "meta"


def test_molecules_without_distances_make_a_batch_without() -> None:
    batch = collate([molecule_graph("C"), molecule_graph("CC")])
    assert batch.distances is None
    assert batch.to("cpu").distances is None


def test_molecules_with_and_without_do_not_mix() -> None:
    with pytest.raises(ValueError, match="1 of 2 molecules have distances"):
        collate([*_graphs("C"), molecule_graph("CC")])
