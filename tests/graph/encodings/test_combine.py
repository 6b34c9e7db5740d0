"""Encodings added and side by side."""

import pytest
import torch

from molattn.graph import BondEncoding, Concat, DegreeEncoding, NeighbourhoodOrder, PathEncoding, RandomWalkNodes, Sum
from tests.assertions import assert_identical
from tests.graph.encodings.batches import PARTS, SIZES, SMILES, batch_of
from tests.graph.graphs import double

BATCH = batch_of(*SMILES)


def test_a_sum_adds_and_a_concat_sets_side_by_side():
    bond, path, order = BondEncoding(PARTS, SIZES, 4), PathEncoding(4, 3), NeighbourhoodOrder(3)
    added, joined = double(Sum([bond, path])), double(Concat([order, bond]))
    assert added.dim == 4 and joined.dim == 5 + 4
    assert_identical(added(BATCH), bond(BATCH) + path(BATCH))
    assert_identical(joined(BATCH), torch.cat([order(BATCH), bond(BATCH)], dim=-1))


def test_what_describes_nodes_is_put_together_in_the_same_way():
    degree, walks = DegreeEncoding(4, 3), RandomWalkNodes(5, 4)
    assert_identical(Sum([degree, walks])(BATCH), degree(BATCH) + walks(BATCH))
    assert_identical(Concat([degree, walks])(BATCH), torch.cat([degree(BATCH), walks(BATCH)], dim=-1))


def test_one_alone_is_itself():
    path = PathEncoding(4, 3)
    assert_identical(Sum([path])(BATCH), path(BATCH))
    assert_identical(Concat([path])(BATCH), path(BATCH))


def test_their_parameters_are_those_of_the_parts():
    assert set(Sum([BondEncoding(PARTS, SIZES, 4), PathEncoding(4, 3)]).state_dict()) == {
        "encodings.0.bond.table.weight",
        "encodings.1.path.weight",
    }


def test_what_cannot_be_put_together_is_refused():
    with pytest.raises(ValueError, match="encodings of 4, 5 channels"):
        Sum([PathEncoding(4, 3), PathEncoding(5, 3)])
    for combine in (Sum, Concat):
        with pytest.raises(ValueError, match="at least one"):
            combine([])
