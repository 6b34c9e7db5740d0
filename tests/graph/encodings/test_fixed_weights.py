"""Fixed attention weights, compared with loops in plain Python."""

import math

import pytest
import torch

from molattn.graph import AdjacencyWeights, DistanceKernel
from tests.assertions import assert_close, assert_identical
from tests.graph.encodings.batches import PARTS, SMILES, batch_of, num_atoms
from tests.graph.graphs import F64

BATCH = batch_of(*SMILES)


def test_softmax_of_distances_sums_to_1_over_the_atoms_of_the_fragment():
    weights = DistanceKernel("softmax").double()(BATCH).squeeze(-1)
    for k in range(len(SMILES)):
        for i in range(num_atoms(BATCH, k)):
            shares = [math.exp(-d) for d in BATCH.distances[k, i, : num_atoms(BATCH, k)].tolist()]
            expected = torch.tensor(shares, dtype=F64) / sum(shares)
            assert_close(weights[k, i, : len(shares)], expected)
    assert_close(weights.sum(-1), BATCH.mask.double())


def test_exp_of_distances_does_not_sum_to_1():
    weights = DistanceKernel("exp").double()(BATCH).squeeze(-1)
    real = BATCH.mask.unsqueeze(-1) & BATCH.mask.unsqueeze(-2)
    assert_close(weights[real], torch.exp(-BATCH.distances[real]))
    assert (weights.sum(-1)[0] > 1).any()


def test_large_distances_do_not_overflow():
    far = BATCH.replace(distances=BATCH.distances * 1e4)
    for kind in ("softmax", "exp"):
        weights = DistanceKernel(kind)(far)
        assert_identical(weights.squeeze(-1), torch.diag_embed(BATCH.mask.float()))


def test_adjacency_weights_are_equal_for_an_atom_and_its_neighbours():
    weights = AdjacencyWeights().double()(BATCH).squeeze(-1)
    for k in range(len(SMILES)):
        n = num_atoms(BATCH, k)
        near = PARTS[BATCH.bond_codes[k, :n, :n].long()][..., 0] > 0
        for i in range(n):
            share = 1 / int(near[i].sum())
            assert_close(weights[k, i, :n], torch.tensor([share if x else 0.0 for x in near[i]], dtype=F64))
    assert_close(weights.sum(-1), BATCH.mask.double())


@pytest.mark.parametrize("layer", [DistanceKernel("softmax"), DistanceKernel("exp"), AdjacencyWeights()])
def test_atoms_without_neighbours_have_weight_1_with_themselves(layer):
    weights = layer.double()(batch_of("C", "[Na+].[Cl-]")).squeeze(-1)
    assert_identical(weights, torch.diag_embed(torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=F64)))


def test_a_kernel_is_a_function_or_a_known_name():
    near = DistanceKernel(lambda d, near: (near & (d < 2)).to(d.dtype))(BATCH)
    assert near.unique().tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"unknown kernel 'linear': choose one of softmax, exp"):
        DistanceKernel("linear")
