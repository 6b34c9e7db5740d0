"""Random walks, compared with matrix powers in numpy."""

import numpy as np
import pytest
import torch

from molattn.graph import RandomWalkEncoding, RandomWalkNodes
from molattn.graph.encodings import random_walks
from tests.assertions import assert_close, assert_identical
from tests.graph.encodings.batches import PARTS, SMILES, batch_of, num_atoms
from tests.graph.graphs import F64, double

BATCH = batch_of(*SMILES)
STEPS = 6


def powers(k):
    """[M^0, ..., M^(K-1)] of molecule k, its bonds read from the bond codes."""
    n = num_atoms(BATCH, k)
    a = (PARTS[BATCH.bond_codes[k, :n, :n].long()][..., 0] > 1).double().numpy()
    m = a / np.maximum(a.sum(-1, keepdims=True), 1)
    return torch.from_numpy(np.stack([np.linalg.matrix_power(m, p) for p in range(STEPS)], axis=-1))


@pytest.mark.parametrize("k", range(len(SMILES)), ids=SMILES)
def test_walks_are_powers_of_the_transition_matrix(k):
    walks = random_walks(BATCH, STEPS, F64)
    n = num_atoms(BATCH, k)
    assert_close(walks[k, :n, :n], powers(k))
    assert (walks[k, n:] == 0).all() and (walks[k, :, n:] == 0).all()


def test_features_are_a_linear_map_of_the_walks_and_of_their_diagonal():
    edges, nodes = double(RandomWalkEncoding(STEPS, 4)), double(RandomWalkNodes(STEPS, 4))
    for k in range(len(SMILES)):
        n, r = num_atoms(BATCH, k), powers(k)
        assert_close(edges(BATCH)[k, :n, :n], edges.linear(r))
        assert_close(nodes(BATCH)[k, :n], nodes.linear(torch.stack([r[i, i] for i in range(n)])))


def test_probabilities_sum_to_1_except_for_isolated_atoms():
    walks = random_walks(batch_of("CC.[Na+]", "C1CCCC1"), STEPS, F64)
    assert_close(walks[1].sum(1), torch.ones(5, STEPS, dtype=F64))
    isolated = walks[0, 2]
    assert_identical(isolated[2], torch.eye(STEPS, dtype=F64)[0])
    assert (isolated[:2] == 0).all()


def test_walks_start_at_the_receiver():
    walks = random_walks(batch_of("CCC"), 2, F64)[0, ..., 1]
    assert walks[0, 1] == 1 and walks[1, 0] == 0.5


@pytest.mark.parametrize("layer", [RandomWalkEncoding, RandomWalkNodes])
def test_steps_below_1_raise(layer):
    assert (random_walks(BATCH, 1).diagonal(dim1=1, dim2=2).squeeze(1) == BATCH.mask).all()
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        layer(0, 4)
