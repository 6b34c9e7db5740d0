"""Sums and concatenations of encodings."""

import pytest
import torch

from molattn.graph import BondEncoding, Concat, DegreeEncoding, PathEncoding, PathOneHot, RandomWalkNodes, Sum
from tests.assertions import assert_close, assert_identical
from tests.graph.encodings.batches import PARTS, SIZES, SMILES, batch_of
from tests.graph.graphs import double

BATCH = batch_of(*SMILES)


def test_sum_adds_and_concat_concatenates():
    bond, path, order = BondEncoding(PARTS, SIZES, 4), PathEncoding(4, 3), PathOneHot(3)
    added, joined = double(Sum([bond, path])), double(Concat([order, bond]))
    assert added.dim == 4 and joined.dim == 5 + 4
    assert_identical(added(BATCH), bond(BATCH) + path(BATCH))
    assert_identical(joined(BATCH), torch.cat([order(BATCH), bond(BATCH)], dim=-1))


def test_node_encodings_are_combined_in_the_same_way():
    degree, walks = DegreeEncoding(4, 3), RandomWalkNodes(5, 4)
    assert_identical(Sum([degree, walks])(BATCH), degree(BATCH) + walks(BATCH))
    assert_identical(Concat([degree, walks])(BATCH), torch.cat([degree(BATCH), walks(BATCH)], dim=-1))


def test_a_single_encoding_is_unchanged():
    path = PathEncoding(4, 3)
    assert_identical(Sum([path])(BATCH), path(BATCH))
    assert_identical(Concat([path])(BATCH), path(BATCH))


def test_the_state_dict_has_the_parameters_of_the_encodings():
    assert set(Sum([BondEncoding(PARTS, SIZES, 4), PathEncoding(4, 3)]).state_dict()) == {
        "encodings.0.bond.table.weight",
        "encodings.1.path.weight",
    }


def test_incompatible_encodings_raise():
    with pytest.raises(ValueError, match="encodings of 4, 5 channels"):
        Sum([PathEncoding(4, 3), PathEncoding(5, 3)])
    for combine in (Sum, Concat):
        with pytest.raises(ValueError, match="at least one"):
            combine([])


def test_a_sum_of_embeddings_is_one_embedding_with_their_tables():
    parts = [double(encoding) for encoding in (BondEncoding(PARTS, SIZES, 4), PathEncoding(4, 3), PathEncoding(4, 2))]
    embedding = Sum(parts).edge_embedding(BATCH)
    assert len(embedding.tables) == len(embedding.codes) == 3
    pairs = BATCH.mask.unsqueeze(-1) & BATCH.mask.unsqueeze(-2)
    assert_close(embedding.features()[pairs], Sum(parts)(BATCH)[pairs])


def test_a_sum_with_features_that_are_no_embedding_is_none():
    assert Sum([PathEncoding(5, 3), PathOneHot(3)]).edge_embedding(BATCH) is None
    assert Sum([PathOneHot(3), PathEncoding(5, 3)]).edge_embedding(BATCH) is None
